// SPDX-License-Identifier: Apache-2.0
#include "ops/linear.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "backends/cpu/thread_pool.h"
#include "core/checked.h"
#include "core/profile.h"
#include "isobit/safetensors.h"
#include "kernels/table.h"

namespace isobit::ops {
namespace {

using kernels::kPanel;

int64_t panels_of(int64_t n) { return (n + kPanel - 1) / kPanel; }

// Whether the values can be read where they are; a file may place them at any byte.
bool is_float_array(const TensorView& t) {
  return t.dtype == DType::F32 && reinterpret_cast<uintptr_t>(t.data) % alignof(float) == 0;
}

}  // namespace

PackedMatrix pack(std::span<const TensorView> parts, std::span<const std::string> names, const char* who) {
  PackedMatrix w;
  w.k = parts.front().shape[1];
  for (const TensorView& part : parts) w.n += part.shape[0];
  static SlabPool pool;
  w.panels = pool.take(checked_mul(checked_mul(panels_of(w.n), kPanel), w.k));
  const kernels::KernelTable& table = kernels::active_table();
  cpu::parallel_for(panels_of(w.n), [&](int64_t p) {
    thread_local AlignedBuffer widened;
    const int64_t count = std::min(kPanel, w.n - p * kPanel);
    const float* rows = nullptr;
    int64_t first = p * kPanel;  // of the panel, then relative to the part
    int64_t done = 0;
    for (size_t i = 0; i < parts.size() && done < count; ++i) {
      const int64_t n = parts[i].shape[0];
      if (first < n) {
        const int64_t take = std::min(n - first, count - done);
        const TensorView part = parts[i].rows(first, first + take);
        if (take == count && is_float_array(part)) {
          rows = reinterpret_cast<const float*>(part.data);
        } else {
          float* buffer = widened.at_least(count * w.k);
          widen_to_f32(part, buffer + done * w.k);
          rows = buffer;
        }
        if (table.first_nonfinite(rows + done * w.k, take * w.k) != take * w.k)
          throw ValueError(refusal(who, names[i], "finite values", "NaN or infinity"));
        done += take;
        first += take;
      }
      first -= n;
    }
    table.pack_panels(rows, count, w.k, w.panels.data() + p * kPanel * w.k);
  });
  return w;
}

void unpack_rows(const PackedMatrix& w, int64_t begin, int64_t end, float* out) {
  for (int64_t row = begin; row < end; ++row, out += w.k) {
    const float* column = w.panels.data() + row / kPanel * kPanel * w.k + row % kPanel;
    for (int64_t i = 0; i < w.k; ++i) out[i] = column[i * kPanel];
  }
}

// Units of about a quarter megabyte of weights by 96 rows: small enough to balance, large enough to reuse
// both. Pairs of panels, which a decode step reads together.
bool linear(const float* x, int64_t ldx, int64_t rows, const PackedMatrix& w, const float* bias, float* y,
            int64_t ldy) {
  const StageTimer timer("linear", w.n, w.k,
                         2.0 * static_cast<double>(rows) * static_cast<double>(w.n * w.k));
  constexpr int64_t kRows = 96;
  constexpr int64_t kUnitFloats = int64_t{1} << 16;
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t pairs = std::max<int64_t>(1, kUnitFloats / std::max<int64_t>(1, 2 * w.k * kPanel));
  const int64_t step = 2 * pairs * kPanel;
  const int64_t row_units = (rows + kRows - 1) / kRows;
  const int64_t col_units = (w.n + step - 1) / step;
  std::atomic<bool> finite{true};
  cpu::parallel_for(row_units * col_units, [&](int64_t unit) {
    const int64_t row = unit / col_units * kRows, col = unit % col_units * step;
    const int64_t n_rows = std::min(kRows, rows - row), n_cols = std::min(step, w.n - col);
    float* out = y + row * ldy + col;
    table.matmul(x + row * ldx, ldx, n_rows, w.panels.data() + col * w.k, w.k, n_cols,
                 bias ? bias + col : nullptr, out, ldy);
    for (int64_t r = 0; r < n_rows; ++r)
      if (table.first_nonfinite(out + r * ldy, n_cols) != n_cols)
        finite.store(false, std::memory_order_relaxed);
  });
  return finite;
}

}  // namespace isobit::ops

// SPDX-License-Identifier: Apache-2.0
#include "ops/linear.h"

#include <algorithm>
#include <atomic>

#include "backends/cpu/thread_pool.h"
#include "core/profile.h"
#include "kernels/table.h"
#include "ops/deferred_matrix.h"
#include "ops/integer_matrix.h"

namespace isobit::ops {
namespace {

using kernels::kPanel;

// Columns [col, col + cols) of x W^T (+ bias) from rows that nothing has packed.
void product_of_rows(const kernels::KernelTable& table, const float* x, int64_t ldx, int64_t rows,
                     const WeightRows& w, int64_t col, int64_t cols, const float* bias, float* y,
                     int64_t ldy) {
  thread_local AlignedBuffer widened, panels;
  float* to = panels.at_least((cols + kPanel - 1) / kPanel * kPanel * w.k());
  for (int64_t i = 0; i < cols; i += kPanel) {
    const int64_t count = std::min(kPanel, cols - i);
    table.pack_panels(w.read(col + i, count, widened, WeightRows::Checks::kNone), count, w.k(),
                      to + i * w.k());
  }
  table.matmul(x, ldx, rows, to, w.k(), cols, bias, y, ldy);
}

// The same in whichever format W is.
void product(const kernels::KernelTable& table, const float* x, int64_t ldx, int64_t rows,
             const PackedMatrix& w, int64_t col, int64_t cols, const float* bias, float* y, int64_t ldy) {
  thread_local AlignedBuffer scratch;
  const int64_t begin = col * w.k;
  switch (w.format) {
    case WeightFormat::kFloat32:
      return table.matmul(x, ldx, rows, w.panels.data() + begin, w.k, cols, bias, y, ldy);
    case WeightFormat::kBfloat16:
      return table.matmul_bf16(x, ldx, rows, w.bf16() + begin, w.k, cols, bias, y, ldy,
                               scratch.at_least(kPanel * w.k));
    case WeightFormat::kInt8:
      return table.matmul_int8(x, ldx, rows, w.int8() + begin, w.scales.data() + col, w.k, cols, bias, y, ldy,
                               scratch.at_least(kPanel * w.k));
  }
}

// Columns of a unit: about a quarter megabyte of weights, and enough units to keep all threads busy to the
// end. Pairs of panels where a step of decoding reads them together, or int8 keeps them so.
int64_t unit_columns(int64_t rows, const PackedMatrix& w) {
  constexpr int64_t kFloats = int64_t{1} << 16, kUnits = 16;
  const int64_t panels = std::min(kFloats / std::max<int64_t>(1, w.k * kPanel), w.n / (kUnits * kPanel));
  const int64_t least = rows <= 2 || w.format == WeightFormat::kInt8 ? 2 : 1;
  return std::max(least, panels / least * least) * kPanel;
}

// Rows that begin a multiple of a page apart compete for the same few lines of the first-level cache, so many
// of them are copied to rows that do not. Returns the leading dimension of those that x then points to.
int64_t spread_rows(const float*& x, int64_t ldx, int64_t rows, int64_t k) {
  constexpr int64_t kPage = 1024, kLine = 16, kRows = 16;  // floats, rows of one unit
  if (ldx % kPage != 0 || rows <= 4) return ldx;
  thread_local AlignedBuffer buffer;
  const int64_t ld = k + kLine;
  float* to = buffer.at_least(rows * ld);
  cpu::parallel_for((rows + kRows - 1) / kRows, [&](int64_t unit) {
    for (int64_t r = unit * kRows; r < std::min(rows, (unit + 1) * kRows); ++r)
      std::copy_n(x + r * ldx, k, to + r * ld);
  });
  x = to;
  return ld;
}

}  // namespace

bool linear(const float* x, int64_t ldx, int64_t rows, const PackedMatrix& w, const float* bias, float* y,
            int64_t ldy, Terms terms) {
  std::shared_ptr<const WeightRows> source;  // while nothing has packed w
  if (w.deferred) source = w.deferred->use(DeferredMatrix::Use::kProduct);
  if (w.deferred && !source) return linear(x, ldx, rows, *w.deferred->packed(), bias, y, ldy, terms);
  const StageTimer timer("linear", w.n, w.k,
                         2.0 * static_cast<double>(rows) * static_cast<double>(w.n * w.k));
  constexpr int64_t kRows = 96;
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t step = unit_columns(rows, w);
  const int64_t row_units = (rows + kRows - 1) / kRows;
  const int64_t col_units = (w.n + step - 1) / step;
  thread_local IntegerRows own_rows, own_rest;
  thread_local AlignedBuffer remainder;
  IntegerRows &quantized = own_rows, &rest = own_rest;  // of the calling thread, for all of the pool
  const bool two = terms == Terms::kTwo && w.profile == NumericProfile::kInt8x32V1;
  if (w.is_integer())
    quantized.quantize(table, x, ldx, rows, w);
  else
    ldx = spread_rows(x, ldx, rows, w.k);
  if (two) {
    quantized.remainder(x, ldx, rows, w, remainder.at_least(rows * w.k));
    rest.quantize(table, remainder.data(), w.k, rows, w);
  }
  std::atomic<bool> finite{true};
  cpu::parallel_for(row_units * col_units, [&](int64_t unit) {
    const int64_t row = unit / col_units * kRows, col = unit % col_units * step;
    const int64_t n_rows = std::min(kRows, rows - row), n_cols = std::min(step, w.n - col);
    float* out = y + row * ldy + col;
    const float* shift = bias ? bias + col : nullptr;
    if (w.is_integer())
      quantized.multiply(table, row, n_rows, w, col, n_cols, shift, out, ldy);
    else if (source)
      product_of_rows(table, x + row * ldx, ldx, n_rows, *source, col, n_cols, shift, out, ldy);
    else
      product(table, x + row * ldx, ldx, n_rows, w, col, n_cols, shift, out, ldy);
    if (two) {
      thread_local AlignedBuffer second;
      rest.multiply(table, row, n_rows, w, col, n_cols, nullptr, second.at_least(n_rows * n_cols), n_cols);
      for (int64_t r = 0; r < n_rows; ++r)
        table.add(out + r * ldy, second.data() + r * n_cols, n_cols, out + r * ldy);
    }
    for (int64_t r = 0; r < n_rows; ++r)
      if (table.first_nonfinite(out + r * ldy, n_cols) != n_cols)
        finite.store(false, std::memory_order_relaxed);
  });
  if (source) source->check_unchanged();
  return finite;
}

}  // namespace isobit::ops

// SPDX-License-Identifier: Apache-2.0
// Weights into panels in the format they are kept in, and back.
#include <algorithm>
#include <string>
#include <vector>

#include "backends/cpu/thread_pool.h"
#include "core/checked.h"
#include "isobit/safetensors.h"
#include "kernels/table.h"
#include "ops/deferred_matrix.h"
#include "ops/integer_matrix.h"
#include "ops/linear.h"

namespace isobit::ops {
namespace {

using kernels::kPanel;

int64_t panels_of(int64_t n) { return (n + kPanel - 1) / kPanel; }

// What panels of [n, k] in a format take.
int64_t panel_floats(WeightFormat format, int64_t n, int64_t k) {
  const int64_t columns = checked_mul(panels_of(n), kPanel);
  switch (format) {
    case WeightFormat::kFloat32:
      return checked_mul(columns, k);
    case WeightFormat::kBfloat16:
      return checked_mul(columns / 2, k);
    case WeightFormat::kInt8:
      return checked_mul((n + kernels::kInt8Panel - 1) / kernels::kInt8Panel * kernels::kInt8Panel / 4, k);
  }
  return 0;
}

// panels[index(first + j, i, k)] = rows[j][i].
template <auto index, typename T>
void place(const T* rows, int64_t first, int64_t count, int64_t k, T* panels) {
  constexpr int64_t kStep = 64;
  for (int64_t i0 = 0; i0 < k; i0 += kStep)
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = i0; i < std::min(i0 + kStep, k); ++i) panels[index(first + j, i, k)] = rows[j * k + i];
}

std::vector<uint16_t> rounded_to_bf16(const WeightRows& source, const float* rows, int64_t first,
                                      int64_t count) {
  const int64_t k = source.k();
  std::vector<uint16_t> bits(static_cast<size_t>(count * k));
  const int64_t bad = round_to_bf16(rows, count * k, bits.data());
  if (bad != count * k)
    throw ValueError(refusal(source.who(), source.name_of(first + bad / k), "values that bfloat16 can hold",
                             "one that rounds to infinity"));
  return bits;
}

void pack_int8(const float* rows, int64_t first, int64_t count, PackedMatrix& w) {
  std::vector<int8_t> codes(static_cast<size_t>(count * w.k));
  for (int64_t j = 0; j < count; ++j) {
    int8_t* row = codes.data() + j * w.k;
    int32_t e = quantize_int8(rows + j * w.k, w.k, row);
    // A scale below 2^-149 is no float32; the codes of such a row are multiples of what is missing.
    for (; e < -149; ++e)
      for (int64_t i = 0; i < w.k; ++i) row[i] = static_cast<int8_t>(row[i] / 2);
    const int8_t one = 1;
    widen_int8(&one, 1, e, w.scales.data() + first + j);
  }
  place<kernels::int8_index>(codes.data(), first, count, w.k, w.int8());
}

// What the rows widen to once they were stored in a format.
const float* stored(const WeightRows& source, const float* rows, int64_t first, int64_t count,
                    const PackedMatrix& w, AlignedBuffer& buffer) {
  if (w.format == WeightFormat::kFloat32) return rows;
  float* out = buffer.at_least(count * w.k);
  if (w.format == WeightFormat::kBfloat16) {
    widen_bf16(rounded_to_bf16(source, rows, first, count).data(), count * w.k, out);
  } else {
    std::vector<int8_t> codes(static_cast<size_t>(w.k));
    for (int64_t j = 0; j < count; ++j) {
      const int32_t e = quantize_int8(rows + j * w.k, w.k, codes.data());
      widen_int8(codes.data(), w.k, e, out + j * w.k);
    }
  }
  return out;
}

// 4-bit panels where all parts are of one 4-bit type.
BlockType common_blocks(const std::vector<TensorView>& parts, WeightFormat format, NumericProfile profile) {
  const BlockType first = parts.front().blocks;
  for (const TensorView& part : parts)
    if (!keeps_blocks(part, format, profile) || part.blocks != first) return BlockType::kNone;
  return first == BlockType::kQ8_0 ? BlockType::kNone : first;
}

// What loses nothing of the format asked for: float32 needs no more than two bytes of BF16.
WeightFormat smallest_exact(const WeightRows& source, WeightFormat asked, NumericProfile profile) {
  const bool all_bf16 = std::all_of(source.parts().begin(), source.parts().end(), [](const TensorView& part) {
    return part.dtype == DType::BF16 && part.blocks == BlockType::kNone;
  });
  return asked == WeightFormat::kFloat32 && profile == NumericProfile::kFp32V1 && all_bf16
             ? WeightFormat::kBfloat16
             : asked;
}

}  // namespace

bool keeps_blocks(const TensorView& part, WeightFormat format, NumericProfile profile) {
  return part.blocks != BlockType::kNone && format == WeightFormat::kFloat32 &&
         profile == NumericProfile::kInt8x32V1;
}

PackedMatrix pack_rows(const WeightRows& source, WeightFormat format, NumericProfile profile) {
  PackedMatrix w;
  w.format = format;
  w.profile = profile;
  w.kept = common_blocks(source.parts(), format, profile);
  w.k = source.k();
  w.n = source.n();
  static SlabPool pool;
  if (w.is_integer()) {
    expect(profile != NumericProfile::kFixed15V1 || w.k <= kernels::kMaxIntegerK, source.who(),
           source.name_of(0), "at most " + std::to_string(kernels::kMaxIntegerK) + " columns for fixed15_v1",
           std::to_string(w.k));
    allocate_integer_panels(w, pool);
  } else {
    w.panels = pool.take(panel_floats(format, w.n, w.k));
    if (format == WeightFormat::kInt8) w.scales = pool.take(panels_of(w.n) * kPanel);
  }
  const auto pack_panel = [&](int64_t first, int64_t count) {
    thread_local AlignedBuffer widened;
    const float* rows = source.read(first, count, widened, WeightRows::Checks::kAll);
    if (w.is_integer()) {
      thread_local AlignedBuffer again;
      if (w.kept == BlockType::kNone)
        pack_integer_panel(kernels::active_table(), stored(source, rows, first, count, w, again), first,
                           count, w);
      for (int64_t row = first; row < first + count; ++row)
        if (const TensorView part = source.row(row); keeps_blocks(part, format, profile))
          if (w.kept != BlockType::kNone || part.blocks != BlockType::kQ4_1) keep_block_row(part, row, w);
      return;
    }
    switch (format) {
      case WeightFormat::kFloat32:
        return kernels::active_table().pack_panels(rows, count, w.k, w.panels.data() + first * w.k);
      case WeightFormat::kBfloat16:
        return place<kernels::bf16_index>(rounded_to_bf16(source, rows, first, count).data(), first, count,
                                          w.k, w.bf16());
      case WeightFormat::kInt8:
        return pack_int8(rows, first, count, w);
    }
  };
  // About a megabyte at a time, so that the file's pages go as the panels come.
  const int64_t step = std::max<int64_t>(1, (int64_t{1} << 18) / (w.k * kPanel)) * kPanel;
  cpu::parallel_for((w.n + step - 1) / step, [&](int64_t unit) {
    const int64_t begin = unit * step, end = std::min(begin + step, w.n);
    for (int64_t row = begin; row < end; row += kPanel) pack_panel(row, std::min(kPanel, end - row));
    source.drop(begin, end - begin);
  });
  source.check_unchanged();
  return w;
}

PackedMatrix pack(std::span<const TensorView> parts, std::span<const std::string> names, const char* who,
                  WeightFormat asked, NumericProfile profile) {
  WeightRows source(parts, names, who);
  const WeightFormat format = smallest_exact(source, asked, profile);
  if (!can_defer(source, format, profile)) return pack_rows(source, format, profile);
  cpu::parallel_for(panels_of(source.n()), [&](int64_t p) {
    thread_local AlignedBuffer widened;
    const int64_t first = p * kPanel, count = std::min(kPanel, source.n() - first);
    source.read(first, count, widened, WeightRows::Checks::kAll);
  });
  PackedMatrix w;
  w.format = format;
  w.k = source.k();
  w.n = source.n();
  w.deferred = std::make_shared<DeferredMatrix>(std::move(source), format);
  return w;
}

void unpack_rows(const WeightRows& source, int64_t begin, int64_t end, float* out) {
  thread_local AlignedBuffer widened;
  std::copy_n(source.read(begin, end - begin, widened, WeightRows::Checks::kNone), (end - begin) * source.k(),
              out);
}

void unpack_rows(const PackedMatrix& w, int64_t begin, int64_t end, float* out) {
  if (w.deferred) {
    const std::shared_ptr<const WeightRows> source = w.deferred->rows();
    if (!source) return unpack_rows(*w.deferred->packed(), begin, end, out);
    source->check_unchanged();
    unpack_rows(*source, begin, end, out);
    return source->check_unchanged();
  }
  for (int64_t row = begin; row < end; ++row, out += w.k) {
    if (w.is_integer()) {
      unpack_integer_row(w, row, out);
      continue;
    }
    switch (w.format) {
      case WeightFormat::kFloat32:
        for (int64_t i = 0; i < w.k; ++i)
          out[i] = w.panels.data()[row / kPanel * kPanel * w.k + i * kPanel + row % kPanel];
        break;
      case WeightFormat::kBfloat16:
        for (int64_t i = 0; i < w.k; ++i) widen_bf16(w.bf16() + kernels::bf16_index(row, i, w.k), 1, out + i);
        break;
      case WeightFormat::kInt8:
        for (int64_t i = 0; i < w.k; ++i)
          out[i] = static_cast<float>(w.int8()[kernels::int8_index(row, i, w.k)]) * w.scales.data()[row];
        break;
    }
  }
}

}  // namespace isobit::ops

int64_t isobit::PackedMatrix::bytes() const {
  const int64_t floats = deferred ? ops::panel_floats(format, n, k) : panels.size() + scales.size();
  return floats * static_cast<int64_t>(sizeof(float));
}

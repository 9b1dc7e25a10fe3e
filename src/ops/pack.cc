// SPDX-License-Identifier: Apache-2.0
// Weights into panels in the format they are kept in, and back.
#include <algorithm>
#include <string>
#include <vector>

#include "backends/cpu/thread_pool.h"
#include "core/checked.h"
#include "isobit/safetensors.h"
#include "kernels/table.h"
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

// Whether the values can be read where they are; a file may place them at any byte.
bool is_float_array(const TensorView& t) {
  return t.dtype == DType::F32 && reinterpret_cast<uintptr_t>(t.data) % alignof(float) == 0;
}

/// Parts below each other as one matrix of k columns.
class Stack {
 public:
  Stack(std::span<const TensorView> parts, std::span<const std::string> names, const char* who)
      : parts_(parts), names_(names), who_(who), k_(parts.front().shape[1]) {}

  /// Rows [first, first + count) as float32, where they are or widened into `buffer`; all finite.
  const float* rows(int64_t first, int64_t count, AlignedBuffer& buffer) const {
    int64_t done = 0;
    const float* found = nullptr;
    for (size_t i = 0; done < count; ++i) {
      const int64_t n = parts_[i].shape[0];
      if (first < n) {
        const int64_t take = std::min(n - first, count - done);
        const TensorView part = parts_[i].rows(first, first + take);
        if (take == count && is_float_array(part)) {
          found = reinterpret_cast<const float*>(part.data);
        } else {
          found = buffer.at_least(count * k_);
          widen_to_f32(part, buffer.data() + done * k_);
        }
        refuse_least_code(part, names_[i]);
        if (kernels::active_table().first_nonfinite(found + done * k_, take * k_) != take * k_)
          throw ValueError(refusal(who_, names_[i], "finite values", "NaN or infinity"));
        done += take;
        first += take;
      }
      first -= n;
    }
    return found;
  }

  const std::string& name_of(int64_t row) const { return names_[part_of(row)]; }
  /// One row of the part it is in.
  TensorView row(int64_t row) const {
    const size_t i = part_of(row);
    return parts_[i].rows(row, row + 1);
  }

 private:
  /// Which part `row` is in; it becomes a row of that.
  size_t part_of(int64_t& row) const {
    size_t i = 0;
    for (; row >= parts_[i].shape[0]; ++i) row -= parts_[i].shape[0];
    return i;
  }
  void refuse_least_code(const TensorView& part, const std::string& name) const {
    if (part.blocks != BlockType::kQ8_0) return;
    const int64_t bytes = block_bytes(part.blocks);
    for (int64_t i = 0; i < part.bytes(); ++i)
      if (i % bytes >= 2 && part.data[i] == std::byte{128})
        throw ValueError(refusal(who_, name, "codes in -127..127", "-128"));
  }

  std::span<const TensorView> parts_;
  std::span<const std::string> names_;
  const char* who_;
  int64_t k_;
};

// panels[index(first + j, i, k)] = rows[j][i].
template <auto index, typename T>
void place(const T* rows, int64_t first, int64_t count, int64_t k, T* panels) {
  constexpr int64_t kStep = 64;
  for (int64_t i0 = 0; i0 < k; i0 += kStep)
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = i0; i < std::min(i0 + kStep, k); ++i) panels[index(first + j, i, k)] = rows[j * k + i];
}

std::vector<uint16_t> rounded_to_bf16(const Stack& stack, const float* rows, int64_t first, int64_t count,
                                      int64_t k, const char* who) {
  std::vector<uint16_t> bits(static_cast<size_t>(count * k));
  const int64_t bad = round_to_bf16(rows, count * k, bits.data());
  if (bad != count * k)
    throw ValueError(refusal(who, stack.name_of(first + bad / k), "values that bfloat16 can hold",
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
const float* stored(const Stack& stack, const float* rows, int64_t first, int64_t count, const char* who,
                    const PackedMatrix& w, AlignedBuffer& buffer) {
  if (w.format == WeightFormat::kFloat32) return rows;
  float* out = buffer.at_least(count * w.k);
  if (w.format == WeightFormat::kBfloat16) {
    widen_bf16(rounded_to_bf16(stack, rows, first, count, w.k, who).data(), count * w.k, out);
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
BlockType common_blocks(std::span<const TensorView> parts, WeightFormat format, NumericProfile profile) {
  const BlockType first = parts.front().blocks;
  for (const TensorView& part : parts)
    if (!keeps_blocks(part, format, profile) || part.blocks != first) return BlockType::kNone;
  return first == BlockType::kQ8_0 ? BlockType::kNone : first;
}

}  // namespace

bool keeps_blocks(const TensorView& part, WeightFormat format, NumericProfile profile) {
  return part.blocks != BlockType::kNone && format == WeightFormat::kFloat32 &&
         profile == NumericProfile::kInt8x32V1;
}

PackedMatrix pack(std::span<const TensorView> parts, std::span<const std::string> names, const char* who,
                  WeightFormat format, NumericProfile profile) {
  PackedMatrix w;
  w.format = format;
  w.profile = profile;
  w.kept = common_blocks(parts, format, profile);
  w.k = parts.front().shape[1];
  for (const TensorView& part : parts) w.n += part.shape[0];
  static SlabPool pool;
  if (w.is_integer()) {
    expect(profile != NumericProfile::kFixed15V1 || w.k <= kernels::kMaxIntegerK, who, names.front(),
           "at most " + std::to_string(kernels::kMaxIntegerK) + " columns for fixed15_v1",
           std::to_string(w.k));
    allocate_integer_panels(w, pool);
  } else {
    w.panels = pool.take(panel_floats(format, w.n, w.k));
    if (format == WeightFormat::kInt8) w.scales = pool.take(panels_of(w.n) * kPanel);
  }
  const Stack stack(parts, names, who);
  cpu::parallel_for(panels_of(w.n), [&](int64_t p) {
    thread_local AlignedBuffer widened;
    const int64_t first = p * kPanel, count = std::min(kPanel, w.n - first);
    const float* rows = stack.rows(first, count, widened);
    if (w.is_integer()) {
      thread_local AlignedBuffer again;
      if (w.kept == BlockType::kNone)
        pack_integer_panel(kernels::active_table(), stored(stack, rows, first, count, who, w, again), first,
                           count, w);
      for (int64_t row = first; row < first + count; ++row)
        if (const TensorView part = stack.row(row); keeps_blocks(part, format, profile))
          if (w.kept != BlockType::kNone || part.blocks != BlockType::kQ4_1) keep_block_row(part, row, w);
      return;
    }
    switch (format) {
      case WeightFormat::kFloat32:
        return kernels::active_table().pack_panels(rows, count, w.k, w.panels.data() + first * w.k);
      case WeightFormat::kBfloat16:
        return place<kernels::bf16_index>(rounded_to_bf16(stack, rows, first, count, w.k, who).data(), first,
                                          count, w.k, w.bf16());
      case WeightFormat::kInt8:
        return pack_int8(rows, first, count, w);
    }
  });
  return w;
}

void unpack_rows(const PackedMatrix& w, int64_t begin, int64_t end, float* out) {
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

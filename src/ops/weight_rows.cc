// SPDX-License-Identifier: Apache-2.0
#include "ops/weight_rows.h"

#include <algorithm>

#include "checkpoint/file_io.h"
#include "core/checked.h"
#include "isobit/safetensors.h"
#include "kernels/table.h"

namespace isobit::ops {
namespace {

// Whether the values can be read where they are; a file may place them at any byte.
bool is_float_array(const TensorView& t) {
  return t.dtype == DType::F32 && reinterpret_cast<uintptr_t>(t.data) % alignof(float) == 0;
}

}  // namespace

WeightRows::WeightRows(std::span<const TensorView> parts, std::span<const std::string> names, const char* who)
    : parts_(parts.begin(), parts.end()),
      names_(names.begin(), names.end()),
      who_(who),
      k_(parts.front().shape[1]) {
  for (const TensorView& part : parts) n_ += part.shape[0];
}

size_t WeightRows::part_of(int64_t& row) const {
  size_t i = 0;
  for (; row >= parts_[i].shape[0]; ++i) row -= parts_[i].shape[0];
  return i;
}

TensorView WeightRows::row(int64_t row) const {
  const size_t i = part_of(row);
  return parts_[i].rows(row, row + 1);
}

const float* WeightRows::read(int64_t first, int64_t count, AlignedBuffer& buffer, Checks checks) const {
  const float* found = nullptr;
  int64_t done = 0;
  for (size_t i = part_of(first); done < count; ++i, first = 0) {
    const int64_t take = std::min(parts_[i].shape[0] - first, count - done);
    const TensorView part = parts_[i].rows(first, first + take);
    if (take == count && is_float_array(part)) {
      found = reinterpret_cast<const float*>(part.data);
    } else {
      found = buffer.at_least(count * k_);
      widen_to_f32(part, buffer.data() + done * k_);
    }
    if (checks == Checks::kAll) check(part, names_[i], found + done * k_);
    done += take;
  }
  return found;
}

void WeightRows::check(const TensorView& part, const std::string& name, const float* values) const {
  if (part.blocks == BlockType::kQ8_0)
    for (int64_t i = 0, bytes = block_bytes(part.blocks); i < part.bytes(); ++i)
      if (i % bytes >= 2 && part.data[i] == std::byte{128})
        throw ValueError(refusal(who_, name, "codes in -127..127", "-128"));
  if (kernels::active_table().first_nonfinite(values, part.size()) != part.size())
    throw ValueError(refusal(who_, name, "finite values", "NaN or infinity"));
}

void WeightRows::check_unchanged() const {
  for (const TensorView& part : parts_)
    if (part.file) part.file->check_unchanged();
}

void WeightRows::drop(int64_t first, int64_t count) const {
  for (size_t i = part_of(first); count > 0; ++i, first = 0) {
    const int64_t take = std::min(parts_[i].shape[0] - first, count);
    const TensorView part = parts_[i].rows(first, first + take);
    if (part.file) part.file->drop({part.data, static_cast<size_t>(part.bytes())});
    count -= take;
  }
}

}  // namespace isobit::ops

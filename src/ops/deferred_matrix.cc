// SPDX-License-Identifier: Apache-2.0
#include "ops/deferred_matrix.h"

#include <algorithm>

namespace isobit::ops {

const PackedMatrix* DeferredMatrix::use(Use kind) {
  if (const PackedMatrix* ready = packed()) return ready;
  rows_.check_unchanged();
  if (!used_[static_cast<int>(kind)].exchange(true)) return nullptr;
  const std::unique_lock lock(packing_, std::try_to_lock);
  if (!lock) return nullptr;
  if (!packed()) {
    matrix_ = pack_rows(rows_, format_, NumericProfile::kFp32V1);
    is_packed_.store(true, std::memory_order_release);
  }
  return &matrix_;
}

bool can_defer(const WeightRows& rows, WeightFormat format, NumericProfile profile) {
  if (profile != NumericProfile::kFp32V1 || format == WeightFormat::kInt8) return false;
  return std::all_of(rows.parts().begin(), rows.parts().end(), [&](const TensorView& part) {
    return part.file && part.blocks == BlockType::kNone &&
           (format == WeightFormat::kFloat32 || part.dtype == DType::BF16);
  });
}

}  // namespace isobit::ops

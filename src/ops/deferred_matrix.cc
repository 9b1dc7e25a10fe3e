// SPDX-License-Identifier: Apache-2.0
#include "ops/deferred_matrix.h"

#include <algorithm>
#include <new>

namespace isobit::ops {

std::shared_ptr<const WeightRows> DeferredMatrix::rows() const {
  const std::lock_guard lock(rows_mutex_);
  return rows_;
}

std::shared_ptr<const WeightRows> DeferredMatrix::use(Use kind) {
  std::shared_ptr<const WeightRows> source = rows();
  if (!source) return nullptr;
  source->check_unchanged();
  if (!used_[static_cast<int>(kind)].exchange(true)) return source;
  const std::unique_lock lock(packing_, std::try_to_lock);
  if (!lock) return source;
  if (packed()) return nullptr;
  try {
    matrix_ = pack_rows(*source, format_, NumericProfile::kFp32V1);
  } catch (const std::bad_alloc&) {
    return source;
  }
  is_packed_.store(true, std::memory_order_release);
  const std::lock_guard rows_lock(rows_mutex_);
  rows_ = nullptr;
  return nullptr;
}

bool can_defer(const WeightRows& rows, WeightFormat format, NumericProfile profile) {
  if (profile != NumericProfile::kFp32V1 || format == WeightFormat::kInt8) return false;
  return std::all_of(rows.parts().begin(), rows.parts().end(), [&](const TensorView& part) {
    return part.file && part.blocks == BlockType::kNone &&
           (format == WeightFormat::kFloat32 || part.dtype == DType::BF16);
  });
}

}  // namespace isobit::ops

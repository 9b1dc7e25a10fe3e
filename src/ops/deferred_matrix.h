// SPDX-License-Identifier: Apache-2.0
// A matrix that its file holds until it is used again.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "ops/linear.h"
#include "ops/weight_rows.h"

namespace isobit::ops {

/// The first use reads the rows where the file has them, so that whoever asks a model once does not wait for
/// all of it to be packed; the second packs them and lets go of the file. Calls may come from several
/// threads.
class DeferredMatrix {
 public:
  DeferredMatrix(WeightRows rows, WeightFormat format)
      : format_(format), rows_(std::make_shared<const WeightRows>(std::move(rows))) {}

  /// A table may serve both in one pass.
  enum class Use { kProduct, kLookup };
  /// Counts a use. The rows that it is to read: in the first of its kind, while another thread packs, or for
  /// want of memory to pack into; they must be check_unchanged() afterwards. Null once there are panels.
  /// ValueError where the file has been written since it was opened.
  std::shared_ptr<const WeightRows> use(Use kind);
  /// Null once there are panels.
  std::shared_ptr<const WeightRows> rows() const;
  /// Null before.
  const PackedMatrix* packed() const {
    return is_packed_.load(std::memory_order_acquire) ? &matrix_ : nullptr;
  }

 private:
  const WeightFormat format_;
  std::atomic<bool> used_[2] = {}, is_packed_ = false;
  std::mutex packing_;
  PackedMatrix matrix_;
  mutable std::mutex rows_mutex_;
  std::shared_ptr<const WeightRows> rows_;
};

/// Whether the rows can stay where they are: in files, and of values that the format holds as they are.
bool can_defer(const WeightRows& rows, WeightFormat format, NumericProfile profile);

/// Into panels now.
PackedMatrix pack_rows(const WeightRows& rows, WeightFormat format, NumericProfile profile);

}  // namespace isobit::ops

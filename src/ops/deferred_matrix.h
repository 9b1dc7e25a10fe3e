// SPDX-License-Identifier: Apache-2.0
// A matrix that its file holds until it is used again.
#pragma once

#include <atomic>
#include <mutex>

#include "ops/linear.h"
#include "ops/weight_rows.h"

namespace isobit::ops {

/// The first use reads the rows where the file has them, so that whoever asks a model once does not wait for
/// all of it to be packed; the second packs them. Calls may come from several threads.
class DeferredMatrix {
 public:
  DeferredMatrix(WeightRows rows, WeightFormat format) : rows_(std::move(rows)), format_(format) {}

  /// A table may serve both in one pass.
  enum class Use { kProduct, kLookup };
  /// Counts a use. Null where it is to read `rows`: the first of its kind, and any while another thread
  /// packs. ValueError where the file has been written since it was opened.
  const PackedMatrix* use(Use kind);
  /// Null before anything was packed.
  const PackedMatrix* packed() const {
    return is_packed_.load(std::memory_order_acquire) ? &matrix_ : nullptr;
  }
  const WeightRows& rows() const { return rows_; }

 private:
  const WeightRows rows_;
  const WeightFormat format_;
  std::atomic<bool> used_[2] = {}, is_packed_ = false;
  std::mutex packing_;
  PackedMatrix matrix_;
};

/// Whether the rows can stay where they are: in files, and of values that the format holds as they are.
bool can_defer(const WeightRows& rows, WeightFormat format, NumericProfile profile);

/// Into panels now.
PackedMatrix pack_rows(const WeightRows& rows, WeightFormat format, NumericProfile profile);

}  // namespace isobit::ops

// SPDX-License-Identifier: Apache-2.0
// Weights as they are given: tensors below each other, read row by row as float32.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/aligned_buffer.h"
#include "isobit/tensor.h"

namespace isobit::ops {

/// Parts [n_i, k] of F32, F16, BF16 or blocks as one matrix [n, k]. `who` opens the messages, which name the
/// part.
class WeightRows {
 public:
  WeightRows(std::span<const TensorView> parts, std::span<const std::string> names, const char* who);

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  const char* who() const { return who_.c_str(); }
  const std::vector<TensorView>& parts() const { return parts_; }
  const std::string& name_of(int64_t row) const { return names_[part_of(row)]; }
  /// One row of the part it is in.
  TensorView row(int64_t row) const;

  enum class Checks { kNone, kAll };
  /// Rows [first, first + count) as float32, where they are or widened into `buffer`. With all checks
  /// ValueError for a value that is not finite or a code of -128.
  const float* read(int64_t first, int64_t count, AlignedBuffer& buffer, Checks checks) const;

  /// ValueError where a file that parts lie in has been written since it was opened.
  void check_unchanged() const;
  /// Tells the kernel that the pages of rows that lie in files will not be needed again.
  void drop(int64_t first, int64_t count) const;

 private:
  /// Which part `row` is in; it becomes a row of that.
  size_t part_of(int64_t& row) const;
  void check(const TensorView& part, const std::string& name, const float* values) const;

  std::vector<TensorView> parts_;
  std::vector<std::string> names_;
  std::string who_;
  int64_t n_ = 0, k_ = 0;
};

}  // namespace isobit::ops

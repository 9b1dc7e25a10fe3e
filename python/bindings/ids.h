// SPDX-License-Identifier: Apache-2.0
// Integers, other scalars and paths from Python.
#pragma once

#include <nanobind/nanobind.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "array.h"

namespace isobit::python {

/// An argument of integers, measured before it is read: a broadcast array can say that it is larger than all
/// memory. An array of any integer type, or nested lists and tuples.
class Ids {
 public:
  /// ValueError for ragged lists or a number of axes outside [min_axes, max_axes].
  Ids(nanobind::handle object, const std::string& op, const std::string& argument, size_t min_axes,
      size_t max_axes);

  const std::vector<int64_t>& shape() const { return shape_; }
  /// Widened to int64. TypeError for bool and float, ValueError for values beyond int64.
  std::vector<int64_t> values() const;

 private:
  std::string op_, argument_;
  std::vector<int64_t> shape_;
  std::vector<nanobind::object> items_;  // of lists
  std::optional<StridedView> view_;      // of an array
};

/// Nothing for None, else one integer for each of `rows` rows.
std::vector<int64_t> read_lengths(nanobind::handle object, const std::string& op, int64_t rows);

/// One Python integer (not bool).
int64_t read_int(nanobind::handle object, const std::string& op, const std::string& argument);
/// One Python number (not bool).
double read_double(nanobind::handle object, const std::string& op, const std::string& argument);
bool read_bool(nanobind::handle object, const std::string& op, const std::string& argument);
/// As UTF-8; ValueError for a lone surrogate, which has none.
std::string read_string(nanobind::handle object, const std::string& op, const std::string& argument);
/// A str, bytes or os.PathLike; ValueError for an empty path or one with a NUL.
std::filesystem::path read_path(nanobind::handle object, const std::string& op, const std::string& argument);

}  // namespace isobit::python

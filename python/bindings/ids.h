// SPDX-License-Identifier: Apache-2.0
// Integers, other scalars and paths from Python.
#pragma once

#include <nanobind/nanobind.h>

#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace isobit::python {

/// Integers widened to int64. `shape` has as many axes as the argument.
struct Ids {
  std::vector<int64_t> values;
  std::vector<int64_t> shape;
};

/// From an array of any integer type or nested lists and tuples. TypeError for bool and float, ValueError for
/// ragged lists, values beyond int64, a number of axes outside [min_axes, max_axes], or rows (of two axes)
/// longer than `longest`.
Ids read_ids(nanobind::handle object, const std::string& op, const std::string& argument, size_t min_axes,
             size_t max_axes, int64_t longest = std::numeric_limits<int64_t>::max());

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

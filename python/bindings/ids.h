// SPDX-License-Identifier: Apache-2.0
// Integers from Python: token ids, lengths and counts.
#pragma once

#include <nanobind/nanobind.h>

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
/// ragged lists, values beyond int64 or a number of axes outside [min_axes, max_axes].
Ids read_ids(nanobind::handle object, const std::string& op, const std::string& argument, size_t min_axes,
             size_t max_axes);

/// One Python integer (not bool).
int64_t read_int(nanobind::handle object, const std::string& op, const std::string& argument);
/// One Python number (not bool).
double read_double(nanobind::handle object, const std::string& op, const std::string& argument);
bool read_bool(nanobind::handle object, const std::string& op, const std::string& argument);
std::string read_string(nanobind::handle object, const std::string& op, const std::string& argument);

}  // namespace isobit::python

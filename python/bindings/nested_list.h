// SPDX-License-Identifier: Apache-2.0
// Nested Python lists and tuples as a shape and a flat row-major sequence.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

namespace isobit::python {

struct NestedList {
  std::vector<int64_t> shape;
  std::vector<nanobind::object> items;
};

bool is_list_or_tuple(nanobind::handle object);
/// ValueError when rows differ in length or depth, or there are more than max_axes levels.
NestedList read_nested(nanobind::handle object, size_t max_axes, const std::string& op,
                       const std::string& argument);

}  // namespace isobit::python

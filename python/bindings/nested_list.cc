// SPDX-License-Identifier: Apache-2.0
// Nested Python lists and tuples as a shape and a flat row-major sequence.
#include "nested_list.h"

#include "errors.h"
#include "isobit/error.h"

namespace nb = nanobind;

namespace isobit::python {
namespace {

// The items of a list or tuple at one moment: a subclass may say another length, or change while it is read.
nb::tuple items_of(nb::handle row) {
  nb::object items = nb::steal(PySequence_Tuple(row.ptr()));
  if (!items.is_valid()) throw nb::python_error();
  return nb::borrow<nb::tuple>(items);
}

// The lengths along the first items; bounded, because a list can contain itself.
std::vector<int64_t> leading_shape(nb::handle object, size_t max_axes, const std::string& op,
                                   const std::string& argument) {
  std::vector<int64_t> shape;
  nb::object level = nb::borrow(object);
  while (is_list_or_tuple(level)) {
    if (shape.size() == max_axes)
      throw ValueError(
          message(op, argument, "at most " + std::to_string(max_axes) + " axes", "a deeper list"));
    const nb::tuple items = items_of(level);
    shape.push_back(static_cast<int64_t>(items.size()));
    if (shape.back() == 0) break;
    level = items[0];
  }
  return shape;
}

bool collect(nb::handle object, size_t axis, NestedList& list) {
  const bool is_row = is_list_or_tuple(object);
  if (axis == list.shape.size()) {
    list.items.push_back(nb::borrow(object));
    return !is_row;
  }
  if (!is_row) return false;
  const nb::tuple items = items_of(object);
  if (static_cast<int64_t>(items.size()) != list.shape[axis]) return false;
  for (nb::handle item : items) {
    if (!collect(item, axis + 1, list)) return false;
  }
  return true;
}

}  // namespace

bool is_list_or_tuple(nb::handle object) { return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()); }

NestedList read_nested(nb::handle object, size_t max_axes, const std::string& op,
                       const std::string& argument) {
  NestedList list;
  list.shape = leading_shape(object, max_axes, op, argument);
  if (!collect(object, 0, list))
    throw ValueError(message(op, argument, "rows of equal length", "a ragged list"));
  return list;
}

}  // namespace isobit::python

// SPDX-License-Identifier: Apache-2.0
// Integers and other scalars from Python, with the interface's refusals: bool is not a number, float is not
// an id.
#include "ids.h"

#include <nanobind/stl/string.h>

#include <limits>

#include "array_ops.h"
#include "errors.h"
#include "input.h"
#include "isobit/error.h"
#include "nested_list.h"

namespace nb = nanobind;

namespace isobit::python {
namespace {

template <class T>
void widen_into(const StridedView& view, std::vector<int64_t>& out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(load<T>(view.data + i * sizeof(T)));
}

std::vector<int64_t> widened(const StridedView& view, const std::string& op, const std::string& argument) {
  std::vector<int64_t> out(static_cast<size_t>(view.size()));
  switch (view.dtype) {
    case DType::I8:
      widen_into<int8_t>(view, out);
      break;
    case DType::U8:
      widen_into<uint8_t>(view, out);
      break;
    case DType::I16:
      widen_into<int16_t>(view, out);
      break;
    case DType::U16:
      widen_into<uint16_t>(view, out);
      break;
    case DType::I32:
      widen_into<int32_t>(view, out);
      break;
    case DType::U32:
      widen_into<uint32_t>(view, out);
      break;
    case DType::I64:
      widen_into<int64_t>(view, out);
      break;
    case DType::U64:
      for (size_t i = 0; i < out.size(); ++i) {
        const uint64_t value = load<uint64_t>(view.data + i * sizeof(uint64_t));
        if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
          throw ValueError(message(op, argument, "integers within int64", std::to_string(value)));
        out[i] = static_cast<int64_t>(value);
      }
      break;
    default:
      throw TypeError(message(op, argument, "integers", dtype_name(view.dtype)));
  }
  return out;
}

}  // namespace

Ids::Ids(nb::handle object, const std::string& op, const std::string& argument, size_t min_axes,
         size_t max_axes)
    : op_(op), argument_(argument) {
  if (is_list_or_tuple(object)) {
    NestedList list = read_nested(object, max_axes, op, argument);
    shape_ = std::move(list.shape);
    items_ = std::move(list.items);
  } else {
    view_ = require_array(object, op, argument);
    shape_ = view_->shape;
  }
  if (shape_.size() >= min_axes && shape_.size() <= max_axes) return;
  const std::string axes = min_axes == max_axes
                               ? std::to_string(min_axes)
                               : std::to_string(min_axes) + " or " + std::to_string(max_axes);
  throw ValueError(
      message(op, argument, axes + (max_axes == 1 ? " axis" : " axes"), "shape " + shape_text(shape_)));
}

std::vector<int64_t> Ids::values() const {
  if (view_) return widened(made_contiguous(*view_), op_, argument_);
  std::vector<int64_t> values;
  for (const nb::object& item : items_) values.push_back(read_int(item, op_, argument_));
  return values;
}

std::vector<int64_t> read_lengths(nb::handle object, const std::string& op, int64_t rows) {
  if (object.is_none()) return {};
  const Ids lengths(object, op, "lengths", 1, 1);
  if (lengths.shape()[0] != rows)
    throw ValueError(
        message(op, "lengths", std::to_string(rows) + " entries", std::to_string(lengths.shape()[0])));
  return lengths.values();
}

int64_t read_int(nb::handle object, const std::string& op, const std::string& argument) {
  if (PyBool_Check(object.ptr()) || !PyIndex_Check(object.ptr()))
    throw TypeError(message(op, argument, "an integer", class_name(object)));
  nb::object exact = nb::steal(PyNumber_Index(object.ptr()));
  if (!exact.is_valid()) throw nb::python_error();
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(exact.ptr(), &overflow);
  if (overflow != 0) throw ValueError(message(op, argument, "an integer within int64", "a larger one"));
  return value;
}

double read_double(nb::handle object, const std::string& op, const std::string& argument) {
  if (PyFloat_Check(object.ptr())) return PyFloat_AS_DOUBLE(object.ptr());
  const bool number = PyIndex_Check(object.ptr()) || nb::hasattr(object, "__float__");
  if (PyBool_Check(object.ptr()) || !number)
    throw TypeError(message(op, argument, "a number", class_name(object)));
  const double value = PyFloat_AsDouble(object.ptr());
  if (value == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    throw ValueError(
        message(op, argument, "a number within float64", class_name(object) + " that does not convert"));
  }
  return value;
}

bool read_bool(nb::handle object, const std::string& op, const std::string& argument) {
  if (!PyBool_Check(object.ptr()))
    throw TypeError(message(op, argument, "True or False", class_name(object)));
  return object.ptr() == Py_True;
}

std::string read_string(nb::handle object, const std::string& op, const std::string& argument) {
  if (!PyUnicode_Check(object.ptr())) throw TypeError(message(op, argument, "a string", class_name(object)));
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    throw ValueError(message(op, argument, "a string without lone surrogates",
                             nb::cast<std::string>(nb::steal<nb::str>(PyObject_ASCII(object.ptr())))));
  }
  return {text, static_cast<size_t>(size)};
}

std::filesystem::path read_path(nb::handle object, const std::string& op, const std::string& argument) {
  nb::object bytes;
  if (PyUnicode_Check(object.ptr()) || PyBytes_Check(object.ptr()) || nb::hasattr(object, "__fspath__")) {
    PyObject* converted = nullptr;
    if (PyUnicode_FSConverter(object.ptr(), &converted) != 0) bytes = nb::steal(converted);
    if (!bytes.is_valid()) PyErr_Clear();
  } else {
    throw TypeError(message(op, argument, "a string or an os.PathLike", class_name(object)));
  }
  std::string text;
  if (bytes.is_valid())
    text.assign(PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr())));
  if (text.empty())
    throw ValueError(message(op, argument,
                             "a non-empty path without a NUL, in the encoding of the file system",
                             nb::cast<std::string>(nb::steal<nb::str>(PyObject_ASCII(object.ptr())))));
  return text;
}

}  // namespace isobit::python

// SPDX-License-Identifier: Apache-2.0
// Python arguments -> isobit.Array: element types, shapes, nested lists, bytes and borrowed buffers.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "array_ops.h"
#include "array_python.h"
#include "errors.h"
#include "ids.h"
#include "input.h"
#include "isobit/error.h"
#include "nested_list.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
// "f4", "float32", numpy.float32 or numpy.dtype("f4").
DType parse_dtype(nb::handle dtype) {
  std::string name;
  if (nb::isinstance<nb::str>(dtype)) {
    name = read_string(dtype, "Array", "dtype");
  } else if (nb::hasattr(dtype, "str") && nb::isinstance<nb::str>(dtype.attr("str"))) {
    name = read_string(dtype.attr("str"), "Array", "dtype");
  } else if (nb::hasattr(dtype, "__name__")) {
    name = read_string(dtype.attr("__name__"), "Array", "dtype");
  } else {
    throw TypeError(message("Array", "dtype", "one of " + dtype_codes(), class_name(dtype)));
  }
  const DTypeInfo* info = dtype_info(name);
  if (info == nullptr)
    throw TypeError(message("Array", "dtype", "one of " + dtype_codes(), "'" + name + "'"));
  return info->dtype;
}

int64_t parse_index(nb::handle value, const char* argument) { return read_int(value, "Array", argument); }

std::vector<int64_t> parse_shape(nb::handle shape) {
  std::vector<int64_t> result;
  if (PyIndex_Check(shape.ptr())) {
    result.push_back(parse_index(shape, "shape"));
  } else {
    if (!PySequence_Check(shape.ptr()) && !nb::hasattr(shape, "__iter__"))
      throw TypeError(message("Array", "shape", "an integer or integers", class_name(shape)));
    for (nb::handle extent : nb::iter(shape)) result.push_back(parse_index(extent, "shape"));
  }
  return result;
}

bool parse_order(const std::string& order) {
  if (order != "C" && order != "F")
    throw ValueError(message("Array", "order", "'C' or 'F'", "'" + order + "'"));
  return order == "F";
}

namespace {

// Stores one Python number; an integer type takes integers only.
void store(DType dtype, std::byte* p, nb::handle value) {
  if (PyFloat_Check(value.ptr())) {
    convert(dtype, PyFloat_AS_DOUBLE(value.ptr()), 0, p);
  } else {
    convert(dtype, read_int(value, "Array", "values"), 0, p);
  }
}

// The bytes of a contiguous buffer, seen as `dtype` elements of `shape` (default: one axis).
Array reinterpret(StridedView view, nb::handle dtype, nb::handle shape, const char* op) {
  if (!view.c_contiguous())
    throw ValueError(message(op, "buffer", "C-contiguous memory to reinterpret", "strides"));
  const int64_t nbytes = view.size() * itemsize(view.dtype);
  if (!dtype.is_none()) view.dtype = parse_dtype(dtype);
  const int64_t item = itemsize(view.dtype);
  if (nbytes % item != 0)
    throw ValueError(
        message(op, "buffer", "a multiple of " + std::to_string(item) + " bytes", std::to_string(nbytes)));
  view.shape = shape.is_none() ? std::vector<int64_t>{nbytes / item} : parse_shape(shape);
  view.strides = contiguous_strides(view.shape, item, false);
  if (checked_size(view.shape, item) != nbytes / item)
    throw ValueError(
        message(op, "shape", std::to_string(nbytes / item) + " elements", shape_text(view.shape)));
  return Array::borrow(std::move(view));
}

}  // namespace

Array from_list(nb::handle values, nb::handle dtype) {
  constexpr size_t kMostAxes = 64;
  const NestedList list = read_nested(values, kMostAxes, "Array.from_list", "values");
  const auto is_float = [](const nb::object& item) { return PyFloat_Check(item.ptr()); };
  DType type = DType::I64;
  if (!dtype.is_none()) {
    type = parse_dtype(dtype);
  } else if (list.items.empty() || std::any_of(list.items.begin(), list.items.end(), is_float)) {
    type = DType::F64;
  }
  Array a = Array::empty(type, list.shape);
  std::byte* p = a.data;
  for (const nb::object& item : list.items) {
    store(type, p, item);
    p += itemsize(type);
  }
  return a;
}

Array from_buffer(nb::handle object, nb::handle dtype, nb::handle shape) {
  StridedView view = require_array(object, "Array.from_buffer", "buffer");
  if (!dtype.is_none() || !shape.is_none())
    return reinterpret(std::move(view), dtype, shape, "Array.from_buffer");
  if (dtype_info(view.dtype) == nullptr)
    throw TypeError(
        message("Array.from_buffer", "buffer", "one of " + dtype_codes(), dtype_name(view.dtype)));
  if (!view.c_contiguous() && !view.f_contiguous())
    throw ValueError(message("Array.from_buffer", "buffer", "contiguous memory", "a strided view"));
  return Array::borrow(std::move(view));
}

Array frombytes(nb::handle data, nb::handle dtype, nb::handle shape, const std::string& order) {
  StridedView view = require_array(data, "Array.frombytes", "data");
  Array a = reinterpret(std::move(view), dtype, shape, "Array.frombytes");
  if (parse_order(order)) a.strides = contiguous_strides(a.shape, itemsize(a.dtype), true);
  return Array::copy_of(a, order == "F");
}

Array full(nb::handle shape, nb::handle value, nb::handle dtype, const std::string& order) {
  Array a = Array::empty(parse_dtype(dtype), parse_shape(shape), parse_order(order));
  const int64_t item = itemsize(a.dtype);
  std::byte one[8];
  store(a.dtype, one, value);
  for (int64_t i = 0; i < a.size(); ++i) std::memcpy(a.data + i * item, one, static_cast<size_t>(item));
  return a;
}

}  // namespace isobit::python

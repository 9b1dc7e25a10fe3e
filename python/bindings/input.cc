// SPDX-License-Identifier: Apache-2.0
// Array-like Python objects as strided memory, protocol by protocol.
#include "input.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "errors.h"
#include "ids.h"
#include "isobit/error.h"

namespace nb = nanobind;

namespace isobit::python {
namespace {

// A Python reference or buffer that may be let go on any thread.
struct HeldObject {
  PyObject* object;
  explicit HeldObject(nb::handle h) : object(h.ptr()) { Py_INCREF(object); }
  HeldObject(const HeldObject&) = delete;
  ~HeldObject() {
    nb::gil_scoped_acquire gil;
    Py_DECREF(object);
  }
};

struct HeldBuffer {
  Py_buffer buffer{};
  HeldBuffer() = default;
  HeldBuffer(const HeldBuffer&) = delete;
  ~HeldBuffer() {
    nb::gil_scoped_acquire gil;
    PyBuffer_Release(&buffer);
  }
};

std::optional<DType> integer_dtype(bool is_signed, int64_t bytes) {
  switch (bytes) {
    case 1:
      return is_signed ? DType::I8 : DType::U8;
    case 2:
      return is_signed ? DType::I16 : DType::U16;
    case 4:
      return is_signed ? DType::I32 : DType::U32;
    case 8:
      return is_signed ? DType::I64 : DType::U64;
    default:
      return std::nullopt;
  }
}

std::optional<DType> float_dtype(int64_t bytes) {
  switch (bytes) {
    case 2:
      return DType::F16;
    case 4:
      return DType::F32;
    case 8:
      return DType::F64;
    default:
      return std::nullopt;
  }
}

// A struct-module format of one native element: "f", "<i", "=l".
std::optional<DType> format_dtype(const char* format, int64_t bytes) {
  if (format == nullptr) return bytes == 1 ? std::optional(DType::U8) : std::nullopt;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (std::strlen(format) != 1) return std::nullopt;
  if (std::strchr("efd", *format)) return float_dtype(bytes);
  if (std::strchr("bhilqn", *format)) return integer_dtype(true, bytes);
  if (std::strchr("BHILQNc", *format)) return integer_dtype(false, bytes);
  if (*format == '?' && bytes == 1) return DType::BOOL;
  return std::nullopt;
}

// A kind and size of __array_interface__: "<f4".
std::optional<DType> typestr_dtype(const std::string& typestr) {
  if (typestr.size() != 3 || typestr[0] == '>') return std::nullopt;
  const int64_t bytes = typestr[2] - '0';
  switch (typestr[1]) {
    case 'f':
      return float_dtype(bytes);
    case 'i':
      return integer_dtype(true, bytes);
    case 'u':
      return integer_dtype(false, bytes);
    case 'b':
      return bytes == 1 ? std::optional(DType::BOOL) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<DType> dlpack_dtype(nb::dlpack::dtype type) {
  if (type.lanes != 1 || type.bits % 8 != 0) return std::nullopt;
  switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
    case nb::dlpack::dtype_code::Float:
      return float_dtype(type.bits / 8);
    case nb::dlpack::dtype_code::Int:
      return integer_dtype(true, type.bits / 8);
    case nb::dlpack::dtype_code::UInt:
      return integer_dtype(false, type.bits / 8);
    case nb::dlpack::dtype_code::Bfloat:
      return type.bits == 16 ? std::optional(DType::BF16) : std::nullopt;
    case nb::dlpack::dtype_code::Bool:
      return type.bits == 8 ? std::optional(DType::BOOL) : std::nullopt;
    default:
      return std::nullopt;
  }
}

DType known(std::optional<DType> dtype, const std::string& op, const std::string& argument,
            const std::string& got) {
  if (!dtype) throw TypeError(message(op, argument, "a native real or integer element type", got));
  return *dtype;
}

StridedView from_buffer(nb::handle object, const std::string& op, const std::string& argument) {
  auto held = std::make_shared<HeldBuffer>();
  Py_buffer& buffer = held->buffer;
  if (PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_FULL_RO) != 0) throw nb::python_error();
  if (buffer.suboffsets != nullptr)
    throw TypeError(message(op, argument, "a buffer without suboffsets", class_name(object)));
  StridedView view;
  view.dtype = known(format_dtype(buffer.format, buffer.itemsize), op, argument,
                     std::string("buffer format '") + (buffer.format ? buffer.format : "") + "'");
  // An exporter may leave both away although they were asked for; ctypes does.
  if (buffer.shape != nullptr)
    view.shape.assign(buffer.shape, buffer.shape + buffer.ndim);
  else if (buffer.ndim > 0)
    view.shape = {buffer.len / buffer.itemsize};
  if (buffer.shape != nullptr && buffer.strides != nullptr)
    view.strides.assign(buffer.strides, buffer.strides + buffer.ndim);
  else
    view.strides = contiguous_strides(view.shape, itemsize(view.dtype), false);
  view.data = static_cast<std::byte*>(buffer.buf);
  view.readonly = buffer.readonly != 0;
  view.keep = std::move(held);
  return view;
}

StridedView from_dlpack(nb::handle object, const std::string& op, const std::string& argument) {
  nb::object device = object.attr("__dlpack_device__")();
  if (!PyTuple_Check(device.ptr()) || PyTuple_Size(device.ptr()) != 2)
    throw TypeError(message(op, argument, "a __dlpack_device__ of two integers", class_name(device)));
  if (read_int(device[0], op, argument + ".__dlpack_device__()[0]") != nb::device::cpu::value)
    throw ValueError(message(op, argument, "memory of the CPU",
                             "DLPack device " + nb::cast<std::string>(nb::str(device))));
  // Writable where the exporter allows it. Its own error says best why it cannot export at all.
  auto tensor = std::make_shared<nb::ndarray<nb::ro>>();
  nb::ndarray<> writable;
  const bool readonly = !nb::try_cast(object, writable);
  *tensor = readonly ? nb::cast<nb::ndarray<nb::ro>>(object) : nb::ndarray<nb::ro>(writable);
  StridedView view;
  view.dtype = known(dlpack_dtype(tensor->dtype()), op, argument,
                     "DLPack type code " + std::to_string(tensor->dtype().code) + " of " +
                         std::to_string(tensor->dtype().bits) + " bits");
  for (size_t i = 0; i < tensor->ndim(); ++i) {
    view.shape.push_back(static_cast<int64_t>(tensor->shape(i)));
    view.strides.push_back(tensor->stride(i) * itemsize(view.dtype));
  }
  view.data = static_cast<std::byte*>(const_cast<void*>(tensor->data()));
  view.readonly = readonly;
  view.keep = std::move(tensor);
  return view;
}

StridedView from_interface(nb::handle object, const std::string& op, const std::string& argument) {
  const nb::object given = object.attr("__array_interface__");
  const auto field = [&](const char* name) {
    const bool there = PyDict_Check(given.ptr()) && nb::borrow<nb::dict>(given).contains(name);
    return there ? nb::object(given[name]) : nb::none();
  };
  const auto refuse = [&](const char* expected) {
    throw TypeError(message(op, argument, "an __array_interface__ with " + std::string(expected),
                            "another one of " + class_name(object)));
  };
  const nb::object shape = field("shape"), strides = field("strides"), data = field("data");
  if (!PyUnicode_Check(field("typestr").ptr())) refuse("a typestr");
  const std::string typestr = read_string(field("typestr"), op, argument + " typestr");
  StridedView view;
  view.dtype = known(typestr_dtype(typestr), op, argument, "typestr '" + typestr + "'");
  if (!PyTuple_Check(shape.ptr())) refuse("a shape");
  for (nb::handle n : shape) view.shape.push_back(read_int(n, op, argument + " shape"));
  checked_size(view.shape, itemsize(view.dtype));
  view.strides = contiguous_strides(view.shape, itemsize(view.dtype), false);
  if (!strides.is_none()) {
    if (!PyTuple_Check(strides.ptr()) ||
        static_cast<size_t>(PyTuple_Size(strides.ptr())) != view.shape.size())
      refuse("strides as its shape");
    view.strides.clear();
    for (nb::handle n : strides) view.strides.push_back(read_int(n, op, argument + " strides"));
  }
  if (!PyTuple_Check(data.ptr()) || PyTuple_Size(data.ptr()) != 2) refuse("data (pointer, read-only)");
  uintptr_t address = 0;
  if (!nb::try_cast(nb::object(data[0]), address)) refuse("data (pointer, read-only)");
  view.data = reinterpret_cast<std::byte*>(address);
  view.readonly = PyObject_IsTrue(nb::object(data[1]).ptr()) != 0;
  view.keep = std::make_shared<HeldObject>(object);
  return view;
}

}  // namespace

std::string class_name(nb::handle object) {
  return nb::cast<std::string>(
      nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))).attr("__name__"));
}

std::optional<StridedView> read_array(nb::handle object, const std::string& op, const std::string& argument) {
  if (nb::isinstance<Array>(object)) return nb::cast<const Array&>(object);
  if (PyObject_CheckBuffer(object.ptr())) return from_buffer(object, op, argument);
  if (nb::hasattr(object, "__dlpack__") && nb::hasattr(object, "__dlpack_device__"))
    return from_dlpack(object, op, argument);
  if (nb::hasattr(object, "__array_interface__")) return from_interface(object, op, argument);
  return std::nullopt;
}

StridedView require_array(nb::handle object, const std::string& op, const std::string& argument) {
  std::optional<StridedView> view = read_array(object, op, argument);
  if (!view) {
    throw TypeError(message(op, argument, "an array (buffer protocol, DLPack or __array_interface__)",
                            class_name(object)));
  }
  return std::move(*view);
}

StridedView require_array(nb::handle object, const std::string& op, const std::string& argument, DType dtype,
                          size_t rank) {
  StridedView view = require_array(object, op, argument);
  if (view.dtype != dtype)
    throw TypeError(
        message(op, argument, std::string("dtype ") + dtype_info(dtype)->name, dtype_name(view.dtype)));
  if (rank != 0 && view.shape.size() != rank)
    throw ValueError(
        message(op, argument, "rank " + std::to_string(rank), "shape " + shape_text(view.shape)));
  return view;
}

StridedView made_contiguous(StridedView view) {
  const bool aligned =
      reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(itemsize(view.dtype)) == 0;
  if (aligned && view.c_contiguous()) return view;
  return Array::copy_of(view);
}

std::string bytes_of(std::initializer_list<int64_t> extents) {
  int64_t bytes = sizeof(float);
  for (const int64_t n : extents)
    if (__builtin_mul_overflow(bytes, n, &bytes)) return "2**63 bytes or more";
  return std::to_string(bytes) + " bytes";
}

}  // namespace isobit::python

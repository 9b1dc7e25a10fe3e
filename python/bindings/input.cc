// SPDX-License-Identifier: Apache-2.0
// Array-like Python objects as strided memory, protocol by protocol.
#include "input.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "errors.h"
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
  if (format == nullptr) return DType::U8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (std::strlen(format) != 1) return std::nullopt;
  if (std::strchr("efd", *format)) return float_dtype(bytes);
  if (std::strchr("bhilqn", *format)) return integer_dtype(true, bytes);
  if (std::strchr("BHILQNc", *format)) return integer_dtype(false, bytes);
  if (*format == '?') return DType::BOOL;
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
  view.shape.assign(buffer.shape, buffer.shape + buffer.ndim);
  view.strides.assign(buffer.strides, buffer.strides + buffer.ndim);
  view.data = static_cast<std::byte*>(buffer.buf);
  view.readonly = buffer.readonly != 0;
  view.keep = std::move(held);
  return view;
}

StridedView from_dlpack(nb::handle object, const std::string& op, const std::string& argument) {
  nb::object device = object.attr("__dlpack_device__")();
  if (nb::cast<int>(device[0]) != nb::device::cpu::value)
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
  nb::dict interface = nb::cast<nb::dict>(object.attr("__array_interface__"));
  const std::string typestr = nb::cast<std::string>(interface["typestr"]);
  StridedView view;
  view.dtype = known(typestr_dtype(typestr), op, argument, "typestr '" + typestr + "'");
  view.shape = nb::cast<std::vector<int64_t>>(interface["shape"]);
  checked_size(view.shape, itemsize(view.dtype));
  view.strides = contiguous_strides(view.shape, itemsize(view.dtype), false);
  if (interface.contains("strides") && !nb::object(interface["strides"]).is_none())
    view.strides = nb::cast<std::vector<int64_t>>(interface["strides"]);
  if (!interface.contains("data") || !nb::isinstance<nb::tuple>(interface["data"]) ||
      view.strides.size() != view.shape.size())
    throw TypeError(
        message(op, argument, "an __array_interface__ with data (pointer, read-only)", class_name(object)));
  nb::tuple data = nb::cast<nb::tuple>(interface["data"]);
  view.data = reinterpret_cast<std::byte*>(nb::cast<uintptr_t>(data[0]));
  view.readonly = nb::cast<bool>(data[1]);
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

StridedView made_contiguous(StridedView view) {
  const bool aligned =
      reinterpret_cast<uintptr_t>(view.data) % static_cast<uintptr_t>(itemsize(view.dtype)) == 0;
  if (aligned && view.c_contiguous()) return view;
  return Array::copy_of(view);
}

StridedView require_float32(nb::handle object, const std::string& op, const std::string& argument) {
  StridedView view = require_array(object, op, argument);
  if (view.dtype != DType::F32)
    throw TypeError(message(op, argument, "dtype float32", dtype_name(view.dtype)));
  return made_contiguous(std::move(view));
}

}  // namespace isobit::python

// SPDX-License-Identifier: Apache-2.0
// isobit.Array to others: buffer protocol, __array_interface__, DLPack and pickle.
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

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));

nb::dlpack::dtype dlpack_type(DType dtype) {
  const char kind = dtype_info(dtype)->code[0];
  const auto code = kind == 'f'   ? nb::dlpack::dtype_code::Float
                    : kind == 'i' ? nb::dlpack::dtype_code::Int
                                  : nb::dlpack::dtype_code::UInt;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(itemsize(dtype) * 8), 1};
}

template <class... Options>
nb::object exporter(nb::handle self, const Array& a) {
  std::vector<size_t> shape(a.shape.begin(), a.shape.end());
  std::vector<int64_t> strides = a.strides;
  for (int64_t& s : strides) s /= itemsize(a.dtype);
  nb::ndarray<Options...> tensor(a.data, shape.size(), shape.data(), self, strides.data(),
                                 dlpack_type(a.dtype));
  return nb::cast(tensor);
}

}  // namespace

nb::tuple tuple_of(const std::vector<int64_t>& values) { return nb::tuple(nb::cast(values)); }

nb::dict array_interface(const Array& a) {
  nb::dict d;
  d["version"] = 3;
  d["shape"] = tuple_of(a.shape);
  d["typestr"] =
      nb::str((std::string(itemsize(a.dtype) == 1 ? "|" : "<") + dtype_info(a.dtype)->code).c_str());
  d["data"] = nb::make_tuple(reinterpret_cast<uintptr_t>(a.data), a.readonly);
  d["strides"] = a.fortran() ? nb::object(tuple_of(a.strides)) : nb::none();
  return d;
}

nb::object dlpack(nb::handle self, nb::kwargs kwargs) {
  const Array& a = nb::cast<const Array&>(self);
  nb::object tensor =
      a.readonly ? exporter<nb::array_api, nb::ro>(self, a) : exporter<nb::array_api>(self, a);
  return tensor.attr("__dlpack__")(**kwargs);
}

// Protocol 5 hands the memory over out of band where the pickler asks for that.
nb::tuple reduce(nb::handle self, int protocol) {
  const Array& a = nb::cast<const Array&>(self);
  nb::object data = protocol >= 5 ? nb::steal(PyPickleBuffer_FromObject(self.ptr()))
                                  : nb::object(nb::bytes(a.data, static_cast<size_t>(a.nbytes())));
  if (!data.is_valid()) throw nb::python_error();
  nb::object rebuild = nb::module_::import_("isobit.array").attr("_rebuild");
  return nb::make_tuple(
      rebuild, nb::make_tuple(data, dtype_info(a.dtype)->code, tuple_of(a.shape), a.fortran() ? "F" : "C"));
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  Array& a = *nb::inst_ptr<Array>(self);
  const bool c = a.c_contiguous();
  const char* refusal = nullptr;
  if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && a.readonly)
    refusal = "[Array] buffer: the memory is read-only";
  const bool needs_c =
      (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || (flags & PyBUF_STRIDES) != PyBUF_STRIDES;
  if (needs_c && !c) refusal = "[Array] buffer: the memory is column-major";
  if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !a.f_contiguous())
    refusal = "[Array] buffer: the memory is row-major";
  if (refusal != nullptr) {
    PyErr_SetString(PyExc_BufferError, refusal);
    view->obj = nullptr;
    return -1;
  }
  view->buf = a.data;
  view->obj = self;
  Py_INCREF(self);
  view->len = a.nbytes();
  view->itemsize = itemsize(a.dtype);
  view->readonly = a.readonly;
  // Who does not ask for the shape gets plain memory of one axis.
  const bool shaped = (flags & PyBUF_ND) == PyBUF_ND;
  view->ndim = shaped ? static_cast<int>(a.shape.size()) : 1;
  view->format = flags & PyBUF_FORMAT ? const_cast<char*>(dtype_info(a.dtype)->format) : nullptr;
  view->shape = shaped ? reinterpret_cast<Py_ssize_t*>(a.shape.data()) : nullptr;
  view->strides =
      (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? reinterpret_cast<Py_ssize_t*>(a.strides.data()) : nullptr;
  view->suboffsets = nullptr;
  view->internal = nullptr;
  return 0;
}

}  // namespace isobit::python

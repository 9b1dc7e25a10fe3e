// SPDX-License-Identifier: Apache-2.0
// The Python class isobit.Array: its methods, indexing and reductions.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "array_ops.h"
#include "array_python.h"
#include "core/fp_env.h"
#include "errors.h"
#include "ids.h"
#include "input.h"
#include "isobit/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

/// Numbers are converted, compared and added in the library's environment, whatever the host has set.
using Guarded = nb::call_guard<FpEnv>;

nb::object element(DType dtype, const std::byte* p) {
  return visit_dtype(
      dtype, [&](auto tag) { return nb::object(nb::cast(widen(load<typename decltype(tag)::type>(p)))); });
}

int64_t wrapped(int64_t index, int64_t extent) {
  const int64_t i = index < 0 ? index + extent : index;
  if (i < 0 || i >= extent) {
    throw nb::index_error(("[Array] index: " + std::to_string(index) + " is out of range for an axis of " +
                           std::to_string(extent))
                              .c_str());
  }
  return i;
}

nb::object indexed(const Array& a, nb::handle key) {
  if (a.shape.empty()) throw nb::index_error("[Array] index: an array without axes has no items");
  if (PySlice_Check(key.ptr())) {
    const auto [start, stop, step, count] =
        nb::borrow<nb::slice>(key).compute(static_cast<size_t>(a.shape[0]));
    return nb::cast(a.slice(start, step, static_cast<int64_t>(count)));
  }
  if (PyTuple_Check(key.ptr())) {
    if (static_cast<size_t>(PyTuple_Size(key.ptr())) > a.shape.size())
      throw nb::index_error(("[Array] index: more indices than axes " + shape_text(a.shape)).c_str());
    Array sub = a;
    for (nb::handle k : nb::borrow<nb::tuple>(key))
      sub = sub.item(wrapped(parse_index(k, "index"), sub.shape[0]));
    return sub.shape.empty() ? element(sub.dtype, sub.data) : nb::cast(sub);
  }
  Array sub = a.item(wrapped(parse_index(key, "index"), a.shape[0]));
  return sub.shape.empty() ? element(sub.dtype, sub.data) : nb::cast(sub);
}

nb::object tolist(const Array& a) {
  if (a.shape.empty()) return element(a.dtype, a.data);
  nb::list result;
  for (int64_t i = 0; i < a.shape[0]; ++i) result.append(tolist(a.item(i)));
  return result;
}

nb::bytes tobytes(const Array& a) {
  const Array c = a.fortran() ? Array::copy_of(a) : a;
  return nb::bytes(c.data, static_cast<size_t>(c.nbytes()));
}

// The flat row-major index of the largest (or smallest) element, the lowest index among equals; a NaN wins,
// as in NumPy.
int64_t arg_extreme(const Array& a, bool largest, const char* op) {
  if (a.size() == 0) throw ValueError(message(op, "array", "at least one element", "none"));
  return visit_dtype(a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    int64_t best = 0;
    auto best_value = widen(load<T>(a.data));
    for (int64_t i = 1; i < a.size() && best_value == best_value; ++i) {
      const auto value = widen(load<T>(a.data + i * static_cast<int64_t>(sizeof(T))));
      if (value != value || (largest ? value > best_value : value < best_value)) best = i, best_value = value;
    }
    return best;
  });
}

nb::object extreme(const Array& a, bool largest, const char* op) {
  const Array c = a.fortran() ? Array::copy_of(a) : a;
  return element(c.dtype, c.data + arg_extreme(c, largest, op) * itemsize(c.dtype));
}

// Floats are added in float64 in row-major order, integers exactly.
nb::object sum(const Array& a) {
  const Array c = a.fortran() ? Array::copy_of(a) : a;
  return visit_dtype(c.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Wide = decltype(widen(T{}));
    if constexpr (std::is_same_v<Wide, double>) {
      double total = 0;
      for (int64_t i = 0; i < c.size(); ++i)
        total += widen(load<T>(c.data + i * static_cast<int64_t>(sizeof(T))));
      return nb::object(nb::float_(total));
    } else {
      nb::object total = nb::int_(0);
      int64_t part = 0;
      for (int64_t i = 0; i < c.size(); ++i) {
        const int64_t value = load<T>(c.data + i * static_cast<int64_t>(sizeof(T)));
        int64_t next;
        if (__builtin_add_overflow(part, value, &next)) {
          total = total + nb::int_(part);
          next = value;
        }
        part = next;
      }
      return nb::object(total + nb::int_(part));
    }
  });
}

nb::dict flags(const Array& a) {
  nb::dict d;
  d["C_CONTIGUOUS"] = a.c_contiguous();
  d["F_CONTIGUOUS"] = a.f_contiguous();
  d["OWNDATA"] = a.owned;
  d["WRITEABLE"] = !a.readonly;
  d["ALIGNED"] = reinterpret_cast<uintptr_t>(a.data) % static_cast<uintptr_t>(itemsize(a.dtype)) == 0;
  return d;
}

std::string repr(const Array& a) {
  constexpr int64_t kShown = 6;
  std::string s =
      "isobit.Array(shape=" + shape_text(a.shape) + ", dtype='" + dtype_info(a.dtype)->code + "', [";
  const Array flat = a.reshaped({-1});
  for (int64_t i = 0; i < std::min(flat.size(), kShown); ++i)
    s += (i ? ", " : "") +
         nb::cast<std::string>(nb::repr(element(flat.dtype, flat.data + i * itemsize(flat.dtype))));
  return s + (flat.size() > kShown ? ", ...])" : "])");
}

constexpr const char* kDoc =
    "A typed, shaped piece of contiguous memory (row- or column-major), 64-byte aligned when isobit made "
    "it.\n\n"
    "What isobit returns. ``numpy.asarray(a)``, ``torch.from_dlpack(a)`` and ``memoryview(a)`` share its "
    "memory. It does\n"
    "no arithmetic, does not broadcast and has no strided views. dtype is one of f4 f8 i4 i8 u4 u1 f2 u2 i1.";

}  // namespace

void bind_array(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};
  nb::class_<Array> array(m, "Array", nb::type_slots(slots), kDoc);

  array.def_static(
      "zeros",
      [](nb::handle s, nb::handle d, const std::string& o) {
        return Array::zeros(parse_dtype(d), parse_shape(s), parse_order(o));
      },
      "shape"_a.none(), "dtype"_a = "f4", "order"_a = "C",
      nb::sig("def zeros(shape: int | collections.abc.Iterable[int], dtype: typing.Any = 'f4', order: str = "
              "'C') -> Array"),
      "All zero. ValueError for a negative extent; MemoryError when it does not fit.");
  array.def_static(
      "empty",
      [](nb::handle s, nb::handle d, const std::string& o) {
        return Array::empty(parse_dtype(d), parse_shape(s), parse_order(o));
      },
      "shape"_a.none(), "dtype"_a = "f4", "order"_a = "C",
      nb::sig("def empty(shape: int | collections.abc.Iterable[int], dtype: typing.Any = 'f4', order: str = "
              "'C') -> Array"),
      "Uninitialised.");
  array.def_static("full", full, Guarded(), "shape"_a.none(), "value"_a.none(), "dtype"_a = "f4",
                   "order"_a = "C",
                   nb::sig("def full(shape: int | collections.abc.Iterable[int], value: float, dtype: "
                           "typing.Any = 'f4', order: str = 'C') -> Array"),
                   "Every element is `value`. ValueError when an integer dtype cannot hold it.");
  array.def_static(
      "frombytes", frombytes, "data"_a.none(), "dtype"_a.none(), "shape"_a.none() = nb::none(),
      "order"_a = "C",
      nb::sig("def frombytes(data: typing.Any, dtype: typing.Any, shape: int | collections.abc.Iterable[int] "
              "| None = None, order: str = 'C') -> Array"),
      "A copy of little-endian element bytes. ValueError when their number does not match `shape`.");
  array.def_static("from_list", from_list, Guarded(), "values"_a.none(), "dtype"_a.none() = nb::none(),
                   nb::sig("def from_list(values: typing.Any, dtype: typing.Any = None) -> Array"),
                   "From (nested) lists of numbers; without dtype: f8 if any is a float, else i8. ValueError "
                   "for ragged lists.");
  array.def_static("from_buffer", from_buffer, "buffer"_a.none(), "dtype"_a.none() = nb::none(),
                   "shape"_a.none() = nb::none(),
                   nb::sig("def from_buffer(buffer: typing.Any, dtype: typing.Any = None, shape: int | "
                           "collections.abc.Iterable[int] | None = None) -> Array"),
                   "Shares the memory of an array-like (buffer protocol, DLPack or __array_interface__), "
                   "which must be contiguous.\n"
                   "With dtype or shape, its bytes are read as those.");

  array.def_prop_ro(
      "shape", [](const Array& a) { return tuple_of(a.shape); },
      nb::sig("def shape(self) -> tuple[int, ...]"));
  array.def_prop_ro(
      "dtype", [](const Array& a) { return dtype_info(a.dtype)->code; }, "The short code, for example 'f4'.");
  array.def_prop_ro("ndim", [](const Array& a) { return a.shape.size(); });
  array.def_prop_ro("size", [](const Array& a) { return a.size(); });
  array.def_prop_ro("nbytes", &Array::nbytes);
  array.def_prop_ro("itemsize", [](const Array& a) { return itemsize(a.dtype); });
  array.def_prop_ro(
      "strides", [](const Array& a) { return tuple_of(a.strides); },
      nb::sig("def strides(self) -> tuple[int, ...]"), "In bytes.");
  array.def_prop_ro(
      "order", [](const Array& a) { return a.fortran() ? "F" : "C"; }, "'C' (row-major) or 'F'.");
  array.def_prop_ro("flags", flags, nb::sig("def flags(self) -> dict[str, bool]"),
                    "NumPy's names: C_CONTIGUOUS, F_CONTIGUOUS, OWNDATA, WRITEABLE, ALIGNED.");

  array.def(
      "reshape",
      [](const Array& a, nb::args args) {
        const bool one = args.size() == 1 && !PyIndex_Check(nb::handle(args[0]).ptr());
        return a.reshaped(parse_shape(one ? nb::object(args[0]) : nb::object(args)));
      },
      nb::sig("def reshape(self, *shape: typing.Any) -> Array"),
      "The elements in row-major order with another shape; one extent may be -1. Shares memory unless the "
      "order is 'F'.");
  array.def(
      "copy", [](const Array& a, const std::string& o) { return Array::copy_of(a, parse_order(o)); },
      "order"_a = "C", "A writable copy of its own.");
  array.def(
      "astype", [](const Array& a, nb::handle d) { return a.astype(parse_dtype(d)); }, Guarded(),
      "dtype"_a.none(), nb::sig("def astype(self, dtype: typing.Any) -> Array"),
      "A copy: exact, or rounded to nearest even into a narrower float. ValueError naming the first value "
      "that an integer\n"
      "dtype cannot hold exactly.");
  array.def("tolist", tolist, Guarded(), nb::sig("def tolist(self) -> typing.Any"),
            "Nested lists of Python numbers; a number when there are no axes.");
  array.def("tobytes", tobytes, "The element bytes in row-major order.");
  array.def(
      "min", [](const Array& a) { return extreme(a, false, "Array.min"); }, Guarded(),
      nb::sig("def min(self) -> float"), "The smallest element.");
  array.def(
      "max", [](const Array& a) { return extreme(a, true, "Array.max"); }, Guarded(),
      nb::sig("def max(self) -> float"), "The largest element.");
  array.def("sum", sum, Guarded(), nb::sig("def sum(self) -> float"),
            "Integers exactly; floats added in float64, row-major.");
  array.def(
      "argmax",
      [](const Array& a) { return arg_extreme(a.fortran() ? Array::copy_of(a) : a, true, "Array.argmax"); },
      Guarded(), "Row-major flat index of the largest element; the lowest among equals.");
  array.def("__len__", [](const Array& a) {
    if (a.shape.empty()) throw TypeError("[Array] len: an array without axes has no length");
    return a.shape[0];
  });
  array.def("__getitem__", indexed, Guarded(), "key"_a.none(),
            nb::sig("def __getitem__(self, key: int | slice | tuple[int, ...], /) -> typing.Any"),
            "By integer, integers in a tuple, or a slice of the first axis. Contiguous results share memory, "
            "others are copies.");
  array.def("__repr__", repr, Guarded());
  array.def_prop_ro("__array_interface__", array_interface,
                    nb::sig("def __array_interface__(self) -> dict[str, typing.Any]"));
  array.def("__dlpack__", dlpack, nb::sig("def __dlpack__(self, **kwargs: typing.Any) -> typing.Any"));
  array.def(
      "__dlpack_device__", [](const Array&) { return nb::make_tuple(nb::device::cpu::value, 0); },
      nb::sig("def __dlpack_device__(self) -> tuple[int, int]"));
  array.def("__reduce_ex__", reduce, "protocol"_a,
            nb::sig("def __reduce_ex__(self, protocol: typing.SupportsIndex, /) -> typing.Any"));
  array.def("__copy__", [](const Array& a) { return Array::copy_of(a, a.fortran()); });
  array.def(
      "__deepcopy__", [](const Array& a, nb::handle) { return Array::copy_of(a, a.fortran()); },
      nb::sig("def __deepcopy__(self, memo: typing.Any, /) -> Array"));
}

}  // namespace isobit::python

// SPDX-License-Identifier: Apache-2.0
// Matrix products. The functions of isobit.linalg that users call are in python/isobit/linalg.py.
#include "linalg.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <string>
#include <utility>

#include "array.h"
#include "errors.h"
#include "input.h"
#include "isobit/error.h"
#include "isobit/linalg.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

constexpr const char* kOp = "linalg.matmul";

/// A matrix, or its transpose where that is asked for, as it lies.
StridedView matrix_of(nb::handle object, const char* name, bool transposed) {
  StridedView view = require_array(object, kOp, name, DType::F32, 2);
  if (transposed) {
    std::swap(view.shape[0], view.shape[1]);
    std::swap(view.strides[0], view.strides[1]);
  }
  return view;
}

nb::object matmul(nb::handle a_object, nb::handle b_object, bool transpose_a, bool transpose_b,
                  nb::handle out_object) {
  StridedView a = matrix_of(a_object, "a", transpose_a), b = matrix_of(b_object, "b", !transpose_b);
  const int64_t m = a.shape[0], n = b.shape[0], k = a.shape[1];
  if (b.shape[1] != k)
    throw ValueError(message(kOp, "b", std::to_string(k) + " as the extent that is summed, as a has",
                             std::to_string(b.shape[1])));
  const std::optional<StridedView> out = read_out(out_object, kOp, {m, n});
  Array result = Array::empty(DType::F32, {m, n});
  a = made_contiguous(
      std::move(a));  // only now: a broadcast matrix can say that it is larger than all memory
  b = made_contiguous(std::move(b));
  {
    nb::gil_scoped_release release;
    isobit::matmul(reinterpret_cast<const float*>(a.data), m, reinterpret_cast<const float*>(b.data), n, k,
                   reinterpret_cast<float*>(result.data));
  }
  return deliver(std::move(result), out_object, out);
}

}  // namespace

std::optional<StridedView> read_out(nb::handle object, const std::string& op,
                                    const std::vector<int64_t>& shape) {
  if (object.is_none()) return std::nullopt;
  StridedView out = require_array(object, op, "out", DType::F32);
  const std::string expected = "a writable row-major array of shape " + shape_text(shape);
  if (out.shape != shape) throw ValueError(message(op, "out", expected, "shape " + shape_text(out.shape)));
  if (out.readonly) throw ValueError(message(op, "out", expected, "a read-only one"));
  if (!out.c_contiguous())
    throw ValueError(message(op, "out", expected, "strides " + shape_text(out.strides)));
  return out;
}

nb::object deliver(Array&& result, nb::handle object, const std::optional<StridedView>& out) {
  if (!out) return nb::cast(std::move(result));
  // Only now: out may overlap an operand, and stays as it is where the product is refused.
  if (result.nbytes() > 0) std::memcpy(out->data, result.data, static_cast<size_t>(result.nbytes()));
  return nb::borrow(object);
}

void bind_linalg(nb::module_& m) {
  m.def("matmul", matmul, "a"_a.none(), "b"_a.none(), "transpose_a"_a, "transpose_b"_a, "out"_a.none(),
        nb::sig("def matmul(a: typing.Any, b: typing.Any, transpose_a: bool, transpose_b: bool, out: "
                "typing.Any) -> typing.Any"),
        "a @ b of float32 matrices.");
}

}  // namespace isobit::python

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

/// A matrix as rows that lie behind each other, of its transpose where that is asked for.
StridedView rows_of(nb::handle object, const char* name, bool transposed) {
  StridedView view = require_array(object, kOp, name);
  if (view.dtype != DType::F32) throw TypeError(message(kOp, name, "dtype float32", dtype_name(view.dtype)));
  if (view.shape.size() != 2)
    throw ValueError(message(kOp, name, "rank 2", "shape " + shape_text(view.shape)));
  if (transposed) {
    std::swap(view.shape[0], view.shape[1]);
    std::swap(view.strides[0], view.strides[1]);
  }
  return made_contiguous(std::move(view));
}

nb::object matmul(nb::handle a_object, nb::handle b_object, bool transpose_a, bool transpose_b,
                  nb::handle out_object) {
  const StridedView a = rows_of(a_object, "a", transpose_a), b = rows_of(b_object, "b", !transpose_b);
  const int64_t m = a.shape[0], n = b.shape[0], k = a.shape[1];
  if (b.shape[1] != k)
    throw ValueError(message(kOp, "b", std::to_string(k) + " as the extent that is summed, as a has",
                             std::to_string(b.shape[1])));
  const std::optional<StridedView> out = read_out(out_object, kOp, {m, n});
  Array result = Array::empty(DType::F32, {m, n});
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
  StridedView out = require_array(object, op, "out");
  if (out.dtype != DType::F32) throw TypeError(message(op, "out", "dtype float32", dtype_name(out.dtype)));
  if (out.shape != shape || !out.c_contiguous() || out.readonly)
    throw ValueError(message(op, "out", "a writable row-major array of shape " + shape_text(shape),
                             "shape " + shape_text(out.shape)));
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

// SPDX-License-Identifier: Apache-2.0
// Rows of 15-bit codes as two planes of int8, code = 128 * hi + lo with lo in 0..127, and their products.
#include "int15.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "errors.h"
#include "input.h"
#include "isobit/error.h"
#include "isobit/linalg.h"
#include "linalg.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

struct Codes {
  int64_t rows = 0, k = 0;
  std::vector<int16_t> codes;
  std::vector<int32_t> exponents;
};

Codes quantized(nb::handle object, const std::string& op, const std::string& name) {
  const StridedView x = made_contiguous(require_array(object, op, name, DType::F32, 2));
  Codes c{x.shape[0], x.shape[1], {}, {}};
  c.codes.resize(static_cast<size_t>(c.rows * c.k));
  c.exponents.resize(static_cast<size_t>(c.rows));
  nb::gil_scoped_release release;
  quantize_int15(reinterpret_cast<const float*>(x.data), c.rows, c.k, c.codes.data(), c.exponents.data());
  return c;
}

Codes joined(nb::handle hi_object, nb::handle lo_object, nb::handle exponent_object, const std::string& op,
             const std::string& name) {
  const StridedView hi = made_contiguous(require_array(hi_object, op, name + " hi", DType::I8, 2));
  const StridedView lo = made_contiguous(require_array(lo_object, op, name + " lo", DType::I8, 2));
  const StridedView exponents =
      made_contiguous(require_array(exponent_object, op, name + " exponents", DType::I32, 1));
  if (lo.shape != hi.shape)
    throw ValueError(message(op, name + " lo", "shape " + shape_text(hi.shape), shape_text(lo.shape)));
  if (exponents.shape[0] != hi.shape[0])
    throw ValueError(message(op, name + " exponents",
                             "one for each of " + std::to_string(hi.shape[0]) + " rows",
                             std::to_string(exponents.shape[0])));
  Codes c{hi.shape[0], hi.shape[1], {}, {}};
  const auto* e = reinterpret_cast<const int32_t*>(exponents.data);
  c.exponents.assign(e, e + c.rows);
  const auto* high = reinterpret_cast<const int8_t*>(hi.data);
  const auto* low = reinterpret_cast<const int8_t*>(lo.data);
  for (int64_t i = 0; i < c.rows * c.k; ++i) {
    if (low[i] < 0) throw ValueError(message(op, name + " lo", "values in 0..127", std::to_string(low[i])));
    c.codes.push_back(static_cast<int16_t>(128 * high[i] + low[i]));
  }
  return c;
}

// A float32 matrix, or (hi, lo, exponents).
Codes operand(nb::handle object, const std::string& op, const std::string& name) {
  if (!PyTuple_Check(object.ptr())) return quantized(object, op, name);
  const nb::tuple planes = nb::borrow<nb::tuple>(object);
  if (planes.size() != 3)
    throw ValueError(message(op, name, "a float32 matrix or (hi, lo, exponents)",
                             "a tuple of " + std::to_string(planes.size())));
  return joined(planes[0], planes[1], planes[2], op, name);
}

nb::tuple quantize(nb::handle x) {
  const Codes c = quantized(x, "linalg.quantize_int15", "x");
  Array hi = Array::empty(DType::I8, {c.rows, c.k}), lo = Array::empty(DType::I8, {c.rows, c.k});
  Array exponents = Array::empty(DType::I32, {c.rows});
  for (size_t i = 0; i < c.codes.size(); ++i) {
    const int low = c.codes[i] & 127;
    reinterpret_cast<int8_t*>(lo.data)[i] = static_cast<int8_t>(low);
    reinterpret_cast<int8_t*>(hi.data)[i] = static_cast<int8_t>((c.codes[i] - low) / 128);
  }
  if (c.rows > 0) std::memcpy(exponents.data, c.exponents.data(), static_cast<size_t>(exponents.nbytes()));
  return nb::make_tuple(std::move(hi), std::move(lo), std::move(exponents));
}

Array dequantize(nb::handle hi, nb::handle lo, nb::handle exponents) {
  const Codes c = joined(hi, lo, exponents, "linalg.dequantize_int15", "x");
  Array x = Array::empty(DType::F32, {c.rows, c.k});
  dequantize_int15(c.codes.data(), c.exponents.data(), c.rows, c.k, reinterpret_cast<float*>(x.data));
  return x;
}

nb::object matmul(nb::handle a_object, nb::handle b_object, nb::handle out_object) {
  constexpr const char* kOp = "linalg.matmul_int15";
  const Codes a = operand(a_object, kOp, "a"), b = operand(b_object, kOp, "b");
  if (a.k != b.k)
    throw ValueError(message(kOp, "b", std::to_string(a.k) + " columns, as a has", std::to_string(b.k)));
  const std::optional<StridedView> out = read_out(out_object, kOp, {a.rows, b.rows});
  Array result = Array::empty(DType::F32, {a.rows, b.rows});
  {
    nb::gil_scoped_release release;
    matmul_int15(a.codes.data(), a.exponents.data(), a.rows, b.codes.data(), b.exponents.data(), b.rows, a.k,
                 reinterpret_cast<float*>(result.data));
  }
  return deliver(std::move(result), out_object, out);
}

}  // namespace

void bind_int15(nb::module_& m) {
  m.def("quantize_int15", quantize, "x"_a.none(),
        nb::sig("def quantize_int15(x: typing.Any) -> tuple[Array, Array, Array]"),
        "float32 (rows, k) -> hi, lo (int8, rows, k) and exponents (int32, rows).");
  m.def("dequantize_int15", dequantize, "hi"_a.none(), "lo"_a.none(), "exponents"_a.none(),
        nb::sig("def dequantize_int15(hi: typing.Any, lo: typing.Any, exponents: typing.Any) -> Array"),
        "(128 * hi + lo) * 2^exponent of each row, float32, exactly.");
  m.def("matmul_int15", matmul, "a"_a.none(), "b"_a.none(), "out"_a.none(),
        nb::sig("def matmul_int15(a: typing.Any, b: typing.Any, out: typing.Any) -> typing.Any"),
        "a @ b.T of float32 matrices or triples of codes.");
}

}  // namespace isobit::python

// SPDX-License-Identifier: Apache-2.0
// float32 arrays -> bfloat16 bits or int8 codes, and back. The classes are in python/isobit/lowbit.py.
#include "lowbit.h"

#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "array.h"
#include "errors.h"
#include "input.h"
#include "isobit/error.h"
#include "isobit/weight_format.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

template <typename T>
T* values(const StridedView& view) {
  return reinterpret_cast<T*>(view.data);
}

std::string named(const std::string& name, const char* part) {
  return name.empty() ? part : name + " " + part;
}

Array round_to_bf16(nb::handle object, const std::string& op, const std::string& name) {
  const StridedView x = made_contiguous(require_array(object, op, name, DType::F32));
  Array bits = Array::empty(DType::U16, x.shape);
  nb::gil_scoped_release release;
  if (isobit::round_to_bf16(values<float>(x), x.size(), values<uint16_t>(bits)) != x.size())
    throw ValueError(
        message(op, name, "finite values that bfloat16 can hold", "NaN, infinity or one that rounds to it"));
  return bits;
}

Array widen_bf16(nb::handle object, const std::string& op) {
  const StridedView bits = made_contiguous(require_array(object, op, "bits", DType::U16));
  Array x = Array::empty(DType::F32, bits.shape);
  isobit::widen_bf16(values<uint16_t>(bits), bits.size(), values<float>(x));
  return x;
}

nb::tuple quantize_int8(nb::handle object, const std::string& op, const std::string& name) {
  const StridedView x = made_contiguous(require_array(object, op, name, DType::F32, 2));
  const int64_t rows = x.shape[0], k = x.shape[1];
  Array codes = Array::empty(DType::I8, x.shape), exponents = Array::empty(DType::I32, {rows});
  {
    nb::gil_scoped_release release;
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = values<float>(x) + r * k;
      for (int64_t i = 0; i < k; ++i)
        if (!(row[i] - row[i] == 0.0f))
          throw ValueError(message(op, name, "finite values", "NaN or infinity in row " + std::to_string(r)));
      values<int32_t>(exponents)[r] = isobit::quantize_int8(row, k, values<int8_t>(codes) + r * k);
    }
  }
  return nb::make_tuple(std::move(codes), std::move(exponents));
}

Array widen_int8(nb::handle code_object, nb::handle exponent_object, const std::string& op,
                 const std::string& name) {
  const StridedView codes =
      made_contiguous(require_array(code_object, op, named(name, "codes"), DType::I8, 2));
  const StridedView exponents =
      made_contiguous(require_array(exponent_object, op, named(name, "exponents"), DType::I32, 1));
  const int64_t rows = codes.shape[0], k = codes.shape[1];
  if (exponents.shape[0] != rows)
    throw ValueError(message(op, named(name, "exponents"),
                             "one for each of " + std::to_string(rows) + " rows",
                             std::to_string(exponents.shape[0])));
  Array x = Array::empty(DType::F32, codes.shape);
  nb::gil_scoped_release release;
  for (int64_t r = 0; r < rows; ++r) {
    const int32_t e = values<int32_t>(exponents)[r];
    if (e < kMinInt8Exponent || e > kMaxInt8Exponent)
      throw ValueError(message(op, named(name, "exponents"),
                               std::to_string(kMinInt8Exponent) + ".." + std::to_string(kMaxInt8Exponent),
                               std::to_string(e) + " in row " + std::to_string(r)));
    const int8_t* row = values<int8_t>(codes) + r * k;
    const int64_t bad = isobit::widen_int8(row, k, e, values<float>(x) + r * k);
    if (bad != k)
      throw ValueError(
          message(op, named(name, "codes"), "codes in -127..127 whose value is a float32",
                  std::to_string(row[bad]) + " * 2^" + std::to_string(e) + " in row " + std::to_string(r)));
  }
  return x;
}

}  // namespace

void bind_lowbit(nb::module_& m) {
  m.def("round_to_bf16", round_to_bf16, "value"_a.none(), "op"_a, "name"_a,
        nb::sig("def round_to_bf16(value: typing.Any, op: str, name: str) -> Array"),
        "float32 of any shape -> bfloat16 bits (uint16), rounded to nearest even.");
  m.def("widen_bf16", widen_bf16, "bits"_a.none(), "op"_a,
        nb::sig("def widen_bf16(bits: typing.Any, op: str) -> Array"),
        "bfloat16 bits (uint16, any shape) -> float32, exactly.");
  m.def("quantize_int8", quantize_int8, "value"_a.none(), "op"_a, "name"_a,
        nb::sig("def quantize_int8(value: typing.Any, op: str, name: str) -> tuple[Array, Array]"),
        "float32 (rows, k) -> codes (int8, rows, k) and exponents (int32, rows).");
  m.def("widen_int8", widen_int8, "codes"_a.none(), "exponents"_a.none(), "op"_a, "name"_a,
        nb::sig("def widen_int8(codes: typing.Any, exponents: typing.Any, op: str, name: str) -> Array"),
        "codes * 2^exponent of the row, float32, exactly.");
}

}  // namespace isobit::python

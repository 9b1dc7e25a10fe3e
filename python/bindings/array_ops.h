// SPDX-License-Identifier: Apache-2.0
// Element access by type: one visitor instead of a switch in every operation.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "array.h"
#include "isobit/error.h"

namespace isobit::python {

/// IEEE 754 binary16, stored only.
struct Half {
  uint16_t bits;
};
double half_to_double(Half h);
/// Round to nearest even; overflow gives infinity.
Half double_to_half(double x);

template <class T>
struct ElementTag {
  using type = T;
};

/// Calls f(ElementTag<T>{}) with the C++ type of one of Array's element types.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::F32:
      return f(ElementTag<float>{});
    case DType::F64:
      return f(ElementTag<double>{});
    case DType::F16:
      return f(ElementTag<Half>{});
    case DType::I8:
      return f(ElementTag<int8_t>{});
    case DType::U8:
      return f(ElementTag<uint8_t>{});
    case DType::U16:
      return f(ElementTag<uint16_t>{});
    case DType::I32:
      return f(ElementTag<int32_t>{});
    case DType::U32:
      return f(ElementTag<uint32_t>{});
    case DType::I64:
      return f(ElementTag<int64_t>{});
    default:
      throw TypeError(std::string("[Array] dtype: expected one of ") + dtype_codes() + ", got " +
                      dtype_name(dtype));
  }
}

template <class T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

/// The value as int64_t for the integer types and as double for the others; both hold every value exactly.
template <class T>
auto widen(T value) {
  if constexpr (std::is_same_v<T, Half>)
    return half_to_double(value);
  else if constexpr (std::is_integral_v<T>)
    return static_cast<int64_t>(value);
  else
    return static_cast<double>(value);
}

/// Writes a number as one element: exact, or rounded to nearest even into a float; ValueError naming `index`
/// when an integer type cannot hold it exactly.
void convert(DType target, double value, int64_t index, std::byte* out);
void convert(DType target, int64_t value, int64_t index, std::byte* out);

}  // namespace isobit::python

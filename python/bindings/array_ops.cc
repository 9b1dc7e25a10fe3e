// SPDX-License-Identifier: Apache-2.0
// Conversions between element types: exact, or one rounding to nearest even into a narrower float.
#include "array_ops.h"

#include <limits>

#include "errors.h"

namespace isobit::python {
namespace {

constexpr double kInt64Bound = 0x1p63;

template <class To, class From>
To narrow(From value, int64_t index, const char* code) {
  if constexpr (std::is_same_v<To, Half>) {
    return double_to_half(static_cast<double>(value));
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(value);
  } else {
    const auto refuse = [&](const char* why) {
      throw ValueError(
          message("Array", "dtype", std::string(code) + " to hold every value",
                  std::to_string(value) + " (" + why + ") at flat index " + std::to_string(index)));
    };
    if constexpr (std::is_floating_point_v<From>) {
      // NaN fails the comparisons, so it is refused here as well.
      if (!(value >= -kInt64Bound && value < kInt64Bound)) refuse("out of range");
      if (static_cast<From>(static_cast<int64_t>(value)) != value) refuse("not an integer");
    }
    const int64_t exact = static_cast<int64_t>(value);
    if (exact < static_cast<int64_t>(std::numeric_limits<To>::min()) ||
        exact > static_cast<int64_t>(std::numeric_limits<To>::max()))
      refuse("out of range");
    return static_cast<To>(exact);
  }
}

}  // namespace

double half_to_double(Half h) {
  const int exponent = (h.bits >> 10) & 31;
  const int mantissa = h.bits & 1023;
  double magnitude;
  if (exponent == 31) {
    magnitude = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    magnitude = mantissa * 0x1p-24;
  } else {
    magnitude = (1024 + mantissa) * 0x1p-24 * static_cast<double>(1 << (exponent - 1));
  }
  return h.bits & 0x8000 ? -magnitude : magnitude;
}

Half double_to_half(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const uint16_t sign = static_cast<uint16_t>((bits >> 48) & 0x8000);
  bits &= 0x7fffffffffffffffu;
  uint64_t half;
  if (bits > 0x7ff0000000000000u) {
    half = 0x7e00;
  } else if (bits >= 0x3f10000000000000u) {  // at least 2^-14: normal; 42 mantissa bits are rounded away
    bits += ((uint64_t{1} << 41) - 1) + ((bits >> 42) & 1);
    half = bits >> 42;
    const uint64_t bias = uint64_t{1023 - 15} << 10;
    half = half - bias > 0x7c00 ? 0x7c00 : half - bias;
  } else {  // subnormal: a multiple of 2^-24; adding 2^52 rounds to an integer
    double magnitude;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
    const volatile double rounded = magnitude * 0x1p24 + 0x1p52;
    half = static_cast<uint64_t>(rounded - 0x1p52);
  }
  return Half{static_cast<uint16_t>(half | sign)};
}

namespace {

template <class From>
void convert_one(DType target, From value, int64_t index, std::byte* out) {
  visit_dtype(target, [&](auto tag) {
    using To = typename decltype(tag)::type;
    const To result = narrow<To>(value, index, dtype_info(target)->code);
    std::memcpy(out, &result, sizeof(To));
  });
}

}  // namespace

void convert(DType target, double value, int64_t index, std::byte* out) {
  convert_one(target, value, index, out);
}
void convert(DType target, int64_t value, int64_t index, std::byte* out) {
  convert_one(target, value, index, out);
}

Array Array::astype(DType target) const {
  Array result = empty(target, shape, fortran());
  const char* code = dtype_info(target)->code;
  visit_dtype(dtype, [&](auto from) {
    visit_dtype(target, [&](auto to) {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      const int64_t n = size();
      for (int64_t i = 0; i < n; ++i) {
        const To value = narrow<To>(widen(load<From>(data + i * sizeof(From))), i, code);
        std::memcpy(result.data + i * sizeof(To), &value, sizeof(To));
      }
    });
  });
  return result;
}

}  // namespace isobit::python

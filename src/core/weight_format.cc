// SPDX-License-Identifier: Apache-2.0
#include "isobit/weight_format.h"

#include <algorithm>
#include <bit>

#include "core/fp_env.h"
#include "isobit/error.h"

namespace isobit {
namespace {

/// 2^e for |e| <= 1022.
double power_of_two(int32_t e) { return std::bit_cast<double>(static_cast<uint64_t>(1023 + e) << 52); }

/// floor(log2 |x|) of a float32 that is not 0, from its bits without the sign.
int32_t floor_log2(uint32_t magnitude) {
  if (magnitude >= 0x00800000u) return static_cast<int32_t>(magnitude >> 23) - 127;
  return 31 - std::countl_zero(magnitude) - 149;
}

}  // namespace

const char* to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFloat32:
      return "float32";
    case WeightFormat::kBfloat16:
      return "bfloat16";
    case WeightFormat::kInt8:
      return "int8";
  }
  throw ValueError("[WeightFormat] weight_format: expected a member of its enumeration, got " +
                   std::to_string(static_cast<int>(format)));
}

WeightFormat parse_weight_format(const std::string& name) {
  for (const WeightFormat f : {WeightFormat::kFloat32, WeightFormat::kBfloat16, WeightFormat::kInt8})
    if (name == to_string(f)) return f;
  throw ValueError("[WeightFormat] weight_format: expected one of float32, bfloat16, int8, got \"" + name +
                   "\"");
}

int64_t round_to_bf16(const float* x, int64_t n, uint16_t* bits) {
  constexpr uint32_t kFirstOverflow = 0x7f7f8000u;  // halfway between the largest bfloat16 and 2^128
  int64_t bad = n;
  for (int64_t i = n - 1; i >= 0; --i) {
    const uint32_t b = std::bit_cast<uint32_t>(x[i]);
    if ((b & 0x7fffffffu) >= kFirstOverflow) bad = i;
    bits[i] = static_cast<uint16_t>((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
  }
  return bad;
}

void widen_bf16(const uint16_t* bits, int64_t n, float* x) {
  for (int64_t i = 0; i < n; ++i) x[i] = std::bit_cast<float>(static_cast<uint32_t>(bits[i]) << 16);
}

int32_t quantize_int8(const float* x, int64_t n, int8_t* codes) {
  const FpEnv environment;
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  const int32_t e = largest == 0 ? 0 : floor_log2(largest) - 6;
  const double scale = power_of_two(-e);
  constexpr double kRounder = 0x1.8p52;  // adding it leaves an integer, rounded to nearest even
  for (int64_t i = 0; i < n; ++i) {
    const double code = (static_cast<double>(x[i]) * scale + kRounder) - kRounder;  // the product is exact
    codes[i] = static_cast<int8_t>(std::clamp(code, -127.0, 127.0));
  }
  return e;
}

int64_t widen_int8(const int8_t* codes, int64_t n, int32_t exponent, float* x) {
  const FpEnv environment;
  const double scale = power_of_two(exponent);
  int64_t bad = n;
  for (int64_t i = n - 1; i >= 0; --i) {
    const double value = static_cast<double>(codes[i]) * scale;
    x[i] = static_cast<float>(value);
    if (codes[i] == -128 || static_cast<double>(x[i]) != value) bad = i;
  }
  return bad;
}

}  // namespace isobit

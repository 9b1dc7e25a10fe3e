// SPDX-License-Identifier: Apache-2.0
// How projection weights are kept in memory, and the arithmetic of going there and back (contract 8).
//
// bfloat16: float32 rounded to nearest even. int8: one exponent a row, e = floor(log2 max|row|) - 6 (0 for a
// zero row), and codes = x * 2^-e rounded to nearest even, in -127..127. Both widen back exactly, and a block
// on stored weights gives the bits of the float32 block on the widened ones.
#pragma once

#include <cstdint>
#include <string>

namespace isobit {

enum class WeightFormat { kFloat32, kBfloat16, kInt8 };

/// "float32", "bfloat16", "int8". The reader throws ValueError naming the choices.
const char* to_string(WeightFormat format);
WeightFormat parse_weight_format(const std::string& name);

/// Exponents of rows that can be widened to float32: from a row of one subnormal to 127 * 2^121.
constexpr int32_t kMinInt8Exponent = -155;
constexpr int32_t kMaxInt8Exponent = 121;

/// Returns the first i where x[i] is not finite or rounds to infinity, or n.
int64_t round_to_bf16(const float* x, int64_t n, uint16_t* bits);
void widen_bf16(const uint16_t* bits, int64_t n, float* x);

/// A row of finite numbers -> its codes; returns its exponent.
int32_t quantize_int8(const float* x, int64_t n, int8_t* codes);
/// x[i] = codes[i] * 2^exponent. Returns the first i where a code is -128 or the value is no float32, or n.
/// exponent: kMinInt8Exponent..kMaxInt8Exponent.
int64_t widen_int8(const int8_t* codes, int64_t n, int32_t exponent, float* x);

}  // namespace isobit

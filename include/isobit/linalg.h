// SPDX-License-Identifier: Apache-2.0
// Products of matrices with the bits of the contract, and rows of 15-bit codes, outside of any model.
#pragma once

#include <cstdint>

namespace isobit {

/// out [m, n] = a b^T with a [m, k] and b [n, k], all float32 and dense: out[i][j] = DOT(a[i], b[j], k)
/// (contract 3). ValueError for an operand or a result that is not finite; out is unspecified then.
void matmul(const float* a, int64_t m, const float* b, int64_t n, int64_t k, float* out);

/// Exponents of rows of 15-bit codes: from a row of one subnormal to the largest number.
constexpr int32_t kMinInt15Exponent = -162;
constexpr int32_t kMaxInt15Exponent = 114;

/// Rows of x [rows, k] as 15-bit codes, x about code * 2^exponent (contract 7c.1). ValueError for a value
/// that is not finite.
void quantize_int15(const float* x, int64_t rows, int64_t k, int16_t* codes, int32_t* exponents);
/// x = code * 2^exponent, exactly. ValueError for a code outside -16383..16383, an exponent outside its range
/// or a value that is no float32.
void dequantize_int15(const int16_t* codes, const int32_t* exponents, int64_t rows, int64_t k, float* x);
/// out [m, n] = a b^T of rows of codes, a [m, k] and b [n, k], k <= 65536. ValueError as above, or for a
/// result that is not finite; out is unspecified then.
void matmul_int15(const int16_t* a, const int32_t* a_exponents, int64_t m, const int16_t* b,
                  const int32_t* b_exponents, int64_t n, int64_t k, float* out);

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Integer profiles, for the reference table and its attention.
#pragma once

#include "kernels/table.h"

namespace isobit::kernels::reference {

void quantize_int15(const float* x, int64_t ldx, int64_t rows, int64_t k, int16_t* codes, int64_t ld,
                    int32_t* exponents);
/// The exact sum rounded to float32, times 2^exponent rounded once more.
float int15_value(int64_t sum, int32_t exponent);
void matmul_int15(const Int15Rows& a, int64_t rows, const int16_t* panels, const int32_t* exponents,
                  int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc);
void quantize_int8x32(const float* x, int64_t ldx, int64_t rows, int64_t k, Int8Group* groups);
void matmul_int8x32(const Int8Rows& a, int64_t rows, const uint8_t* panels, int64_t cols, const float* bias,
                    float* c, int64_t ldc);

void matmul_int4x32(const Int8Rows& a, int64_t rows, const uint8_t* panels, bool has_min, int64_t cols,
                    const float* bias, float* c, int64_t ldc);

}  // namespace isobit::kernels::reference

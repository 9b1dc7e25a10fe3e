// SPDX-License-Identifier: Apache-2.0
// The kernels of one instruction set, as table.cc lists them. Every .cc file here is compiled once per ISA
// with its flags, in its namespace (cmake/isa.cmake). None may include a header whose inline functions other
// files share: the linker could keep the copy that was compiled with wide instructions.
#pragma once

#include "kernels/table.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

void activate(Activation kind, const float* gate, const float* up, int64_t n, float* y);
int64_t attention(const AttentionArgs& args);
int64_t attention_scratch(int64_t head_dim);
void attention_join(const AttentionArgs& args, int64_t blocks);
void matmul(const float* a, int64_t lda, int64_t rows, const float* panels, int64_t k, int64_t cols,
            const float* bias, float* c, int64_t ldc);
void matmul_bf16(const float* a, int64_t lda, int64_t rows, const uint16_t* panels, int64_t k, int64_t cols,
                 const float* bias, float* c, int64_t ldc, float* scratch);
void matmul_int8(const float* a, int64_t lda, int64_t rows, const int8_t* panels, const float* scales,
                 int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc, float* scratch);
void matmul_int15(const Int15Rows& a, int64_t rows, const int16_t* panels, const int32_t* exponents,
                  int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc);
void matmul_int8x32(const Int8Rows& a, int64_t rows, const uint8_t* panels, int64_t cols, const float* bias,
                    float* c, int64_t ldc);
void matmul_int4x32(const Int8Rows& a, int64_t rows, const uint8_t* panels, bool has_min, int64_t cols,
                    const float* bias, float* c, int64_t ldc);
void quantize_int15(const float* x, int64_t ldx, int64_t rows, int64_t k, int16_t* codes, int64_t ld,
                    int32_t* exponents);
void quantize_int8x32(const float* x, int64_t ldx, int64_t rows, int64_t k, Int8Group* groups);
void pack_panels(const float* w, int64_t n, int64_t k, float* panels);
int64_t rms_norm(const float* x, int64_t ldx, int64_t rows, int64_t d, const float* w, float eps, bool offset,
                 float* y, int64_t ldy);
int64_t layer_norm(const float* x, int64_t ldx, int64_t rows, int64_t d, const float* w, const float* bias,
                   float eps, float* y, int64_t ldy);
void rope(float* x, int64_t heads, int64_t head_dim, int64_t half, const float* cos, const float* sin);
void causal_conv(const ConvArgs& args);
void selective_scan(const SelectiveScanArgs& args);
void head_steps(const float* raw, const float* bias, const float* a, int64_t heads, float lo, float hi,
                float* dt, float* decay);
void head_scan(const HeadScanArgs& args);
void trapezoid_steps(const TrapezoidStepArgs& args);
void trapezoid_scan(const TrapezoidScanArgs& args);
int64_t trapezoid_scratch(int64_t states, int64_t rank);
void mimo_gate(const float* y, int64_t ldr, const float* gate, const float* mix_gate, const float* mix_out,
               int64_t rank, int64_t n, float* out);
void add(const float* a, const float* b, int64_t n, float* y);
int64_t first_nonfinite(const float* x, int64_t n);
int64_t argmax(const float* x, int64_t n);
void unary(Unary kind, const float* x, int64_t n, float* y);

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// The table of one instruction set.
#include "kernels/generic/kernels.h"
#include "kernels/isa/simd.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

extern const KernelTable table;
const KernelTable table = {
    .isa = kIsaName,
    .matmul = matmul,
    .matmul_bf16 = matmul_bf16,
    .matmul_int8 = matmul_int8,
    .dot = {.isa = kIsaName,
            .matmul_int15 = matmul_int15,
            .matmul_int8x32 = matmul_int8x32,
            .matmul_int4x32 = matmul_int4x32},
    .quantize_int15 = quantize_int15,
    .quantize_int8x32 = quantize_int8x32,
    .attention = attention,
    .attention_scratch = attention_scratch,
    .attention_join = attention_join,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .rope = rope,
    .activate = activate,
    .add = add,
    .unary = unary,
    .causal_conv = causal_conv,
    .selective_scan = selective_scan,
    .head_steps = head_steps,
    .head_scan = head_scan,
    .trapezoid_steps = trapezoid_steps,
    .trapezoid_scan = trapezoid_scan,
    .trapezoid_scratch = trapezoid_scratch,
    .mimo_gate = mimo_gate,
    .first_nonfinite = first_nonfinite,
    .argmax = argmax,
    .pack_panels = pack_panels,
};

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

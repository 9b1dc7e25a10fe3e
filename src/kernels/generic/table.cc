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
    .attention = attention,
    .attention_scratch = attention_scratch,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .rope = rope,
    .activate = activate,
    .add = add,
    .unary = unary,
    .first_nonfinite = first_nonfinite,
    .argmax = argmax,
    .pack_panels = pack_panels,
};

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

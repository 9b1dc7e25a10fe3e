// SPDX-License-Identifier: Apache-2.0
// All kernels of one instruction set: compiled once per ISA with its flags, in its namespace
// (cmake/isa.cmake). Nothing here may come from a header whose inline functions other files share: the linker
// could keep the copy that was compiled with wide instructions.
#include "kernels/generic/activation.h"
#include "kernels/generic/attention.h"
#include "kernels/generic/causal_conv.h"
#include "kernels/generic/elementary.h"
#include "kernels/generic/head_scan.h"
#include "kernels/generic/matmul.h"
#include "kernels/generic/norm.h"
#include "kernels/generic/rope.h"
#include "kernels/generic/selective_scan.h"
#include "kernels/generic/trapezoid_scan.h"
#include "kernels/generic/vector_ops.h"
#include "kernels/table.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

extern const KernelTable table;
const KernelTable table = {
    .isa = kIsaName,
    .matmul = matmul,
    .attention = attention,
    .attention_scratch = attention_scratch,
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

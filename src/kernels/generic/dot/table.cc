// SPDX-License-Identifier: Apache-2.0
// The integer products of one instruction set; all that differs where a CPU has integer dot instructions.
#include "kernels/generic/kernels.h"
#include "kernels/isa/simd.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

extern const DotKernels dot_kernels;
const DotKernels dot_kernels = {
    .isa = kIsaName,
    .matmul_int15 = matmul_int15,
    .matmul_int8x32 = matmul_int8x32,
    .matmul_int4x32 = matmul_int4x32,
};

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

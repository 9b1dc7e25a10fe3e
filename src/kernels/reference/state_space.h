// SPDX-License-Identifier: Apache-2.0
// Contract 7b as written.
#pragma once

#include "kernels/table.h"

namespace isobit::kernels::reference {

void causal_conv(const ConvArgs& args);
void selective_scan(const SelectiveScanArgs& args);
void head_steps(const float* raw, const float* bias, const float* a, int64_t heads, float lo, float hi,
                float* dt, float* decay);
void head_scan(const HeadScanArgs& args);
void trapezoid_steps(const TrapezoidStepArgs& args);
void trapezoid_scan(const TrapezoidScanArgs& args);
void mimo_gate(const float* y, int64_t ldr, const float* gate, const float* mix_gate, const float* mix_out,
               int64_t rank, int64_t n, float* out);

}  // namespace isobit::kernels::reference

// SPDX-License-Identifier: Apache-2.0
// Up to 16 neighbouring floats as one vector.
#pragma once

#include "kernels/isa/simd.h"
#include "kernels/table.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

inline f32x16 load_lanes(const float* x, int n) { return n == 16 ? load(x) : load_n(x, n); }
inline void store_lanes(float* y, f32x16 v, int n) { n == 16 ? store(y, v) : store_n(y, v, n); }

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

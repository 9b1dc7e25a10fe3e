// SPDX-License-Identifier: Apache-2.0
// Rotary embedding (contract 6): pairs (j, j + half) of every head, u' = fma(u, c, -(v*s)), v' = fma(v, c,
// u*s).
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

void rope(float* x, int64_t heads, int64_t head_dim, int64_t half, const float* cos, const float* sin) {
  for (int64_t h = 0; h < heads; ++h, x += head_dim)
    for (int64_t j = 0; j < half; j += 16) {
      const int n = static_cast<int>(half - j < 16 ? half - j : 16);
      const f32x16 u = load_lanes(x + j, n), v = load_lanes(x + half + j, n);
      const f32x16 c = load_lanes(cos + j, n), s = load_lanes(sin + j, n);
      store_lanes(x + j, fma(u, c, -(v * s)), n);
      store_lanes(x + half + j, fma(v, c, u * s), n);
    }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

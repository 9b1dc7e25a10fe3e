// SPDX-License-Identifier: Apache-2.0
// Contract 7b.3, one channel at a time.
#include <cstddef>
#include <vector>

#include "kernels/reference/elementary.h"
#include "kernels/reference/state_space.h"
#include "kernels/reference/tree.h"

namespace isobit::kernels::reference {

void head_steps(const float* raw, const float* bias, const float* a, int64_t heads, float lo, float hi,
                float* dt, float* decay) {
  for (int64_t h = 0; h < heads; ++h) {
    float x = softplus_ref(raw[h] + bias[h]);
    if (x < lo) x = lo;
    if (x > hi) x = hi;
    dt[h] = x;
    decay[h] = exp_ref(x * a[h]);
  }
}

void head_scan(const HeadScanArgs& a) {
  const int64_t ldh = (a.head_dim + 15) / 16 * 16;
  for (int64_t p = 0; p < a.head_dim; ++p) {
    std::vector<float> s;
    for (int64_t n = 0; n < a.states; ++n) s.push_back(a.h_in[n * ldh + p]);
    for (int64_t t = 0; t < a.tokens; ++t) {
      const float x = a.x[t * a.ldx + p];
      const float v = x * a.dt[t * a.ldt];
      for (int64_t n = 0; n < a.states; ++n) {
        float& state = s[static_cast<size_t>(n)];
        state = scalar_fma(a.decay[t * a.ldt], state, v * a.b[t * a.ldbc + n]);
      }
      a.y[t * a.ldy + p] = scalar_fma(a.d, x, dot(a.c + t * a.ldbc, s.data(), a.states));
    }
    for (int64_t n = 0; n < a.states; ++n) a.h_out[n * ldh + p] = s[static_cast<size_t>(n)];
  }
}

}  // namespace isobit::kernels::reference

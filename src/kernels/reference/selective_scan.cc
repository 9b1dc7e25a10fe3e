// SPDX-License-Identifier: Apache-2.0
// Contract 7b.2, one channel at a time.
#include <cstddef>
#include <vector>

#include "kernels/reference/elementary.h"
#include "kernels/reference/state_space.h"
#include "kernels/reference/tree.h"

namespace isobit::kernels::reference {

void selective_scan(const SelectiveScanArgs& a) {
  for (int64_t e = 0; e < a.channels; ++e) {
    std::vector<float> s;
    for (int64_t n = 0; n < a.states; ++n) s.push_back(a.h_in[n * a.ldh + e]);
    for (int64_t t = 0; t < a.tokens; ++t) {
      const float dt = a.dt[t * a.ldt + e], u = a.u[t * a.ldu + e];
      for (int64_t n = 0; n < a.states; ++n) {
        float& state = s[static_cast<size_t>(n)];
        state = scalar_fma(exp_ref(dt * a.a[n * a.ldh + e]), state, (dt * a.b[t * a.ldbc + n]) * u);
      }
      a.y[t * a.ldy + e] = scalar_fma(a.d[e], u, dot(a.c + t * a.ldbc, s.data(), a.states));
    }
    for (int64_t n = 0; n < a.states; ++n) a.h_out[n * a.ldh + e] = s[static_cast<size_t>(n)];
  }
}

}  // namespace isobit::kernels::reference

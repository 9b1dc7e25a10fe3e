// SPDX-License-Identifier: Apache-2.0
// Contract 7b.1: u[t] = silu(chain from the bias over w[j] * x[t - width + 1 + j]).
#include <cstddef>
#include <vector>

#include "kernels/reference/elementary.h"
#include "kernels/reference/state_space.h"
#include "kernels/scalar_fma.h"

namespace isobit::kernels::reference {

void causal_conv(const ConvArgs& a) {
  for (int64_t c = 0; c < a.channels; ++c) {
    std::vector<float> inputs;
    for (int64_t j = 0; j < a.width; ++j) inputs.push_back(a.window_in[j * a.ldw + c]);
    for (int64_t t = 0; t < a.tokens; ++t) {
      inputs.push_back(a.x[t * a.ldx + c]);
      float acc = a.bias ? a.bias[c] : 0.0f;
      for (int64_t j = 0; j < a.width; ++j)
        acc = scalar_fma(a.w[j * a.ldw + c], inputs[static_cast<size_t>(t + 1 + j)], acc);
      a.y[t * a.ldy + c] = silu_ref(acc);
    }
    for (int64_t j = 0; j < a.width; ++j)
      a.window_out[j * a.ldw + c] = inputs[static_cast<size_t>(a.tokens + j)];
  }
}

}  // namespace isobit::kernels::reference

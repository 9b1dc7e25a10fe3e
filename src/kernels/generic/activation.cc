// SPDX-License-Identifier: Apache-2.0
// y = act(gate) * up, or act(gate): the middle of an MLP.
#include "kernels/generic/elementary.h"
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

template <typename F>
static inline void activate_with(F act, const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i += 16) {
    const int m = static_cast<int>(n - i < 16 ? n - i : 16);
    f32x16 v = act(load_lanes(gate + i, m));
    if (up) v = v * load_lanes(up + i, m);
    store_lanes(y + i, v, m);
  }
}

void activate(Activation kind, const float* gate, const float* up, int64_t n, float* y) {
  switch (kind) {
    case Activation::kSilu:
      return activate_with([](f32x16 x) { return silu(x); }, gate, up, n, y);
    case Activation::kGelu:
      return activate_with([](f32x16 x) { return gelu(x); }, gate, up, n, y);
    case Activation::kGeluTanh:
      return activate_with([](f32x16 x) { return gelu_tanh(x); }, gate, up, n, y);
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

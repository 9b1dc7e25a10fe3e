// SPDX-License-Identifier: Apache-2.0
// Causal depthwise convolution and SiLU (contract 7b.1): one fma chain per channel from the bias, oldest tap
// first; lanes run over channels.
#include "kernels/generic/elementary.h"
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

void causal_conv(const ConvArgs& args) {
  // Input i of the call, or one of the window's where i < 0.
  const auto input = [&args](int64_t i) {
    return i < 0 ? args.window_in + (args.width + i) * args.ldw : args.x + i * args.ldx;
  };
  for (int64_t t = 0; t < args.tokens; ++t) {
    const float* taps[kMaxConvWidth];
    for (int64_t j = 0; j < args.width; ++j) taps[j] = input(t - args.width + 1 + j);
    float* y = args.y + t * args.ldy;
    for (int64_t i = 0; i < args.channels; i += 16) {
      const int n = static_cast<int>(args.channels - i < 16 ? args.channels - i : 16);
      f32x16 acc = args.bias ? load_lanes(args.bias + i, n) : zero();
      for (int64_t j = 0; j < args.width; ++j)
        acc = fma(load_lanes(args.w + j * args.ldw + i, n), load_lanes(taps[j] + i, n), acc);
      store_lanes(y + i, silu(acc), n);
    }
  }
  // Ascending rows: each is read before it is overwritten where the windows are one.
  for (int64_t j = 0; j < args.width; ++j) {
    const float* from = input(args.tokens - args.width + j);
    float* to = args.window_out + j * args.ldw;
    for (int64_t i = 0; i < args.channels; i += 16) {
      const int n = static_cast<int>(args.channels - i < 16 ? args.channels - i : 16);
      store_lanes(to + i, load_lanes(from + i, n), n);
    }
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

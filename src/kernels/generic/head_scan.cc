// SPDX-License-Identifier: Apache-2.0
// Mamba 2 (contract 7b.3): a token's steps and decays, and the recurrence of one head.
#include "kernels/generic/head_scan.h"

#include "kernels/generic/elementary.h"
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

void head_steps(const float* raw, const float* bias, const float* a, int64_t heads, float lo, float hi,
                float* dt, float* decay) {
  for (int64_t h = 0; h < heads; h += 16) {
    const int n = static_cast<int>(heads - h < 16 ? heads - h : 16);
    f32x16 x = softplus(load_lanes(raw + h, n) + load_lanes(bias + h, n));
    x = select(x < broadcast(lo), broadcast(lo), x);
    x = select(x > broadcast(hi), broadcast(hi), x);
    store_lanes(dt + h, x, n);
    store_lanes(decay + h, exp(x * load_lanes(a + h, n)), n);
  }
}

// Channels [from, from + 16*VECS) of a head; `channels` of them exist.
template <int VECS>
static inline void head_scan_block(const HeadScanArgs& args, int64_t from, int64_t channels) {
  alignas(64) float v[kHeadTokens * kHeadWidth], y[kHeadTokens * kHeadWidth];
  const int64_t ldh = (args.head_dim + 15) / 16 * 16;
  const float* h_in = args.h_in + from;
  const auto lanes = [channels](int c) {
    return static_cast<int>(channels - 16 * c < 16 ? channels - 16 * c : 16);
  };
  for (int64_t first = 0; first < args.tokens; first += kHeadTokens) {
    const int64_t tokens = args.tokens - first < kHeadTokens ? args.tokens - first : kHeadTokens;
    const float* dt = args.dt + first * args.ldt;
    const float* x = args.x + first * args.ldx + from;
    for (int64_t t = 0; t < tokens; ++t)
      for (int c = 0; c < VECS; ++c) {
        store(v + t * kHeadWidth + 16 * c,
              load_lanes(x + t * args.ldx + 16 * c, lanes(c)) * broadcast(dt[t * args.ldt]));
        store(y + t * kHeadWidth + 16 * c, zero());
      }
    head_chunk<VECS, 1, false>({.tokens = tokens,
                                .rank = 1,
                                .decay = args.decay + first * args.ldt,
                                .ld_decay = args.ldt,
                                .k = args.b + first * args.ldbc,
                                .q = args.c + first * args.ldbc,
                                .ldk = args.ldbc,
                                .rank_stride = 0,
                                .v = v,
                                .carried = nullptr,
                                .y = y},
                               args.states, h_in, args.h_out + from, ldh);
    for (int64_t t = 0; t < tokens; ++t)
      for (int c = 0; c < VECS; ++c)
        store_lanes(args.y + (first + t) * args.ldy + from + 16 * c,
                    fma(broadcast(args.d), load_lanes(x + t * args.ldx + 16 * c, lanes(c)),
                        load(y + t * kHeadWidth + 16 * c) + zero()),
                    lanes(c));
    h_in = args.h_out + from;
  }
}

void head_scan(const HeadScanArgs& args) {
  int64_t from = 0;
  for (; from + kHeadWidth <= args.head_dim; from += kHeadWidth)
    head_scan_block<kHeadVecs>(args, from, kHeadWidth);
  for (; from < args.head_dim; from += 16)
    head_scan_block<1>(args, from, args.head_dim - from < 16 ? args.head_dim - from : 16);
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// Mamba 1's recurrence (contract 7b.2): S = fma(exp(dt*A), S, (dt*B)*u), y = fma(D, u, DOT(C, S)).
//
// Lanes run over 16 channels; a few states stay in registers while a chunk of tokens passes. Each output's
// chain over the states goes on in memory from one group of states to the next.
#include "kernels/generic/elementary.h"
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

constexpr int64_t kScanTokens = 32;  // of a chunk
constexpr int kScanStates = kTileVecs > 1 ? 8 : 4;

// States [n, n + ROWS) of 16 channels over a chunk; dt and u: [tokens][16]; y: [tokens][16] partial chains.
template <int ROWS>
static inline void selective_rows(const SelectiveScanArgs& args, int64_t first, int64_t tokens, int64_t n,
                                  int64_t channel, const float* dt, const float* u, const float* h_in,
                                  float* y) {
  f32x16 a[ROWS], s[ROWS];
  for (int r = 0; r < ROWS; ++r) {
    a[r] = load(args.a + (n + r) * args.ldh + channel);
    s[r] = load(h_in + (n + r) * args.ldh + channel);
  }
  for (int64_t t = 0; t < tokens; ++t) {
    const float* b = args.b + (first + t) * args.ldbc + n;
    const float* c = args.c + (first + t) * args.ldbc + n;
    const f32x16 step = load(dt + 16 * t), input = load(u + 16 * t);
    f32x16 acc = load(y + 16 * t);
    for (int r = 0; r < ROWS; ++r) {
      s[r] = fma(exp(step * a[r]), s[r], (step * broadcast(b[r])) * input);
      acc = fma(broadcast(c[r]), s[r], acc);
    }
    store(y + 16 * t, acc);
  }
  for (int r = 0; r < ROWS; ++r) store(args.h_out + (n + r) * args.ldh + channel, s[r]);
}

void selective_scan(const SelectiveScanArgs& args) {
  alignas(64) float dt[kScanTokens * 16], u[kScanTokens * 16], y[kScanTokens * 16];
  for (int64_t channel = 0; channel < args.channels; channel += 16) {
    const int lanes = static_cast<int>(args.channels - channel < 16 ? args.channels - channel : 16);
    const f32x16 d = load_lanes(args.d + channel, lanes);
    const float* h_in = args.h_in;
    for (int64_t first = 0; first < args.tokens; first += kScanTokens) {
      const int64_t tokens = args.tokens - first < kScanTokens ? args.tokens - first : kScanTokens;
      for (int64_t t = 0; t < tokens; ++t) {
        store(dt + 16 * t, load_lanes(args.dt + (first + t) * args.ldt + channel, lanes));
        store(u + 16 * t, load_lanes(args.u + (first + t) * args.ldu + channel, lanes));
        store(y + 16 * t, zero());
      }
      int64_t n = 0;
      for (; n + kScanStates <= args.states; n += kScanStates)
        selective_rows<kScanStates>(args, first, tokens, n, channel, dt, u, h_in, y);
      for (; n < args.states; ++n) selective_rows<1>(args, first, tokens, n, channel, dt, u, h_in, y);
      for (int64_t t = 0; t < tokens; ++t)
        store_lanes(args.y + (first + t) * args.ldy + channel,
                    fma(d, load(u + 16 * t), load(y + 16 * t) + zero()), lanes);
      h_in = args.h_out;
    }
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// The recurrence of one head of Mamba 2 (contract 7b.3), and the loop that Mamba 3 shares with it:
//   S[n][p] = fma(decay, S', v[p]*k[n]),   y[p] = DOT over n of q[n]*S[n][p]
// with S' = S, or S plus the previous token's carried product (trapezoid).
//
// Lanes run over the head's channels p. Some rows n stay in registers while a chunk of tokens passes; the
// chains of y go on in memory from one group of rows to the next.
#pragma once

#include "kernels/generic/elementary.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

constexpr int64_t kHeadTokens = 32;  // of a chunk
constexpr int kHeadVecs = kTileVecs > 1 ? 4 : 2;
constexpr int kHeadRows = kTileVecs > 1 ? 4 : 2;
constexpr int64_t kHeadWidth = 16 * kHeadVecs;  // channels of a chunk at a time

// A chunk of tokens of one head and up to kHeadWidth of its channels.
struct HeadChunk {
  int64_t tokens;
  int64_t rank;        // products added to the state for each token
  const float* decay;  // decay[t*ld_decay]
  int64_t ld_decay;
  const float* k;  // k[t*ldk + r*rank_stride + n], q likewise; trapezoid: token -1 is there as well
  const float* q;
  int64_t ldk;
  int64_t rank_stride;
  const float* v;        // [tokens][rank][kHeadWidth]
  const float* carried;  // the same for the previous token's part (trapezoid)
  float* y;              // the same
};

// Rows [n, n + ROWS) of the state. RANK 0: chunk.rank.
template <int ROWS, int VECS, int RANK, bool TRAPEZOID>
inline void head_rows(const HeadChunk& chunk, int64_t n, const float* h_in, float* h_out, int64_t ldh) {
  const int64_t rank = RANK > 0 ? RANK : chunk.rank;
  f32x16 s[ROWS][VECS];
  for (int i = 0; i < ROWS; ++i)
    for (int c = 0; c < VECS; ++c) s[i][c] = load(h_in + (n + i) * ldh + 16 * c);
  for (int64_t t = 0; t < chunk.tokens; ++t) {
    const f32x16 decay = broadcast(chunk.decay[t * chunk.ld_decay]);
    const float* k = chunk.k + t * chunk.ldk + n;
    const float* q = chunk.q + t * chunk.ldk + n;
    const int64_t at = t * rank * kHeadWidth;
    for (int c = 0; c < VECS; ++c) {
      const float* v = chunk.v + at + 16 * c;
      if constexpr (TRAPEZOID)
        for (int64_t r = 0; r < rank; ++r) {
          const f32x16 carried = load(chunk.carried + at + r * kHeadWidth + 16 * c);
          const float* before = k - chunk.ldk + r * chunk.rank_stride;
          for (int i = 0; i < ROWS; ++i) s[i][c] = fma(carried, broadcast(before[i]), s[i][c]);
        }
      f32x16 added[ROWS];
      const f32x16 v0 = load(v);
      for (int i = 0; i < ROWS; ++i) added[i] = v0 * broadcast(k[i]);
      for (int64_t r = 1; r < rank; ++r) {
        const f32x16 vr = load(v + r * kHeadWidth);
        for (int i = 0; i < ROWS; ++i) added[i] = fma(vr, broadcast(k[r * chunk.rank_stride + i]), added[i]);
      }
      for (int i = 0; i < ROWS; ++i) s[i][c] = fma(decay, s[i][c], added[i]);
      for (int64_t r = 0; r < rank; ++r) {
        float* y = chunk.y + at + r * kHeadWidth + 16 * c;
        f32x16 acc = load(y);
        for (int i = 0; i < ROWS; ++i) acc = fma(broadcast(q[r * chunk.rank_stride + i]), s[i][c], acc);
        store(y, acc);
      }
    }
  }
  for (int i = 0; i < ROWS; ++i)
    for (int c = 0; c < VECS; ++c) store(h_out + (n + i) * ldh + 16 * c, s[i][c]);
}

// All rows. chunk.y begins at +0.
template <int VECS, int RANK, bool TRAPEZOID>
inline void head_chunk(const HeadChunk& chunk, int64_t states, const float* h_in, float* h_out, int64_t ldh) {
  int64_t n = 0;
  for (; n + kHeadRows <= states; n += kHeadRows)
    head_rows<kHeadRows, VECS, RANK, TRAPEZOID>(chunk, n, h_in, h_out, ldh);
  for (; n < states; ++n) head_rows<1, VECS, RANK, TRAPEZOID>(chunk, n, h_in, h_out, ldh);
}

inline void head_steps(const float* raw, const float* bias, const float* a, int64_t heads, float lo, float hi,
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
inline void head_scan_block(const HeadScanArgs& args, int64_t from, int64_t channels) {
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

inline void head_scan(const HeadScanArgs& args) {
  int64_t from = 0;
  for (; from + kHeadWidth <= args.head_dim; from += kHeadWidth)
    head_scan_block<kHeadVecs>(args, from, kHeadWidth);
  for (; from < args.head_dim; from += 16)
    head_scan_block<1>(args, from, args.head_dim - from < 16 ? args.head_dim - from : 16);
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

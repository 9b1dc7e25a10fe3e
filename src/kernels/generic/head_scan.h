// SPDX-License-Identifier: Apache-2.0
// The loop that the recurrences of a Mamba 2 and a Mamba 3 head share (contract 7b.3, 7b.4):
//   S[n][p] = fma(decay, S', v[p]*k[n]),   y[p] = DOT over n of q[n]*S[n][p]
// with S' = S, or S plus the previous token's carried product (trapezoid).
//
// Lanes run over the head's channels p. Some rows n stay in registers while a chunk of tokens passes; the
// chains of y go on in memory from one group of rows to the next.
#pragma once

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

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

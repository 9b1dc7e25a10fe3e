// SPDX-License-Identifier: Apache-2.0
// The register tile of c[m][n] = DOT(a[m], w[n]) (+ bias[n]): contract 3. SIMD lanes run over outputs n, so
// one chain per output and block of 256 k; the blocks' results are combined by the tree of contract 2 in a
// small stack.
#pragma once

#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

// One register tile: ROWS rows of a with VECS times 16 columns. Loops over its registers are unrolled by
// order: GCC otherwise keeps them in memory where a value is four registers (NEON).
template <int ROWS, int VECS, class Columns>
static inline void matmul_tile(const float* a, int64_t lda, const Columns* b, int64_t k, const float* bias,
                               float* c, int64_t ldc, int64_t cols) {
  f32x16 partials[kMaxTreeLevels][ROWS][VECS];
  f32x16 acc[ROWS][VECS];
  int depth = 0;
  int64_t block = 0;
  // How far ahead weights are asked for: near where rows are so few that memory is waited for, and so far
  // that they are there in time where the multiply-adds take longer. One vector passes every other line.
  constexpr int kAhead = VECS == 1 ? 16384 : ROWS <= Columns::kStreamedRows ? 512 : 8192;
  // The lines of c arrive while the chains run.
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < VECS; ++v) prefetch(c + r * ldc + 16 * v);
  for (int64_t begin = 0;; begin += kBlock, ++block) {
    const int64_t end = begin + kBlock < k ? begin + kBlock : k;
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < VECS; ++v) acc[r][v] = zero();
    for (int64_t i = begin; i < end; ++i) {
      f32x16 w[VECS];
#pragma GCC unroll 16
      for (int v = 0; v < VECS; ++v) {
        w[v] = b[v].at(i);
        if (v % Columns::kSharing == 0) prefetch_l2(reinterpret_cast<const char*>(b[v].row(i)) + kAhead);
      }
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const f32x16 x = broadcast(a[r * lda + i]);
#pragma GCC unroll 16
        for (int v = 0; v < VECS; ++v) acc[r][v] = fma(x, w[v], acc[r][v]);
      }
    }
    // Left siblings that exist are merged on the way up; after the last block whatever is left folds right to
    // left.
    const bool last = end == k;
    for (int64_t bit = block; depth > 0 && (last || (bit & 1)); bit >>= 1) {
      --depth;
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
        for (int v = 0; v < VECS; ++v) acc[r][v] = partials[depth][r][v] + acc[r][v];
    }
    if (last) break;
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < VECS; ++v) partials[depth][r][v] = acc[r][v];
    ++depth;
  }
#pragma GCC unroll 16
  for (int v = 0; v < VECS; ++v) {
    const int64_t left = cols - 16 * v;
    const int n = left < 16 ? static_cast<int>(left) : 16;
    if (n <= 0) break;
    const f32x16 shift = bias ? load_n(bias + 16 * v, n) : zero();
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      f32x16 y = acc[r][v] + zero();
      if (bias) y = y + shift;
      if (n == 16)
        store(c + r * ldc + 16 * v, y);
      else
        store_n(c + r * ldc + 16 * v, y, n);
    }
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// The register tile of c[m][n] = DOT(a[m], w[n]) (+ bias[n]): contract 3. SIMD lanes run over outputs n, so
// one chain per output and block of 256 k; the blocks' results are combined by the tree of contract 2 in a
// small stack. Stored weights are widened in registers.
#pragma once

#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

constexpr int kPrefetchBytes = 2048;

// Stored weights of 16 outputs, from their first k; `at` widens those of one k. `p` is inside panels, whose
// rows are kPanel elements.
struct FloatColumns {
  const float* p;
  ISOBIT_INLINE f32x16 at(int64_t i) const { return load(p + i * kPanel); }
};
struct Bf16Columns {
  const uint16_t* p;
  ISOBIT_INLINE f32x16 at(int64_t i) const { return load_bf16(p + i * kPanel); }
};
struct Int8Columns {
  const int8_t* p;
  f32x16 scale;
  ISOBIT_INLINE f32x16 at(int64_t i) const { return to_f32(load_i8(p + i * kPanel)) * scale; }
};

// Panels of a whole matrix; columns(v) are outputs [16 v, 16 v + 16).
struct FloatPanels {
  const float* data;
  int64_t k;
  ISOBIT_INLINE FloatColumns columns(int64_t v) const { return {data + v / 2 * k * kPanel + v % 2 * 16}; }
};
struct Bf16Panels {
  const uint16_t* data;
  int64_t k;
  ISOBIT_INLINE Bf16Columns columns(int64_t v) const { return {data + v / 2 * k * kPanel + v % 2 * 16}; }
};
struct Int8Panels {
  const int8_t* data;
  const float* scales;  // one for each output
  int64_t k;
  ISOBIT_INLINE Int8Columns columns(int64_t v) const {
    return {data + v / 2 * k * kPanel + v % 2 * 16, load(scales + 16 * v)};
  }
};

// One register tile: ROWS rows of a with VECS times 16 columns. Loops over its registers are unrolled by
// order: GCC otherwise keeps them in memory where a value is four registers (NEON).
template <int ROWS, int VECS, class Columns>
static inline void matmul_tile(const float* a, int64_t lda, const Columns* b, int64_t k, const float* bias,
                               float* c, int64_t ldc, int64_t cols) {
  f32x16 partials[kMaxTreeLevels][ROWS][VECS];
  f32x16 acc[ROWS][VECS];
  int depth = 0;
  int64_t block = 0;
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
        constexpr bool kOneLine = kPanel * sizeof(*b[v].p) <= 64;  // both halves of a panel's row in one line
        if (!kOneLine || v % 2 == 0)
          prefetch(reinterpret_cast<const char*>(b[v].p + i * kPanel) + kPrefetchBytes);
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

// All columns for exactly ROWS rows, or for `rows` rows in steps of ROWS.
template <int ROWS, int VECS, class Panels>
static inline void matmul_strip(const float* a, int64_t lda, int64_t rows, const Panels& panels, int64_t k,
                                int64_t vec, const float* bias, float* c, int64_t ldc, int64_t cols) {
  decltype(panels.columns(0)) b[VECS];
  for (int v = 0; v < VECS; ++v) b[v] = panels.columns(vec + v);
  const float* shift = bias ? bias + vec * 16 : nullptr;
  for (int64_t r = 0; r + ROWS <= rows; r += ROWS)
    matmul_tile<ROWS, VECS>(a + r * lda, lda, b, k, shift, c + r * ldc + vec * 16, ldc, cols - vec * 16);
}

// Rows that do not fill a tile: the tile of exactly that many rows.
template <int ROWS, int VECS, class Panels>
static inline void matmul_rest(const float* a, int64_t lda, int64_t rows, const Panels& panels, int64_t k,
                               int64_t vec, const float* bias, float* c, int64_t ldc, int64_t cols) {
  if constexpr (ROWS > 0) {
    if (rows == ROWS)
      matmul_strip<ROWS, VECS>(a, lda, rows, panels, k, vec, bias, c, ldc, cols);
    else
      matmul_rest<ROWS - 1, VECS>(a, lda, rows, panels, k, vec, bias, c, ldc, cols);
  }
}

constexpr int kWide =
    kTileRows * kTileVecs >= 16 ? 4 : 2;  // vectors; registers for two rows of them and more

// Few rows: wide tiles, so that enough independent chains hide the latency of fma. Columns that do not fill
// the widest tile take narrower ones.
template <int ROWS, int WIDE, class Panels>
static inline void matmul_few(const float* a, int64_t lda, const Panels& panels, int64_t k, int64_t vec,
                              int64_t cols, const float* bias, float* c, int64_t ldc) {
  const int64_t vecs = (cols + 15) / 16;
  for (; vec + WIDE <= vecs; vec += WIDE)
    matmul_strip<ROWS, WIDE>(a, lda, ROWS, panels, k, vec, bias, c, ldc, cols);
  if constexpr (WIDE > 1) matmul_few<ROWS, WIDE / 2>(a, lda, panels, k, vec, cols, bias, c, ldc);
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// c[m][n] = DOT(a[m], w[n]) (+ bias[n]): contract 3. SIMD lanes run over outputs n, so one chain per output
// and block of 256 k; the blocks' results are combined by the tree of contract 2 in a small stack.
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

constexpr int64_t kPrefetchRows = 16;  // of a panel, 128 bytes each

// One register tile: ROWS rows of a with VECS vectors of 16 columns; b[v] points at the first k of its 16
// columns.
template <int ROWS, int VECS>
static inline void matmul_tile(const float* a, int64_t lda, const float* const* b, int64_t k,
                               const float* bias, float* c, int64_t ldc, int64_t cols) {
  f32x16 partials[kMaxTreeLevels][ROWS][VECS];
  f32x16 acc[ROWS][VECS];
  int depth = 0;
  int64_t block = 0;
  // The lines of c arrive while the chains run.
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECS; ++v) prefetch(c + r * ldc + 16 * v);
  for (int64_t begin = 0;; begin += kBlock, ++block) {
    const int64_t end = begin + kBlock < k ? begin + kBlock : k;
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECS; ++v) acc[r][v] = zero();
    for (int64_t i = begin; i < end; ++i) {
      f32x16 w[VECS];
      for (int v = 0; v < VECS; ++v) {
        w[v] = load(b[v] + i * kPanel);
        prefetch(b[v] + (i + kPrefetchRows) * kPanel);
      }
      for (int r = 0; r < ROWS; ++r) {
        const f32x16 x = broadcast(a[r * lda + i]);
        for (int v = 0; v < VECS; ++v) acc[r][v] = fma(x, w[v], acc[r][v]);
      }
    }
    // Left siblings that exist are merged on the way up; after the last block whatever is left folds right to
    // left.
    const bool last = end == k;
    for (int64_t bit = block; depth > 0 && (last || (bit & 1)); bit >>= 1) {
      --depth;
      for (int r = 0; r < ROWS; ++r)
        for (int v = 0; v < VECS; ++v) acc[r][v] = partials[depth][r][v] + acc[r][v];
    }
    if (last) break;
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECS; ++v) partials[depth][r][v] = acc[r][v];
    ++depth;
  }
  for (int v = 0; v < VECS; ++v) {
    const int64_t left = cols - 16 * v;
    const int n = left < 16 ? static_cast<int>(left) : 16;
    if (n <= 0) break;
    const f32x16 shift = bias ? load_n(bias + 16 * v, n) : zero();
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
template <int ROWS, int VECS>
static inline void matmul_strip(const float* a, int64_t lda, int64_t rows, const float* panels, int64_t k,
                                int64_t vec, const float* bias, float* c, int64_t ldc, int64_t cols) {
  const float* b[VECS];
  for (int v = 0; v < VECS; ++v) b[v] = panels + ((vec + v) / 2) * k * kPanel + ((vec + v) % 2) * 16;
  const float* shift = bias ? bias + vec * 16 : nullptr;
  for (int64_t r = 0; r + ROWS <= rows; r += ROWS)
    matmul_tile<ROWS, VECS>(a + r * lda, lda, b, k, shift, c + r * ldc + vec * 16, ldc, cols - vec * 16);
}

// Rows that do not fill a tile: the tile of exactly that many rows.
template <int ROWS, int VECS>
static inline void matmul_rest(const float* a, int64_t lda, int64_t rows, const float* panels, int64_t k,
                               int64_t vec, const float* bias, float* c, int64_t ldc, int64_t cols) {
  if constexpr (ROWS > 0) {
    if (rows == ROWS)
      matmul_strip<ROWS, VECS>(a, lda, rows, panels, k, vec, bias, c, ldc, cols);
    else
      matmul_rest<ROWS - 1, VECS>(a, lda, rows, panels, k, vec, bias, c, ldc, cols);
  }
}

// Few rows: wide tiles, so that enough independent chains hide the latency of fma. Columns that do not fill
// the widest tile take narrower ones.
template <int ROWS, int WIDE>
static inline void matmul_few(const float* a, int64_t lda, const float* panels, int64_t k, int64_t vec,
                              int64_t cols, const float* bias, float* c, int64_t ldc) {
  const int64_t vecs = (cols + 15) / 16;
  for (; vec + WIDE <= vecs; vec += WIDE)
    matmul_strip<ROWS, WIDE>(a, lda, ROWS, panels, k, vec, bias, c, ldc, cols);
  if constexpr (WIDE > 1) matmul_few<ROWS, WIDE / 2>(a, lda, panels, k, vec, cols, bias, c, ldc);
}

void matmul(const float* a, int64_t lda, int64_t rows, const float* panels, int64_t k, int64_t cols,
            const float* bias, float* c, int64_t ldc) {
  constexpr int kWide =
      kTileRows * kTileVecs >= 16 ? 4 : 2;  // vectors; registers for two rows of them and more
  if (rows == 1) return matmul_few<1, 2 * kWide>(a, lda, panels, k, 0, cols, bias, c, ldc);
  if (rows == 2) return matmul_few<2, kWide>(a, lda, panels, k, 0, cols, bias, c, ldc);
  const int64_t vecs = (cols + 15) / 16;
  constexpr int64_t kGroup = 96;  // rows that stay in the second-level cache while the panels pass
  for (int64_t first = 0; first < rows; first += kGroup) {
    const int64_t n = rows - first < kGroup ? rows - first : kGroup;
    const int64_t full = n / kTileRows * kTileRows;
    const float* x = a + first * lda;
    float* y = c + first * ldc;
    int64_t vec = 0;
    for (; vec + kTileVecs <= vecs; vec += kTileVecs) {
      matmul_strip<kTileRows, kTileVecs>(x, lda, n, panels, k, vec, bias, y, ldc, cols);
      matmul_rest<kTileRows - 1, kTileVecs>(x + full * lda, lda, n - full, panels, k, vec, bias,
                                            y + full * ldc, ldc, cols);
    }
    for (; vec < vecs; ++vec) {
      matmul_strip<kTileRows, 1>(x, lda, n, panels, k, vec, bias, y, ldc, cols);
      matmul_rest<kTileRows - 1, 1>(x + full * lda, lda, n - full, panels, k, vec, bias, y + full * ldc, ldc,
                                    cols);
    }
  }
}

// panels[p][i][j] = w[32 p + j][i], zeros past n.
void pack_panels(const float* w, int64_t n, int64_t k, float* panels) {
  constexpr int64_t kStep = 16;  // k at a time: one cache line of each row
  for (int64_t first = 0; first < n; first += kPanel, panels += k * kPanel) {
    const int64_t rows = n - first < kPanel ? n - first : kPanel;
    for (int64_t i0 = 0; i0 < k; i0 += kStep) {
      const int64_t i1 = i0 + kStep < k ? i0 + kStep : k;
      for (int64_t j = 0; j < rows; ++j)
        for (int64_t i = i0; i < i1; ++i) panels[i * kPanel + j] = w[(first + j) * k + i];
      for (int64_t j = rows; j < kPanel; ++j)
        for (int64_t i = i0; i < i1; ++i) panels[i * kPanel + j] = 0.0f;
    }
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

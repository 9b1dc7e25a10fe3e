// SPDX-License-Identifier: Apache-2.0
// c[m][n] = DOT(a[m], w[n]) (+ bias[n]) of packed weights in any format: which register tiles compute it, and
// where weights of fewer bits are widened.
#pragma once

#include <type_traits>

#include "kernels/generic/matmul_tile.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

// Stored weights of 16 outputs: row(i) is where those of one k lie, in a cache line that kSharing vectors of
// outputs share, and at(i) widens them. Up to kStreamedRows rows take less time than reading the weights.
struct FloatColumns {
  static constexpr int kSharing = 1, kStreamedRows = 4;
  const float* p;
  ISOBIT_INLINE const float* row(int64_t i) const { return p + i * kPanel; }
  ISOBIT_INLINE f32x16 at(int64_t i) const { return load(row(i)); }
};

// Panels of a whole matrix; columns(v) are outputs [16 v, 16 v + 16).
struct FloatPanels {
  const float* data;
  int64_t k;
  ISOBIT_INLINE FloatColumns columns(int64_t v) const { return {data + v / 2 * k * kPanel + v % 2 * 16}; }
};

// Weights that stay behind, widened, for the tiles that follow.
template <class Columns>
struct KeptColumns : Columns {
  float* kept;
  ISOBIT_INLINE f32x16 at(int64_t i) const {
    const f32x16 w = Columns::at(i);
    store(kept + i * kPanel, w);
    return w;
  }
};

constexpr int kWide =
    kTileRows * kTileVecs >= 16 ? 4 : 2;  // vectors; registers for two rows of them and more

// One row or two: wide tiles, so that enough independent chains hide the latency of fma. Columns that do not
// fill the widest tile take narrower ones.
template <int ROWS, int WIDE, class Panels>
static inline void matmul_few(const float* a, int64_t lda, const Panels& panels, int64_t k, int64_t vec,
                              const float* bias, float* c, int64_t ldc, int64_t cols) {
  for (const int64_t vecs = (cols + 15) / 16; vec + WIDE <= vecs; vec += WIDE) {
    decltype(panels.columns(0)) b[WIDE];
    for (int v = 0; v < WIDE; ++v) b[v] = panels.columns(vec + v);
    matmul_tile<ROWS, WIDE>(a, lda, b, k, bias ? bias + vec * 16 : nullptr, c + vec * 16, ldc,
                            cols - vec * 16);
  }
  if constexpr (WIDE > 1) matmul_few<ROWS, WIDE / 2>(a, lda, panels, k, vec, bias, c, ldc, cols);
}

// The tile of exactly `rows` rows, at most ROWS.
template <int ROWS, int VECS, class Columns>
static inline void matmul_exactly(const float* a, int64_t lda, int64_t rows, const Columns* b, int64_t k,
                                  const float* bias, float* c, int64_t ldc, int64_t cols) {
  if constexpr (ROWS > 1)
    if (rows < ROWS) return matmul_exactly<ROWS - 1, VECS>(a, lda, rows, b, k, bias, c, ldc, cols);
  matmul_tile<ROWS, VECS>(a, lda, b, k, bias, c, ldc, cols);
}

// Any number of rows, in as few tiles as possible and those alike: a tile of one or two rows has too few
// chains to hide the latency of fma.
template <int VECS, class Columns>
static inline void matmul_rows(const float* a, int64_t lda, int64_t rows, const Columns* b, int64_t k,
                               const float* bias, float* c, int64_t ldc, int64_t cols) {
  for (int64_t tiles = (rows + kTileRows - 1) / kTileRows; tiles > 0; --tiles) {
    const int64_t n = (rows + tiles - 1) / tiles;
    matmul_exactly<kTileRows, VECS>(a, lda, n, b, k, bias, c, ldc, cols);
    rows -= n;
    a += n * lda;
    c += n * ldc;
  }
}

// VECS times 16 columns. Of many rows the first tile leaves what it has widened in `scratch` for the others.
template <int VECS, class Panels>
static inline void matmul_strip(const float* a, int64_t lda, int64_t rows, const Panels& panels, int64_t k,
                                int64_t vec, const float* bias, float* c, int64_t ldc, int64_t cols,
                                float* scratch) {
  using Columns = decltype(panels.columns(0));
  const float* shift = bias ? bias + vec * 16 : nullptr;
  c += vec * 16;
  cols -= vec * 16;
  if constexpr (!std::is_same_v<Columns, FloatColumns>) {
    if (rows > 2 * kTileRows) {
      KeptColumns<Columns> b[VECS];
      FloatColumns widened[VECS];
      for (int v = 0; v < VECS; ++v) {
        b[v] = {panels.columns(vec + v), scratch + 16 * v};
        widened[v] = {scratch + 16 * v};
      }
      matmul_tile<kTileRows, VECS>(a, lda, b, k, shift, c, ldc, cols);
      return matmul_rows<VECS>(a + kTileRows * lda, lda, rows - kTileRows, widened, k, shift,
                               c + kTileRows * ldc, ldc, cols);
    }
  }
  Columns b[VECS];
  for (int v = 0; v < VECS; ++v) b[v] = panels.columns(vec + v);
  matmul_rows<VECS>(a, lda, rows, b, k, shift, c, ldc, cols);
}

// Rows go in groups that stay in the second-level cache while the panels pass.
template <class Panels>
static inline void matmul_panels(const float* a, int64_t lda, int64_t rows, const Panels& panels, int64_t k,
                                 const float* bias, float* c, int64_t ldc, int64_t cols, float* scratch) {
  if (rows == 1) return matmul_few<1, 2 * kWide>(a, lda, panels, k, 0, bias, c, ldc, cols);
  if (rows == 2) return matmul_few<2, kWide>(a, lda, panels, k, 0, bias, c, ldc, cols);
  constexpr int64_t kGroup = 96;
  for (; rows > 0; rows -= kGroup, a += kGroup * lda, c += kGroup * ldc) {
    const int64_t n = rows < kGroup ? rows : kGroup, vecs = (cols + 15) / 16;
    int64_t vec = 0;
    for (; vec + kTileVecs <= vecs; vec += kTileVecs)
      matmul_strip<kTileVecs>(a, lda, n, panels, k, vec, bias, c, ldc, cols, scratch);
    for (; vec < vecs; ++vec) matmul_strip<1>(a, lda, n, panels, k, vec, bias, c, ldc, cols, scratch);
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

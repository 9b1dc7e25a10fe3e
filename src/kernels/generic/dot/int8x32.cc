// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit blocks of 32 (contract 7c.2): an exact integer sum for each block, fma with the product
// of the two scales, 256-blocks by the tree of contract 2, the bias. Lanes run over outputs; a 32-bit word of
// a lane holds four neighbouring k.
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

// acc[r][v] = chain over the 32-blocks [first, last) of one 256-block, from +0. Weights are stored as
// code + 128; where the instruction takes them so, 128 times the sum of the row's codes is taken off at the
// start.
template <int ROWS, int VECS>
ISOBIT_INLINE void int8x32_chain(const Int8Rows& a, int64_t row, const uint8_t* panel, int64_t first,
                                 int64_t last, f32x16 (&acc)[ROWS][VECS]) {
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECS; ++v) acc[r][v] = zero();
  for (int64_t b = first; b < last; ++b) {
    const uint8_t* block = panel + b * kInt8BlockBytes;
    i32x16 d[ROWS][VECS];
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECS; ++v)
        d[r][v] = broadcast_i(kQuadOffset == 0 ? 0 : a.offsets[(row + r) * a.blocks + b]);
    for (int q = 0; q < 8; ++q) {
      QuadWeights w[VECS];
      for (int v = 0; v < VECS; ++v) {
        w[v] = quad_weights_offset(load_words(block + q * 128 + v * 64));
        prefetch(block + q * 128 + v * 64 + 4096);
      }
      for (int r = 0; r < ROWS; ++r) {
        const QuadRow x = quad_row(a.codes + ((row + r) * a.blocks + b) * 32 + 4 * q);
        for (int v = 0; v < VECS; ++v) d[r][v] = dot_quads(d[r][v], w[v], x);
      }
    }
    const float* scales = reinterpret_cast<const float*>(block + 32 * kPanel);
    for (int v = 0; v < VECS; ++v) {
      const f32x16 s = load(scales + 16 * v);
      for (int r = 0; r < ROWS; ++r)
        acc[r][v] = fma(to_f32(d[r][v]), s * broadcast(a.scales[(row + r) * a.blocks + b]), acc[r][v]);
    }
  }
}

// ROWS rows with VECS vectors of 16 outputs of one panel.
template <int ROWS, int VECS>
static inline void int8x32_tile(const Int8Rows& a, int64_t row, const uint8_t* panel, const float* bias,
                                float* c, int64_t ldc, int64_t cols) {
  constexpr int64_t kStep = kBlock / 32;
  f32x16 partials[kMaxTreeLevels][ROWS][VECS];
  f32x16 acc[ROWS][VECS];
  int depth = 0;
  for (int64_t block = 0;; ++block) {
    const int64_t first = block * kStep;
    const bool last = first + kStep >= a.blocks;
    int8x32_chain<ROWS, VECS>(a, row, panel, first, last ? a.blocks : first + kStep, acc);
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
  for (int v = 0; v < VECS && 16 * v < cols; ++v) {
    const int n = cols - 16 * v < 16 ? static_cast<int>(cols - 16 * v) : 16;
    const f32x16 shift = bias ? load_lanes(bias + 16 * v, n) : zero();
    for (int r = 0; r < ROWS; ++r) {
      const f32x16 y = acc[r][v] + zero();
      store_lanes(c + (row + r) * ldc + 16 * v, bias ? y + shift : y, n);
    }
  }
}

// Rows from `row` that do not fill a tile: the tile of exactly that many rows.
template <int ROWS, int VECS>
static inline void int8x32_rest(const Int8Rows& a, int64_t row, int64_t rows, const uint8_t* panel,
                                const float* bias, float* c, int64_t ldc, int64_t cols) {
  if constexpr (ROWS > 0) {
    if (rows - row == ROWS)
      int8x32_tile<ROWS, VECS>(a, row, panel, bias, c, ldc, cols);
    else
      int8x32_rest<ROWS - 1, VECS>(a, row, rows, panel, bias, c, ldc, cols);
  }
}

void matmul_int8x32(const Int8Rows& a, int64_t rows, const uint8_t* panels, int64_t cols, const float* bias,
                    float* c, int64_t ldc) {
  for (int64_t col = 0; col < cols; col += kPanel, panels += a.blocks * kInt8BlockBytes) {
    const float* shift = bias ? bias + col : nullptr;
    if (rows == 1) {
      int8x32_tile<1, 2>(a, 0, panels, shift, c + col, ldc, cols - col);
      continue;
    }
    int64_t row = 0;
    for (; row + kInt8Rows <= rows; row += kInt8Rows)
      int8x32_tile<kInt8Rows, 2>(a, row, panels, shift, c + col, ldc, cols - col);
    int8x32_rest<kInt8Rows - 1, 2>(a, row, rows, panels, shift, c + col, ldc, cols - col);
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

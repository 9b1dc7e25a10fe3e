// SPDX-License-Identifier: Apache-2.0
// The register tile of products of blocks of 32 (contract 7c.2, 7c.3): a block's integer sums and scales are
// the business of `Block`; here its results become chains over 256-blocks, the tree of contract 2, the bias.
// Lanes run over outputs; a 32-bit word of a lane holds four neighbouring k.
#pragma once

#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

// ROWS rows with VECS vectors of 16 outputs of one panel.
template <class Block, int ROWS, int VECS>
static inline void block_tile(const Int8Rows& a, int64_t row, const uint8_t* panel, const float* bias,
                              float* c, int64_t ldc, int64_t cols) {
  constexpr int64_t kStep = kBlock / kInt8Block;
  f32x16 partials[kMaxTreeLevels][ROWS][VECS];
  f32x16 acc[ROWS][VECS];
  int depth = 0;
  for (int64_t block = 0;; ++block) {
    const int64_t first = block * kStep;
    const bool last = first + kStep >= a.blocks;
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECS; ++v) acc[r][v] = zero();
    for (int64_t b = first; b < (last ? a.blocks : first + kStep); ++b)
      Block::template add<ROWS, VECS>(a, row, b, panel + b * Block::kBytes, acc);
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
template <class Block, int ROWS>
static inline void block_rest(const Int8Rows& a, int64_t row, int64_t rows, const uint8_t* panel,
                              const float* bias, float* c, int64_t ldc, int64_t cols) {
  if constexpr (ROWS > 0) {
    if (rows - row == ROWS)
      block_tile<Block, ROWS, 2>(a, row, panel, bias, c, ldc, cols);
    else
      block_rest<Block, ROWS - 1>(a, row, rows, panel, bias, c, ldc, cols);
  }
}

template <class Block>
static inline void block_product(const Int8Rows& a, int64_t rows, const uint8_t* panels, int64_t cols,
                                 const float* bias, float* c, int64_t ldc) {
  for (int64_t col = 0; col < cols; col += kPanel, panels += a.blocks * Block::kBytes) {
    const float* shift = bias ? bias + col : nullptr;
    int64_t row = 0;
    for (; row + kInt8Rows <= rows; row += kInt8Rows)
      block_tile<Block, kInt8Rows, 2>(a, row, panels, shift, c + col, ldc, cols - col);
    block_rest<Block, kInt8Rows - 1>(a, row, rows, panels, shift, c + col, ldc, cols - col);
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

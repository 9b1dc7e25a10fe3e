// SPDX-License-Identifier: Apache-2.0
// The register tile of products of blocks of 32 (contract 7c.2, 7c.3): a block's integer sums and scales are
// the business of `Block`; here its results become chains over 256-blocks, the tree of contract 2, the bias.
// Lanes run over outputs; a 32-bit word of a lane holds four neighbouring k.
#pragma once

#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

// ROWS rows of one group with VECS vectors of 16 outputs of one panel, from output 16 vec on.
template <class Block, int ROWS, int VECS>
static inline void block_tile(const Int8Rows& a, int64_t row, const uint8_t* panel, int vec,
                              const float* bias, float* c, int64_t ldc, int64_t cols) {
  const Int8Group* groups = a.groups + row / kInt8Group * a.blocks;
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
      Block::template add<ROWS, VECS>(groups[b], ROWS == kInt8Group ? 0 : row % kInt8Group,
                                      panel + b * Block::kBytes, vec, acc);
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
  for (int v = 0; v < VECS && 16 * (vec + v) < cols; ++v) {
    const int64_t col = 16 * (vec + v);
    const int n = cols - col < 16 ? static_cast<int>(cols - col) : 16;
    const f32x16 shift = bias ? load_lanes(bias + col, n) : zero();
    for (int r = 0; r < ROWS; ++r) {
      const f32x16 y = acc[r][v] + zero();
      store_lanes(c + (row + r) * ldc + col, bias ? y + shift : y, n);
    }
  }
}

// Exactly `rows` rows, at most ROWS, by one panel. Many rows leave registers for one vector of outputs.
template <class Block, int ROWS>
static inline void block_rows(const Int8Rows& a, int64_t row, int64_t rows, const uint8_t* panel,
                              const float* bias, float* c, int64_t ldc, int64_t cols) {
  if constexpr (ROWS > 1)
    if (rows < ROWS) return block_rows<Block, ROWS - 1>(a, row, rows, panel, bias, c, ldc, cols);
  constexpr int kVecs = ROWS > 4 ? 1 : 2;
  for (int vec = 0; vec < 2 && 16 * vec < cols; vec += kVecs)
    block_tile<Block, ROWS, kVecs>(a, row, panel, vec, bias, c, ldc, cols);
}

template <class Block>
static inline void block_product(const Int8Rows& a, int64_t rows, const uint8_t* panels, int64_t cols,
                                 const float* bias, float* c, int64_t ldc) {
  for (int64_t col = 0; col < cols; col += kPanel, panels += a.blocks * Block::kBytes)
    for (int64_t row = 0; row < rows; row += kInt8Rows)
      block_rows<Block, kInt8Rows>(a, row, rows - row, panels, bias ? bias + col : nullptr, c + col, ldc,
                                   cols - col);
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

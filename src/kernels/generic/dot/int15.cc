// SPDX-License-Identifier: Apache-2.0
// Products of 15-bit codes (contract 7c.1): exact sums, one rounding, the row exponents, the bias.
#include "kernels/generic/dot/int15_sums.h"
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

constexpr int64_t kPairStep = 2 * kPanel;  // int16 of one pair of k in a panel

// ROWS rows with VECS vectors of 16 outputs of one panel.
template <int ROWS, int VECS>
static inline void int15_tile(const Int15Rows& a, int64_t row, const int16_t* panel, int64_t pairs,
                              const int32_t* exponents, const float* bias, float* c, int64_t ldc,
                              int64_t cols) {
  const int16_t* w[VECS];
  for (int v = 0; v < VECS; ++v) w[v] = panel + 32 * v;
  f32x16 sums[ROWS][VECS];
  int15_sums<ROWS, VECS>(a.codes + row * a.ld, a.ld, w, kPairStep, pairs, sums);
  for (int v = 0; v < VECS && 16 * v < cols; ++v) {
    const int n = cols - 16 * v < 16 ? static_cast<int>(cols - 16 * v) : 16;
    const i32x16 e = load_i(exponents + 16 * v);
    const f32x16 shift = bias ? load_lanes(bias + 16 * v, n) : zero();
    for (int r = 0; r < ROWS; ++r) {
      const f32x16 y = times_power_of_two(sums[r][v], e + broadcast_i(a.exponents[row + r]));
      store_lanes(c + (row + r) * ldc + 16 * v, bias ? y + shift : y, n);
    }
  }
}

// Rows from `row` that do not fill a tile: the tile of exactly that many rows.
template <int ROWS, int VECS>
static inline void int15_rest(const Int15Rows& a, int64_t row, int64_t rows, const int16_t* panel,
                              int64_t pairs, const int32_t* exponents, const float* bias, float* c,
                              int64_t ldc, int64_t cols) {
  if constexpr (ROWS > 0) {
    if (rows - row == ROWS)
      int15_tile<ROWS, VECS>(a, row, panel, pairs, exponents, bias, c, ldc, cols);
    else
      int15_rest<ROWS - 1, VECS>(a, row, rows, panel, pairs, exponents, bias, c, ldc, cols);
  }
}

void matmul_int15(const Int15Rows& a, int64_t rows, const int16_t* panels, const int32_t* exponents,
                  int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc) {
  const int64_t pairs = (k + 1) / 2;
  const auto panel = [&](int64_t col) { return panels + col * 2 * pairs; };
  if (rows == 1) {
    for (int64_t col = 0; col < cols; col += kPanel)
      int15_tile<1, 2>(a, 0, panel(col), pairs, exponents + col, bias ? bias + col : nullptr, c + col, ldc,
                       cols - col);
    return;
  }
  for (int64_t col = 0; col < cols; col += 16 * kTileVecs) {
    const int16_t* w = panel(col / kPanel * kPanel) + col % kPanel * 2;
    const float* shift = bias ? bias + col : nullptr;
    int64_t row = 0;
    for (; row + kInt15Rows <= rows; row += kInt15Rows)
      int15_tile<kInt15Rows, kTileVecs>(a, row, w, pairs, exponents + col, shift, c + col, ldc, cols - col);
    int15_rest<kInt15Rows - 1, kTileVecs>(a, row, rows, w, pairs, exponents + col, shift, c + col, ldc,
                                          cols - col);
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit blocks of 32 (contract 7c.2): an exact integer sum for each block, then one fma with the
// product of the two scales.
#include "kernels/generic/dot/block_tile.h"
#include "kernels/generic/kernels.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

// Weights are stored as code + 128; where the instruction takes them so, 128 times the sum of the row's codes
// is taken off at the start.
struct EightBits {
  static constexpr int64_t kBytes = kInt8BlockBytes;

  template <int ROWS, int VECS>
  ISOBIT_INLINE static void add(const Int8Group& a, int64_t row, const uint8_t* block, int vec,
                                f32x16 (&acc)[ROWS][VECS]) {
    block += 64 * vec;
    i32x16 d[ROWS][VECS];
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECS; ++v) d[r][v] = broadcast_i(kQuadOffset == 0 ? 0 : a.offsets[row + r]);
    for (int q = 0; q < 8; ++q) {
      QuadWeights w[VECS];
      for (int v = 0; v < VECS; ++v) {
        w[v] = quad_weights_offset(load_words(block + q * 128 + v * 64));
        prefetch_l2(block + q * 128 + v * 64 + 1024);
      }
      for (int r = 0; r < ROWS; ++r) {
        const QuadRow x = quad_row(a.codes[row + r] + 4 * q);
        for (int v = 0; v < VECS; ++v) d[r][v] = dot_quads(d[r][v], w[v], x);
      }
    }
    const float* scales = reinterpret_cast<const float*>(block + kInt8Block * kPanel);
    for (int v = 0; v < VECS; ++v) {
      const f32x16 s = load(scales + 16 * v);
      for (int r = 0; r < ROWS; ++r)
        acc[r][v] = fma(to_f32(d[r][v]), s * broadcast(a.scales[row + r]), acc[r][v]);
    }
  }
};

void matmul_int8x32(const Int8Rows& a, int64_t rows, const uint8_t* panels, int64_t cols, const float* bias,
                    float* c, int64_t ldc) {
  block_product<EightBits>(a, rows, panels, cols, bias, c, ldc);
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

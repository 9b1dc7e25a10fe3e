// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit rows with 4-bit blocks of 32 (contract 7c.3): exact integer sums of codes, one fma with
// the product of the scales and, where blocks have a minimum, one with the minimum and the sum of the row's
// codes.
#include "kernels/generic/dot/block_tile.h"
#include "kernels/generic/kernels.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

// 16 finite binary16 numbers, exactly: the fields shifted to those of binary32, the bias by a product.
ISOBIT_INLINE f32x16 load_f16(const uint8_t* p) {
  uint16_t halves[16];
  __builtin_memcpy(halves, p, sizeof halves);
  const i32x16 upper = bitcast_i(load_bf16(halves));
  const f32x16 size = bitcast_f(shr<3>(upper & broadcast_i(0x7fffffff))) * broadcast(0x1p112f);
  return bitcast_f(bitcast_i(size) | (upper & broadcast_i(INT32_MIN)));
}

template <bool HAS_MIN>
struct FourBits {
  static constexpr int64_t kBytes = HAS_MIN ? kInt4MinBlockBytes : kInt4BlockBytes;

  template <int ROWS, int VECS>
  ISOBIT_INLINE static void add(const Int8Group& a, int64_t row, const uint8_t* block, int vec,
                                f32x16 (&acc)[ROWS][VECS]) {
    i32x16 d[ROWS][VECS], offset[ROWS];
    for (int r = 0; r < ROWS; ++r) {
      offset[r] = broadcast_i(a.offsets[row + r]);
      // Without a minimum a code is its nibble less 8; the offset is -128 times the sum of the row's codes.
      for (int v = 0; v < VECS; ++v) d[r][v] = HAS_MIN ? broadcast_i(0) : sar<4>(offset[r]);
    }
    for (int q = 0; q < 4; ++q) {
      QuadWeights low[VECS], high[VECS];
      for (int v = 0; v < VECS; ++v) {
        const i32x16 bytes = load_words(block + q * 128 + (vec + v) * 64);
        low[v] = quad_weights(bytes & broadcast_i(0x0f0f0f0f));
        high[v] = quad_weights(shr<4>(bytes) & broadcast_i(0x0f0f0f0f));
        prefetch_l2(block + q * 128 + (vec + v) * 64 + 1024);
      }
      for (int r = 0; r < ROWS; ++r) {
        const int8_t* codes = a.codes[row + r] + 4 * q;
        const QuadRow first = quad_row(codes), second = quad_row(codes + 16);
        for (int v = 0; v < VECS; ++v)
          d[r][v] = dot_quads(dot_quads(d[r][v], low[v], first), high[v], second);
      }
    }
    const uint8_t* scales = block + kInt8Block * kPanel / 2 + 32 * vec;
    for (int v = 0; v < VECS; ++v) {
      const f32x16 s = load_f16(scales + 32 * v);
      for (int r = 0; r < ROWS; ++r) {
        const f32x16 row_scale = broadcast(a.scales[row + r]);
        acc[r][v] = fma(to_f32(d[r][v]), s * row_scale, acc[r][v]);
        if constexpr (HAS_MIN) {
          const f32x16 sum = to_f32(offset[r]) * broadcast(-0x1p-7f);  // exact
          acc[r][v] = fma(sum, load_f16(scales + 2 * kPanel + 32 * v) * row_scale, acc[r][v]);
        }
      }
    }
  }
};

void matmul_int4x32(const Int8Rows& a, int64_t rows, const uint8_t* panels, bool has_min, int64_t cols,
                    const float* bias, float* c, int64_t ldc) {
  if (has_min)
    block_product<FourBits<true>>(a, rows, panels, cols, bias, c, ldc);
  else
    block_product<FourBits<false>>(a, rows, panels, cols, bias, c, ldc);
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

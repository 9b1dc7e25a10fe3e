// SPDX-License-Identifier: Apache-2.0
// Rows of float32 as 15-bit codes with one exponent, or as 8-bit codes with a scale for each 32 (contract
// 7c).
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

// Of |x| > 0.
static inline int32_t floor_log2(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x) & 0x7fffffff;
  if (bits >= 0x00800000) return static_cast<int32_t>(bits >> 23) - 127;
  return 31 - __builtin_clz(bits) - 149;
}

// 2^n, -126 <= n <= 127.
static inline float power_of_two(int32_t n) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(n + 127) << 23);
}

static inline int lanes_left(int64_t n) { return n >= 16 ? 16 : n > 0 ? static_cast<int>(n) : 0; }

static inline i32x16 limited(i32x16 code, int32_t most) {
  const i32x16 above = select(code > broadcast_i(most), broadcast_i(most), code);
  return select(broadcast_i(-most) > above, broadcast_i(-most), above);
}

void quantize_int15(const float* x, int64_t ldx, int64_t rows, int64_t k, int16_t* codes, int64_t ld,
                    int32_t* exponents) {
  for (int64_t row = 0; row < rows; ++row, x += ldx, codes += ld) {
    f32x16 tops = zero();
    for (int64_t i = 0; i < k; i += 16) tops = max(tops, abs(load_lanes(x + i, lanes_left(k - i))));
    const float top = reduce_max(tops);
    const int32_t e = top == 0.0f ? 0 : floor_log2(top) - 13;
    exponents[row] = e;
    // 2^-e in two factors; what the first makes subnormal is far below a half.
    const int32_t up = -e > 127 ? 127 : -e;
    const f32x16 first = broadcast(power_of_two(up)), second = broadcast(power_of_two(-e - up));
    for (int64_t i = 0; i < ld; i += 16) {
      const int n = lanes_left(k - i);
      const f32x16 v = n > 0 ? load_lanes(x + i, n) : zero();
      store_i16(codes + i, limited(to_i32(v * first * second), 16383));
    }
  }
}

void quantize_int8x32(const float* x, int64_t ldx, int64_t rows, int64_t k, Int8Group* groups) {
  const int64_t blocks = (k + 31) / 32;
  for (int64_t row = 0; row < rows; ++row, x += ldx)
    for (int64_t b = 0; b < blocks; ++b) {
      const float* from = x + 32 * b;
      const int n0 = lanes_left(k - 32 * b), n1 = lanes_left(k - 32 * b - 16);
      const f32x16 v0 = load_lanes(from, n0), v1 = n1 > 0 ? load_lanes(from + 16, n1) : zero();
      const float s = reduce_max(max(abs(v0), abs(v1))) / 127.0f;
      i32x16 c0 = broadcast_i(0), c1 = c0;
      if (s != 0.0f) {
        c0 = to_i32(v0 / broadcast(s));
        c1 = to_i32(v1 / broadcast(s));
      }
      if (s < 0x1p-126f) {  // only of a subnormal is the largest quotient more than 127 and a little
        c0 = limited(c0, 127);
        c1 = limited(c1, 127);
      }
      Int8Group& group = groups[row / kInt8Group * blocks + b];
      int8_t* to = group.codes[row % kInt8Group];
      store_i8(to, c0);
      store_i8(to + 16, c1);
      const auto sum = static_cast<int32_t>(sum_halving(to_f32(c0 + c1)));  // exact
      group.scales[row % kInt8Group] = s;
      group.offsets[row % kInt8Group] = -128 * sum;
    }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

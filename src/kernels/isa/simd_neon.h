// SPDX-License-Identifier: Apache-2.0
// The 16-lane type on AArch64 NEON: four 128-bit registers a value; masks are vectors of 0 and -1. See
// README.md.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "kernels/isa/simd_inline.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

#ifdef __ARM_FEATURE_DOTPROD
constexpr const char* kIsaName = "neondot";
#else
constexpr const char* kIsaName = "neon";
#endif
constexpr int kTileRows = 6;
constexpr int kTileVecs = 1;
constexpr int kInt15Rows = 2;
constexpr int kInt8Rows = 2;

struct f32x16 {
  float32x4_t v[4];
};
struct i32x16 {
  int32x4_t v[4];
};
struct mask16 {
  uint32x4_t v[4];
};

/// Register i of the result is f(i).
template <class Vector, class F>
ISOBIT_INLINE Vector quarters(F f) {
  return {f(0), f(1), f(2), f(3)};
}

// Making, loading, storing.
ISOBIT_INLINE f32x16 broadcast(float a) {
  return quarters<f32x16>([&](int) { return vdupq_n_f32(a); });
}
ISOBIT_INLINE f32x16 zero() { return broadcast(0.0f); }
ISOBIT_INLINE i32x16 broadcast_i(int32_t a) {
  return quarters<i32x16>([&](int) { return vdupq_n_s32(a); });
}
ISOBIT_INLINE i32x16 load_i(const int32_t* p) {
  return quarters<i32x16>([&](int i) { return vld1q_s32(p + 4 * i); });
}
ISOBIT_INLINE void store_i(int32_t* p, i32x16 a) {
  for (int i = 0; i < 4; ++i) vst1q_s32(p + 4 * i, a.v[i]);
}
ISOBIT_INLINE f32x16 load(const float* p) {
  return quarters<f32x16>([&](int i) { return vld1q_f32(p + 4 * i); });
}
ISOBIT_INLINE void store(float* p, f32x16 a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
ISOBIT_INLINE f32x16 load_bf16(const uint16_t* p) {
  return quarters<f32x16>([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)); });
}
ISOBIT_INLINE i32x16 load_i8(const int8_t* p) {
  const int8x16_t codes = vld1q_s8(p);
  const int16x8_t low = vmovl_s8(vget_low_s8(codes)), high = vmovl_s8(vget_high_s8(codes));
  return {vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)), vmovl_s16(vget_low_s16(high)),
          vmovl_s16(vget_high_s16(high))};
}
ISOBIT_INLINE f32x16 load_n(const float* p, int n) {
  float lanes[16] = {};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return load(lanes);
}
ISOBIT_INLINE void store_n(float* p, f32x16 a, int n) {
  float lanes[16];
  store(lanes, a);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}
ISOBIT_INLINE i32x16 lane_ids() {
  constexpr int32_t kIds[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load_i(kIds);
}
ISOBIT_INLINE mask16 first_n(int n) {
  const i32x16 ids = lane_ids();
  return quarters<mask16>([&](int i) { return vcltq_s32(ids.v[i], vdupq_n_s32(n)); });
}
ISOBIT_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
ISOBIT_INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

// Arithmetic, one rounding each.
ISOBIT_INLINE f32x16 operator+(f32x16 a, f32x16 b) {
  return quarters<f32x16>([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE f32x16 operator-(f32x16 a, f32x16 b) {
  return quarters<f32x16>([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE f32x16 operator*(f32x16 a, f32x16 b) {
  return quarters<f32x16>([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE f32x16 operator/(f32x16 a, f32x16 b) {
  return quarters<f32x16>([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE f32x16 operator-(f32x16 a) {
  return quarters<f32x16>([&](int i) { return vnegq_f32(a.v[i]); });
}
ISOBIT_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return quarters<f32x16>([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
ISOBIT_INLINE f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) {
  return quarters<f32x16>([&](int i) { return vfmsq_f32(c.v[i], a.v[i], b.v[i]); });
}
ISOBIT_INLINE f32x16 sqrt(f32x16 a) {
  return quarters<f32x16>([&](int i) { return vsqrtq_f32(a.v[i]); });
}
ISOBIT_INLINE f32x16 abs(f32x16 a) {
  return quarters<f32x16>([&](int i) { return vabsq_f32(a.v[i]); });
}

// Comparisons and masks.
ISOBIT_INLINE mask16 operator<(f32x16 a, f32x16 b) {
  return quarters<mask16>([&](int i) { return vcltq_f32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE mask16 operator<=(f32x16 a, f32x16 b) {
  return quarters<mask16>([&](int i) { return vcleq_f32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE mask16 operator>(f32x16 a, f32x16 b) {
  return quarters<mask16>([&](int i) { return vcgtq_f32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE mask16 operator>=(f32x16 a, f32x16 b) {
  return quarters<mask16>([&](int i) { return vcgeq_f32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE mask16 operator==(f32x16 a, f32x16 b) {
  return quarters<mask16>([&](int i) { return vceqq_f32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE mask16 operator==(i32x16 a, i32x16 b) {
  return quarters<mask16>([&](int i) { return vceqq_s32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE mask16 operator>(i32x16 a, i32x16 b) {
  return quarters<mask16>([&](int i) { return vcgtq_s32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE mask16 operator&(mask16 a, mask16 b) {
  return quarters<mask16>([&](int i) { return vandq_u32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE mask16 operator|(mask16 a, mask16 b) {
  return quarters<mask16>([&](int i) { return vorrq_u32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE mask16 operator~(mask16 a) {
  return quarters<mask16>([&](int i) { return vmvnq_u32(a.v[i]); });
}
ISOBIT_INLINE uint32_t bits(mask16 a) {
  constexpr uint32_t kBits[4] = {1, 2, 4, 8};
  const uint32x4_t weights = vld1q_u32(kBits);
  uint32_t r = 0;
  for (int i = 0; i < 4; ++i) r |= vaddvq_u32(vandq_u32(a.v[i], weights)) << 4 * i;
  return r;
}
ISOBIT_INLINE bool any(mask16 a) {
  return vmaxvq_u32(vorrq_u32(vorrq_u32(a.v[0], a.v[1]), vorrq_u32(a.v[2], a.v[3]))) != 0;
}
ISOBIT_INLINE bool all(mask16 a) {
  return vminvq_u32(vandq_u32(vandq_u32(a.v[0], a.v[1]), vandq_u32(a.v[2], a.v[3]))) != 0;
}
ISOBIT_INLINE f32x16 select(mask16 m, f32x16 yes, f32x16 no) {
  return quarters<f32x16>([&](int i) { return vbslq_f32(m.v[i], yes.v[i], no.v[i]); });
}
ISOBIT_INLINE i32x16 select(mask16 m, i32x16 yes, i32x16 no) {
  return quarters<i32x16>([&](int i) { return vbslq_s32(m.v[i], yes.v[i], no.v[i]); });
}
// Not vmaxq and vminq: they order zeros by sign and return the NaN.
ISOBIT_INLINE f32x16 max(f32x16 a, f32x16 b) { return select(a > b, a, b); }
ISOBIT_INLINE f32x16 min(f32x16 a, f32x16 b) { return select(a < b, a, b); }

// Integers, wrapping.
ISOBIT_INLINE i32x16 operator+(i32x16 a, i32x16 b) {
  return quarters<i32x16>([&](int i) { return vaddq_s32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE i32x16 operator-(i32x16 a, i32x16 b) {
  return quarters<i32x16>([&](int i) { return vsubq_s32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE i32x16 operator*(i32x16 a, i32x16 b) {
  return quarters<i32x16>([&](int i) { return vmulq_s32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE i32x16 operator&(i32x16 a, i32x16 b) {
  return quarters<i32x16>([&](int i) { return vandq_s32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE i32x16 operator|(i32x16 a, i32x16 b) {
  return quarters<i32x16>([&](int i) { return vorrq_s32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE i32x16 operator^(i32x16 a, i32x16 b) {
  return quarters<i32x16>([&](int i) { return veorq_s32(a.v[i], b.v[i]); });
}
ISOBIT_INLINE i32x16 mulhi_u(i32x16 a, i32x16 b) {
  return quarters<i32x16>([&](int i) {
    const uint32x4_t x = vreinterpretq_u32_s32(a.v[i]), y = vreinterpretq_u32_s32(b.v[i]);
    const uint64x2_t low = vmull_u32(vget_low_u32(x), vget_low_u32(y));
    const uint64x2_t high = vmull_high_u32(x, y);
    return vuzp2q_s32(vreinterpretq_s32_u64(low), vreinterpretq_s32_u64(high));
  });
}
template <int N>
ISOBIT_INLINE i32x16 shl(i32x16 a) {
  return quarters<i32x16>([&](int i) { return vshlq_n_s32(a.v[i], N); });
}
template <int N>
ISOBIT_INLINE i32x16 shr(i32x16 a) {
  return quarters<i32x16>(
      [&](int i) { return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a.v[i]), N)); });
}
template <int N>
ISOBIT_INLINE i32x16 sar(i32x16 a) {
  return quarters<i32x16>([&](int i) { return vshrq_n_s32(a.v[i], N); });
}

// Conversions.
ISOBIT_INLINE i32x16 bitcast_i(f32x16 a) {
  return quarters<i32x16>([&](int i) { return vreinterpretq_s32_f32(a.v[i]); });
}
ISOBIT_INLINE f32x16 bitcast_f(i32x16 a) {
  return quarters<f32x16>([&](int i) { return vreinterpretq_f32_s32(a.v[i]); });
}
ISOBIT_INLINE f32x16 to_f32(i32x16 a) {
  return quarters<f32x16>([&](int i) { return vcvtq_f32_s32(a.v[i]); });
}
ISOBIT_INLINE i32x16 to_i32(f32x16 a) {
  return quarters<i32x16>([&](int i) { return vcvtnq_s32_f32(a.v[i]); });
}
ISOBIT_INLINE f32x16 ldexp(f32x16 a, f32x16 n) {
  // The exponent field takes n; where that overflows, a * inf is inf, or NaN for NaN.
  const i32x16 sum = bitcast_i(a) + shl<23>(to_i32(n));
  return select(sum > broadcast_i(0x7f7fffff), a * broadcast(__builtin_inff()), bitcast_f(sum));
}

// Integer dot products. A word is two int16 or four bytes of neighbouring k.
ISOBIT_INLINE i32x16 load_words(const void* p) {
  const uint8_t* bytes = static_cast<const uint8_t*>(p);
  return quarters<i32x16>([&](int i) { return vreinterpretq_s32_u8(vld1q_u8(bytes + 16 * i)); });
}
ISOBIT_INLINE i32x16 shuffle_bytes(i32x16 words, i32x16 pattern) {
  return quarters<i32x16>([&](int i) {
    return vreinterpretq_s32_u8(
        vqtbl1q_u8(vreinterpretq_u8_s32(words.v[i]), vreinterpretq_u8_s32(pattern.v[i])));
  });
}
ISOBIT_INLINE void store_i16(int16_t* p, i32x16 a) {
  for (int i = 0; i < 4; ++i) vst1_s16(p + 4 * i, vmovn_s32(a.v[i]));
}
ISOBIT_INLINE void store_i8(int8_t* p, i32x16 a) {
  for (int i = 0; i < 4; i += 2)
    vst1_s8(p + 4 * i, vmovn_s16(vcombine_s16(vmovn_s32(a.v[i]), vmovn_s32(a.v[i + 1]))));
}
ISOBIT_INLINE f32x16 to_f32_wide(i32x16 high, i32x16 low) {
  const auto sum = [](int32x2_t h, int32x2_t l) {
    const float64x2_t scale = vdupq_n_f64(0x1p16);
    return vcvt_f32_f64(vfmaq_f64(vcvtq_f64_s64(vmovl_s32(l)), vcvtq_f64_s64(vmovl_s32(h)), scale));
  };
  return quarters<f32x16>([&](int i) {
    return vcombine_f32(sum(vget_low_s32(high.v[i]), vget_low_s32(low.v[i])),
                        sum(vget_high_s32(high.v[i]), vget_high_s32(low.v[i])));
  });
}
ISOBIT_INLINE i32x16 dot_pairs(i32x16 acc, i32x16 a, i32x16 b) {
  return quarters<i32x16>([&](int i) {
    const int16x8_t x = vreinterpretq_s16_s32(a.v[i]), y = vreinterpretq_s16_s32(b.v[i]);
    const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
    return vaddq_s32(acc.v[i], vpaddq_s32(low, vmull_high_s16(x, y)));
  });
}
#ifdef __ARM_FEATURE_DOTPROD
constexpr int32_t kQuadOffset = 0;
using QuadWeights = i32x16;
using QuadRow = int8x16_t;
ISOBIT_INLINE QuadWeights quad_weights(i32x16 bytes) { return bytes; }
ISOBIT_INLINE QuadWeights quad_weights_offset(i32x16 bytes) {
  return quarters<i32x16>([&](int i) { return veorq_s32(bytes.v[i], vdupq_n_s32(INT32_C(-0x7f7f7f80))); });
}
ISOBIT_INLINE QuadRow quad_row(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return vreinterpretq_s8_s32(vdupq_n_s32(word));
}
ISOBIT_INLINE i32x16 dot_quads(i32x16 acc, QuadWeights w, QuadRow a) {
  return quarters<i32x16>([&](int i) { return vdotq_s32(acc.v[i], vreinterpretq_s8_s32(w.v[i]), a); });
}
#else
constexpr int32_t kQuadOffset = 128;
struct QuadWeights {
  i32x16 even, odd;
};
struct QuadRow {
  int16x8_t even, odd;
};
ISOBIT_INLINE QuadWeights quad_weights(i32x16 bytes) {
  const auto even = [&](int i) { return vandq_s32(bytes.v[i], vdupq_n_s32(0x00ff00ff)); };
  const auto odd = [&](int i) {
    return vreinterpretq_s32_u16(vshrq_n_u16(vreinterpretq_u16_s32(bytes.v[i]), 8));
  };
  return {quarters<i32x16>(even), quarters<i32x16>(odd)};
}
ISOBIT_INLINE QuadWeights quad_weights_offset(i32x16 bytes) { return quad_weights(bytes); }
ISOBIT_INLINE QuadRow quad_row(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  const int16x8_t bytes = vreinterpretq_s16_s32(vdupq_n_s32(word));
  return {vshrq_n_s16(vshlq_n_s16(bytes, 8), 8), vshrq_n_s16(bytes, 8)};
}
ISOBIT_INLINE i32x16 dot_quads(i32x16 acc, QuadWeights w, QuadRow a) {
  // Each product is at most 255 * 127 in magnitude and each pair of them fits as well.
  return quarters<i32x16>([&](int i) {
    const int16x8_t even = vreinterpretq_s16_s32(w.even.v[i]), odd = vreinterpretq_s16_s32(w.odd.v[i]);
    const int32x4_t low = vmlal_s16(vmull_s16(vget_low_s16(even), vget_low_s16(a.even)), vget_low_s16(odd),
                                    vget_low_s16(a.odd));
    const int32x4_t high = vmlal_high_s16(vmull_high_s16(even, a.even), odd, a.odd);
    return vaddq_s32(acc.v[i], vpaddq_s32(low, high));
  });
}
#endif

// Reductions: lane i with lane i+8, then +4, +2, +1.
ISOBIT_INLINE float sum_halving(f32x16 a) {
  const float32x4_t h4 = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float32x2_t h2 = vadd_f32(vget_low_f32(h4), vget_high_f32(h4));
  return vget_lane_f32(h2, 0) + vget_lane_f32(h2, 1);
}
ISOBIT_INLINE float reduce_max(f32x16 a) {
  float lanes[16];
  store(lanes, a);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
  }
  return lanes[0];
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// The 16-lane type in portable C++: arrays of 16 numbers and loops over them, which compilers vectorise with
// what the target always has. fma is the hardware's where the target has it, else exactly emulated
// (scalar_fma.h). See README.md.
#pragma once

#include <cstdint>

#include "kernels/isa/simd_inline.h"
#include "kernels/scalar_fma.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

constexpr const char* kIsaName = "scalar";
constexpr int kTileRows = 4;
constexpr int kTileVecs = 1;
constexpr int kInt15Rows = 2;
constexpr int kInt8Rows = 2;

struct f32x16 {
  float v[16];
};
struct i32x16 {
  int32_t v[16];
};
struct mask16 {
  int32_t m[16];  // 0 or -1
};

// Lane i of the result is f(i).
template <class F>
ISOBIT_INLINE f32x16 floats(F f) {
  f32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}
template <class F>
ISOBIT_INLINE i32x16 ints(F f) {
  i32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<int32_t>(f(i));
  return r;
}
template <class F>
ISOBIT_INLINE mask16 masks(F f) {
  mask16 r;
  for (int i = 0; i < 16; ++i) r.m[i] = -static_cast<int32_t>(f(i));
  return r;
}
// Unsigned arithmetic wraps, signed overflow would be undefined.
ISOBIT_INLINE uint32_t wrapping(int32_t a) { return static_cast<uint32_t>(a); }

// Making, loading, storing.
ISOBIT_INLINE f32x16 broadcast(float a) {
  return floats([&](int) { return a; });
}
ISOBIT_INLINE f32x16 zero() { return broadcast(0.0f); }
ISOBIT_INLINE i32x16 broadcast_i(int32_t a) {
  return ints([&](int) { return a; });
}
ISOBIT_INLINE i32x16 lane_ids() {
  return ints([&](int i) { return i; });
}
ISOBIT_INLINE mask16 first_n(int n) {
  return masks([&](int i) { return i < n; });
}
ISOBIT_INLINE f32x16 load(const float* p) {
  return floats([&](int i) { return p[i]; });
}
ISOBIT_INLINE void store(float* p, f32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
ISOBIT_INLINE i32x16 load_i(const int32_t* p) {
  return ints([&](int i) { return p[i]; });
}
ISOBIT_INLINE void store_i(int32_t* p, i32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
ISOBIT_INLINE f32x16 load_bf16(const uint16_t* p) {
  return floats([&](int i) { return __builtin_bit_cast(float, static_cast<uint32_t>(p[i]) << 16); });
}
ISOBIT_INLINE i32x16 load_i8(const int8_t* p) {
  return ints([&](int i) { return p[i]; });
}
ISOBIT_INLINE f32x16 load_n(const float* p, int n) {
  f32x16 r = zero();
  for (int i = 0; i < n; ++i) r.v[i] = p[i];
  return r;
}
ISOBIT_INLINE void store_n(float* p, f32x16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
ISOBIT_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
ISOBIT_INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

// Arithmetic, one rounding each.
ISOBIT_INLINE f32x16 operator+(f32x16 a, f32x16 b) {
  return floats([&](int i) { return a.v[i] + b.v[i]; });
}
ISOBIT_INLINE f32x16 operator-(f32x16 a, f32x16 b) {
  return floats([&](int i) { return a.v[i] - b.v[i]; });
}
ISOBIT_INLINE f32x16 operator*(f32x16 a, f32x16 b) {
  return floats([&](int i) { return a.v[i] * b.v[i]; });
}
ISOBIT_INLINE f32x16 operator/(f32x16 a, f32x16 b) {
  return floats([&](int i) { return a.v[i] / b.v[i]; });
}
ISOBIT_INLINE f32x16 operator-(f32x16 a) {
  return floats([&](int i) { return -a.v[i]; });
}
// Not inlined: sixteen emulations are some hundred instructions, and kernels hold dozens of them.
[[gnu::noinline]] inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return floats([&](int i) { return scalar_fma(a.v[i], b.v[i], c.v[i]); });
}
ISOBIT_INLINE f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) { return fma(-a, b, c); }
ISOBIT_INLINE f32x16 sqrt(f32x16 a) {
  return floats([&](int i) { return __builtin_sqrtf(a.v[i]); });
}
ISOBIT_INLINE f32x16 abs(f32x16 a) {
  return floats([&](int i) { return __builtin_fabsf(a.v[i]); });
}
ISOBIT_INLINE f32x16 max(f32x16 a, f32x16 b) {
  return floats([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
ISOBIT_INLINE f32x16 min(f32x16 a, f32x16 b) {
  return floats([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}

// Comparisons and masks.
ISOBIT_INLINE mask16 operator<(f32x16 a, f32x16 b) {
  return masks([&](int i) { return a.v[i] < b.v[i]; });
}
ISOBIT_INLINE mask16 operator<=(f32x16 a, f32x16 b) {
  return masks([&](int i) { return a.v[i] <= b.v[i]; });
}
ISOBIT_INLINE mask16 operator>(f32x16 a, f32x16 b) {
  return masks([&](int i) { return a.v[i] > b.v[i]; });
}
ISOBIT_INLINE mask16 operator>=(f32x16 a, f32x16 b) {
  return masks([&](int i) { return a.v[i] >= b.v[i]; });
}
ISOBIT_INLINE mask16 operator==(f32x16 a, f32x16 b) {
  return masks([&](int i) { return a.v[i] == b.v[i]; });
}
ISOBIT_INLINE mask16 operator==(i32x16 a, i32x16 b) {
  return masks([&](int i) { return a.v[i] == b.v[i]; });
}
ISOBIT_INLINE mask16 operator>(i32x16 a, i32x16 b) {
  return masks([&](int i) { return a.v[i] > b.v[i]; });
}
ISOBIT_INLINE mask16 operator&(mask16 a, mask16 b) {
  return masks([&](int i) { return (a.m[i] & b.m[i]) != 0; });
}
ISOBIT_INLINE mask16 operator|(mask16 a, mask16 b) {
  return masks([&](int i) { return (a.m[i] | b.m[i]) != 0; });
}
ISOBIT_INLINE mask16 operator~(mask16 a) {
  return masks([&](int i) { return a.m[i] == 0; });
}
ISOBIT_INLINE uint32_t bits(mask16 a) {
  uint32_t r = 0;
  for (int i = 0; i < 16; ++i) r |= (wrapping(a.m[i]) & 1u) << i;
  return r;
}
ISOBIT_INLINE bool any(mask16 a) { return bits(a) != 0; }
ISOBIT_INLINE bool all(mask16 a) { return bits(a) == 0xffff; }
ISOBIT_INLINE f32x16 select(mask16 m, f32x16 yes, f32x16 no) {
  return floats([&](int i) { return m.m[i] ? yes.v[i] : no.v[i]; });
}
ISOBIT_INLINE i32x16 select(mask16 m, i32x16 yes, i32x16 no) {
  return ints([&](int i) { return m.m[i] ? yes.v[i] : no.v[i]; });
}

// Integers, wrapping.
ISOBIT_INLINE i32x16 operator+(i32x16 a, i32x16 b) {
  return ints([&](int i) { return wrapping(a.v[i]) + wrapping(b.v[i]); });
}
ISOBIT_INLINE i32x16 operator-(i32x16 a, i32x16 b) {
  return ints([&](int i) { return wrapping(a.v[i]) - wrapping(b.v[i]); });
}
ISOBIT_INLINE i32x16 operator*(i32x16 a, i32x16 b) {
  return ints([&](int i) { return wrapping(a.v[i]) * wrapping(b.v[i]); });
}
ISOBIT_INLINE i32x16 operator&(i32x16 a, i32x16 b) {
  return ints([&](int i) { return a.v[i] & b.v[i]; });
}
ISOBIT_INLINE i32x16 operator|(i32x16 a, i32x16 b) {
  return ints([&](int i) { return a.v[i] | b.v[i]; });
}
ISOBIT_INLINE i32x16 operator^(i32x16 a, i32x16 b) {
  return ints([&](int i) { return a.v[i] ^ b.v[i]; });
}
ISOBIT_INLINE i32x16 mulhi_u(i32x16 a, i32x16 b) {
  return ints([&](int i) { return (static_cast<uint64_t>(wrapping(a.v[i])) * wrapping(b.v[i])) >> 32; });
}
template <int N>
ISOBIT_INLINE i32x16 shl(i32x16 a) {
  return ints([&](int i) { return wrapping(a.v[i]) << N; });
}
template <int N>
ISOBIT_INLINE i32x16 shr(i32x16 a) {
  return ints([&](int i) { return wrapping(a.v[i]) >> N; });
}
template <int N>
ISOBIT_INLINE i32x16 sar(i32x16 a) {
  return ints([&](int i) { return a.v[i] >> N; });
}

// Conversions.
// Lane by lane: g++ 12 for AArch64 at -O3 reads a structure that was cast whole before it is written.
ISOBIT_INLINE i32x16 bitcast_i(f32x16 a) {
  return ints([&](int i) { return __builtin_bit_cast(int32_t, a.v[i]); });
}
ISOBIT_INLINE f32x16 bitcast_f(i32x16 a) {
  return floats([&](int i) { return __builtin_bit_cast(float, a.v[i]); });
}
ISOBIT_INLINE f32x16 to_f32(i32x16 a) {
  return floats([&](int i) { return static_cast<float>(a.v[i]); });
}
ISOBIT_INLINE i32x16 to_i32(f32x16 a) {
  return ints([&](int i) {
    constexpr double kMagic = 0x1.8p52;  // the sum has no bits below 1: rounded to nearest even
    const double rounded = (static_cast<double>(a.v[i]) + kMagic) - kMagic;
    return rounded >= -0x1p31 && rounded < 0x1p31 ? static_cast<int32_t>(rounded) : 0;
  });
}
ISOBIT_INLINE f32x16 ldexp(f32x16 a, f32x16 n) {
  // The exponent field takes n; where that overflows, a * inf is inf, or NaN for NaN.
  const i32x16 sum = bitcast_i(a) + shl<23>(to_i32(n));
  return select(sum > broadcast_i(0x7f7fffff), a * broadcast(__builtin_inff()), bitcast_f(sum));
}

// Integer dot products. A word is two int16 or four bytes of neighbouring k, the first in the low bits.
ISOBIT_INLINE i32x16 load_words(const void* p) {
  i32x16 r;
  __builtin_memcpy(r.v, p, sizeof r.v);
  return r;
}
ISOBIT_INLINE i32x16 shuffle_bytes(i32x16 words, i32x16 pattern) {
  uint8_t from[64], at[64], to[64];
  __builtin_memcpy(from, words.v, sizeof from);
  __builtin_memcpy(at, pattern.v, sizeof at);
  for (int i = 0; i < 64; ++i) to[i] = at[i] & 128 ? 0 : from[i / 16 * 16 + at[i] % 16];
  return load_words(to);
}
ISOBIT_INLINE void store_i16(int16_t* p, i32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int16_t>(a.v[i]);
}
ISOBIT_INLINE void store_i8(int8_t* p, i32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}
ISOBIT_INLINE f32x16 to_f32_wide(i32x16 high, i32x16 low) {
  return floats([&](int i) { return static_cast<float>(int64_t{high.v[i]} * 65536 + low.v[i]); });
}
ISOBIT_INLINE i32x16 dot_pairs(i32x16 acc, i32x16 a, i32x16 b) {
  return ints([&](int i) {
    const int32_t low = static_cast<int16_t>(a.v[i]) * static_cast<int16_t>(b.v[i]);
    const int32_t high = (a.v[i] >> 16) * (b.v[i] >> 16);
    return wrapping(acc.v[i]) + wrapping(low) + wrapping(high);
  });
}
constexpr int32_t kQuadOffset = 128;
struct QuadWeights {
  i32x16 even, odd;
};
using QuadRow = QuadWeights;
ISOBIT_INLINE QuadWeights quad_weights(i32x16 bytes) {
  return {bytes & broadcast_i(0x00ff00ff),
          ints([&](int i) { return wrapping(bytes.v[i]) >> 8 & 0x00ff00ff; })};
}
ISOBIT_INLINE QuadWeights quad_weights_offset(i32x16 bytes) { return quad_weights(bytes); }
ISOBIT_INLINE QuadRow quad_row(const int8_t* p) {
  const auto pair = [p](int i) { return (wrapping(p[i]) & 0xffff) | wrapping(p[i + 2]) << 16; };
  return {broadcast_i(static_cast<int32_t>(pair(0))), broadcast_i(static_cast<int32_t>(pair(1)))};
}
ISOBIT_INLINE i32x16 dot_quads(i32x16 acc, QuadWeights w, QuadRow a) {
  return dot_pairs(dot_pairs(acc, w.even, a.even), w.odd, a.odd);
}

// Reductions: lane i with lane i+8, then +4, +2, +1.
ISOBIT_INLINE float sum_halving(f32x16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
  }
  return a.v[0];
}
ISOBIT_INLINE float reduce_max(f32x16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  }
  return a.v[0];
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// The 16-lane type on AVX2 with FMA: two 256-bit registers a value; masks are vectors of 0 and -1. See
// README.md.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/isa/simd_inline.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

constexpr const char* kIsaName = "avx2";
constexpr int kTileRows = 6;
constexpr int kTileVecs = 1;
constexpr int kInt15Rows = 2;
constexpr int kInt8Rows = 2;

/// Copied half by half: GCC copies a plain struct of two vectors through memory, and a tile of them would
/// live there.
struct f32x16 {
  __m256 lo, hi;
  f32x16() = default;
  ISOBIT_INLINE f32x16(__m256 l, __m256 h) : lo(l), hi(h) {}
  ISOBIT_INLINE f32x16(const f32x16& a) : lo(a.lo), hi(a.hi) {}
  ISOBIT_INLINE f32x16& operator=(const f32x16& a) {
    lo = a.lo;
    hi = a.hi;
    return *this;
  }
};
struct i32x16 {
  __m256i lo, hi;
};
struct mask16 {
  __m256 lo, hi;
};

// Making, loading, storing.
ISOBIT_INLINE f32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
ISOBIT_INLINE f32x16 broadcast(float a) { return {_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
ISOBIT_INLINE i32x16 broadcast_i(int32_t a) { return {_mm256_set1_epi32(a), _mm256_set1_epi32(a)}; }
ISOBIT_INLINE i32x16 lane_ids() {
  return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
ISOBIT_INLINE mask16 first_n(int n) {
  const __m256i count = _mm256_set1_epi32(n);
  const i32x16 ids = lane_ids();
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(count, ids.lo)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, ids.hi))};
}

ISOBIT_INLINE f32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
ISOBIT_INLINE void store(float* p, f32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
ISOBIT_INLINE i32x16 load_i(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
ISOBIT_INLINE void store_i(int32_t* p, i32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.hi);
}
ISOBIT_INLINE f32x16 load_bf16(const uint16_t* p) {
  const __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i hi = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}
ISOBIT_INLINE i32x16 load_i8(const int8_t* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
ISOBIT_INLINE f32x16 load_n(const float* p, int n) {
  const mask16 m = first_n(n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.lo)),
          _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.hi))};
}
ISOBIT_INLINE void store_n(float* p, f32x16 a, int n) {
  const mask16 m = first_n(n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.lo), a.lo);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.hi), a.hi);
}
ISOBIT_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
ISOBIT_INLINE void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

// Arithmetic, one rounding each.
ISOBIT_INLINE f32x16 operator+(f32x16 a, f32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
ISOBIT_INLINE f32x16 operator-(f32x16 a, f32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
ISOBIT_INLINE f32x16 operator*(f32x16 a, f32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
ISOBIT_INLINE f32x16 operator/(f32x16 a, f32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
ISOBIT_INLINE f32x16 operator-(f32x16 a) {
  return {_mm256_xor_ps(a.lo, _mm256_set1_ps(-0.0f)), _mm256_xor_ps(a.hi, _mm256_set1_ps(-0.0f))};
}
ISOBIT_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
ISOBIT_INLINE f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
ISOBIT_INLINE f32x16 sqrt(f32x16 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
ISOBIT_INLINE f32x16 abs(f32x16 a) {
  return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.lo), _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.hi)};
}
ISOBIT_INLINE f32x16 max(f32x16 a, f32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
ISOBIT_INLINE f32x16 min(f32x16 a, f32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}

// Comparisons and masks.
ISOBIT_INLINE mask16 operator<(f32x16 a, f32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
ISOBIT_INLINE mask16 operator<=(f32x16 a, f32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LE_OQ)};
}
ISOBIT_INLINE mask16 operator>(f32x16 a, f32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ)};
}
ISOBIT_INLINE mask16 operator>=(f32x16 a, f32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ)};
}
ISOBIT_INLINE mask16 operator==(f32x16 a, f32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
}
ISOBIT_INLINE mask16 operator==(i32x16 a, i32x16 b) {
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.lo, b.lo)),
          _mm256_castsi256_ps(_mm256_cmpeq_epi32(a.hi, b.hi))};
}
ISOBIT_INLINE mask16 operator>(i32x16 a, i32x16 b) {
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(a.lo, b.lo)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(a.hi, b.hi))};
}
ISOBIT_INLINE mask16 operator&(mask16 a, mask16 b) {
  return {_mm256_and_ps(a.lo, b.lo), _mm256_and_ps(a.hi, b.hi)};
}
ISOBIT_INLINE mask16 operator|(mask16 a, mask16 b) {
  return {_mm256_or_ps(a.lo, b.lo), _mm256_or_ps(a.hi, b.hi)};
}
ISOBIT_INLINE mask16 operator~(mask16 a) {
  return {_mm256_xor_ps(a.lo, _mm256_castsi256_ps(_mm256_set1_epi32(-1))),
          _mm256_xor_ps(a.hi, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))};
}
ISOBIT_INLINE uint32_t bits(mask16 a) {
  return static_cast<uint32_t>(_mm256_movemask_ps(a.lo)) | static_cast<uint32_t>(_mm256_movemask_ps(a.hi))
                                                               << 8;
}
ISOBIT_INLINE bool any(mask16 a) { return bits(a) != 0; }
ISOBIT_INLINE bool all(mask16 a) { return bits(a) == 0xffff; }
ISOBIT_INLINE f32x16 select(mask16 m, f32x16 yes, f32x16 no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}
ISOBIT_INLINE i32x16 select(mask16 m, i32x16 yes, i32x16 no) {
  return {_mm256_blendv_epi8(no.lo, yes.lo, _mm256_castps_si256(m.lo)),
          _mm256_blendv_epi8(no.hi, yes.hi, _mm256_castps_si256(m.hi))};
}

// Integers, wrapping.
ISOBIT_INLINE i32x16 operator+(i32x16 a, i32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
ISOBIT_INLINE i32x16 operator-(i32x16 a, i32x16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
ISOBIT_INLINE i32x16 operator*(i32x16 a, i32x16 b) {
  return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
ISOBIT_INLINE i32x16 operator&(i32x16 a, i32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
ISOBIT_INLINE i32x16 operator|(i32x16 a, i32x16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
ISOBIT_INLINE i32x16 operator^(i32x16 a, i32x16 b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
ISOBIT_INLINE __m256i mulhi_u(__m256i a, __m256i b) {
  const __m256i even = _mm256_mul_epu32(a, b);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
  return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}
ISOBIT_INLINE i32x16 mulhi_u(i32x16 a, i32x16 b) { return {mulhi_u(a.lo, b.lo), mulhi_u(a.hi, b.hi)}; }
template <int N>
ISOBIT_INLINE i32x16 shl(i32x16 a) {
  return {_mm256_slli_epi32(a.lo, N), _mm256_slli_epi32(a.hi, N)};
}
template <int N>
ISOBIT_INLINE i32x16 shr(i32x16 a) {
  return {_mm256_srli_epi32(a.lo, N), _mm256_srli_epi32(a.hi, N)};
}
template <int N>
ISOBIT_INLINE i32x16 sar(i32x16 a) {
  return {_mm256_srai_epi32(a.lo, N), _mm256_srai_epi32(a.hi, N)};
}

// Conversions.
ISOBIT_INLINE i32x16 bitcast_i(f32x16 a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
ISOBIT_INLINE f32x16 bitcast_f(i32x16 a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
ISOBIT_INLINE f32x16 to_f32(i32x16 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
ISOBIT_INLINE i32x16 to_i32(f32x16 a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
ISOBIT_INLINE f32x16 ldexp(f32x16 a, f32x16 n) {
  // The exponent field takes n; where that overflows, a * inf is inf, or NaN for NaN.
  const i32x16 sum = bitcast_i(a) + shl<23>(to_i32(n));
  return select(sum > broadcast_i(0x7f7fffff), a * broadcast(__builtin_inff()), bitcast_f(sum));
}

// Integer dot products. A word is two int16 or four bytes of neighbouring k.
ISOBIT_INLINE i32x16 load_words(const void* p) {
  const __m256i* words = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(words), _mm256_loadu_si256(words + 1)};
}
ISOBIT_INLINE i32x16 shuffle_bytes(i32x16 words, i32x16 pattern) {
  return {_mm256_shuffle_epi8(words.lo, pattern.lo), _mm256_shuffle_epi8(words.hi, pattern.hi)};
}
ISOBIT_INLINE void store_i16(int16_t* p, i32x16 a) {
  const __m256i packed = _mm256_packs_epi32(a.lo, a.hi);  // 64-bit quarters: lo, hi, lo, hi
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
ISOBIT_INLINE void store_i8(int8_t* p, i32x16 a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.lo, a.hi), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
ISOBIT_INLINE __m256 to_f32_wide(__m256i high, __m256i low) {
  const auto half = [](__m128i h, __m128i l) {
    return _mm256_cvtpd_ps(
        _mm256_fmadd_pd(_mm256_cvtepi32_pd(h), _mm256_set1_pd(0x1p16), _mm256_cvtepi32_pd(l)));
  };
  const __m128 first = half(_mm256_castsi256_si128(high), _mm256_castsi256_si128(low));
  return _mm256_insertf128_ps(_mm256_castps128_ps256(first),
                              half(_mm256_extracti128_si256(high, 1), _mm256_extracti128_si256(low, 1)), 1);
}
ISOBIT_INLINE f32x16 to_f32_wide(i32x16 high, i32x16 low) {
  return {to_f32_wide(high.lo, low.lo), to_f32_wide(high.hi, low.hi)};
}
ISOBIT_INLINE i32x16 dot_pairs(i32x16 acc, i32x16 a, i32x16 b) {
  return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(a.lo, b.lo)),
          _mm256_add_epi32(acc.hi, _mm256_madd_epi16(a.hi, b.hi))};
}
constexpr int32_t kQuadOffset = 128;
struct QuadWeights {
  i32x16 even, odd;
};
using QuadRow = QuadWeights;
ISOBIT_INLINE QuadWeights quad_weights(i32x16 bytes) {
  const __m256i low = _mm256_set1_epi16(255);
  return {{_mm256_and_si256(bytes.lo, low), _mm256_and_si256(bytes.hi, low)},
          {_mm256_srli_epi16(bytes.lo, 8), _mm256_srli_epi16(bytes.hi, 8)}};
}
ISOBIT_INLINE QuadWeights quad_weights_offset(i32x16 bytes) { return quad_weights(bytes); }
ISOBIT_INLINE QuadRow quad_row(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  const __m256i bytes = _mm256_set1_epi32(word);
  const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), odd = _mm256_srai_epi16(bytes, 8);
  return {{even, even}, {odd, odd}};
}
ISOBIT_INLINE i32x16 dot_quads(i32x16 acc, QuadWeights w, QuadRow a) {
  return dot_pairs(dot_pairs(acc, w.even, a.even), w.odd, a.odd);
}

// Reductions: lane i with lane i+8, then +4, +2, +1.
ISOBIT_INLINE float sum_halving(f32x16 a) {
  const __m256 h8 = _mm256_add_ps(a.lo, a.hi);
  const __m128 h4 = _mm_add_ps(_mm256_castps256_ps128(h8), _mm256_extractf128_ps(h8, 1));
  const __m128 h2 = _mm_add_ps(h4, _mm_movehl_ps(h4, h4));
  return _mm_cvtss_f32(_mm_add_ss(h2, _mm_movehdup_ps(h2)));
}
ISOBIT_INLINE float reduce_max(f32x16 a) {
  const __m256 h8 = _mm256_max_ps(a.lo, a.hi);
  const __m128 h4 = _mm_max_ps(_mm256_castps256_ps128(h8), _mm256_extractf128_ps(h8, 1));
  const __m128 h2 = _mm_max_ps(h4, _mm_movehl_ps(h4, h4));
  return _mm_cvtss_f32(_mm_max_ss(h2, _mm_movehdup_ps(h2)));
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

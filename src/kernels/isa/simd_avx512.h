// SPDX-License-Identifier: Apache-2.0
// The 16-lane type on AVX-512 (F, BW, DQ, VL; VNNI where compiled for it): one 512-bit register a value, one
// mask register a mask. See README.md.
#pragma once

// g++ 12 warns about its own undefined-value intrinsics (GCC bug 105593).
#ifdef __clang__
#include <immintrin.h>
#else
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#include <cstdint>

#include "kernels/isa/simd_inline.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

#ifdef __AVX512VNNI__
constexpr const char* kIsaName = "avx512vnni";
constexpr int kInt8Rows = 8;
#else
constexpr const char* kIsaName = "avx512";
constexpr int kInt8Rows = 4;
#endif
constexpr int kTileRows = 10;
constexpr int kTileVecs = 2;
constexpr int kInt15Rows = 4;

struct f32x16 {
  __m512 v;
};
struct i32x16 {
  __m512i v;
};
struct mask16 {
  __mmask16 m;
};

// Making, loading, storing.
ISOBIT_INLINE f32x16 zero() { return {_mm512_setzero_ps()}; }
ISOBIT_INLINE f32x16 broadcast(float a) { return {_mm512_set1_ps(a)}; }
ISOBIT_INLINE i32x16 broadcast_i(int32_t a) { return {_mm512_set1_epi32(a)}; }
ISOBIT_INLINE i32x16 lane_ids() {
  return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
}
ISOBIT_INLINE mask16 first_n(int n) { return {static_cast<__mmask16>((1u << n) - 1u)}; }

ISOBIT_INLINE f32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
ISOBIT_INLINE void store(float* p, f32x16 a) { _mm512_storeu_ps(p, a.v); }
ISOBIT_INLINE i32x16 load_i(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
ISOBIT_INLINE void store_i(int32_t* p, i32x16 a) { _mm512_storeu_si512(p, a.v); }
ISOBIT_INLINE f32x16 load_bf16(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
ISOBIT_INLINE i32x16 load_i8(const int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
ISOBIT_INLINE f32x16 load_n(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_n(n).m, p)}; }
ISOBIT_INLINE void store_n(float* p, f32x16 a, int n) { _mm512_mask_storeu_ps(p, first_n(n).m, a.v); }
ISOBIT_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
ISOBIT_INLINE void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

// Arithmetic, one rounding each.
ISOBIT_INLINE f32x16 operator+(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
ISOBIT_INLINE f32x16 operator-(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
ISOBIT_INLINE f32x16 operator*(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
ISOBIT_INLINE f32x16 operator/(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
ISOBIT_INLINE f32x16 operator-(f32x16 a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))}; }
ISOBIT_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
ISOBIT_INLINE f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
ISOBIT_INLINE f32x16 ldexp(f32x16 a, f32x16 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
ISOBIT_INLINE f32x16 sqrt(f32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
ISOBIT_INLINE f32x16 abs(f32x16 a) { return {_mm512_abs_ps(a.v)}; }
ISOBIT_INLINE f32x16 max(f32x16 a, f32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
ISOBIT_INLINE f32x16 min(f32x16 a, f32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }

// Comparisons and masks.
ISOBIT_INLINE mask16 operator<(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
ISOBIT_INLINE mask16 operator<=(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
ISOBIT_INLINE mask16 operator>(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
ISOBIT_INLINE mask16 operator>=(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
ISOBIT_INLINE mask16 operator==(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
ISOBIT_INLINE mask16 operator==(i32x16 a, i32x16 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
ISOBIT_INLINE mask16 operator>(i32x16 a, i32x16 b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
ISOBIT_INLINE mask16 operator&(mask16 a, mask16 b) { return {_kand_mask16(a.m, b.m)}; }
ISOBIT_INLINE mask16 operator|(mask16 a, mask16 b) { return {_kor_mask16(a.m, b.m)}; }
ISOBIT_INLINE mask16 operator~(mask16 a) { return {_knot_mask16(a.m)}; }
ISOBIT_INLINE bool any(mask16 a) { return a.m != 0; }
ISOBIT_INLINE bool all(mask16 a) { return a.m == 0xffff; }
ISOBIT_INLINE uint32_t bits(mask16 a) { return a.m; }
ISOBIT_INLINE f32x16 select(mask16 m, f32x16 yes, f32x16 no) {
  return {_mm512_mask_blend_ps(m.m, no.v, yes.v)};
}
ISOBIT_INLINE i32x16 select(mask16 m, i32x16 yes, i32x16 no) {
  return {_mm512_mask_blend_epi32(m.m, no.v, yes.v)};
}

// Integers, wrapping.
ISOBIT_INLINE i32x16 operator+(i32x16 a, i32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
ISOBIT_INLINE i32x16 operator-(i32x16 a, i32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
ISOBIT_INLINE i32x16 operator*(i32x16 a, i32x16 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
ISOBIT_INLINE i32x16 operator&(i32x16 a, i32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
ISOBIT_INLINE i32x16 operator|(i32x16 a, i32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
ISOBIT_INLINE i32x16 operator^(i32x16 a, i32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
ISOBIT_INLINE i32x16 mulhi_u(i32x16 a, i32x16 b) {
  const __m512i even = _mm512_mul_epu32(a.v, b.v);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), _mm512_srli_epi64(b.v, 32));
  return {_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd)};
}
template <int N>
ISOBIT_INLINE i32x16 shl(i32x16 a) {
  return {_mm512_slli_epi32(a.v, N)};
}
template <int N>
ISOBIT_INLINE i32x16 shr(i32x16 a) {
  return {_mm512_srli_epi32(a.v, N)};
}
template <int N>
ISOBIT_INLINE i32x16 sar(i32x16 a) {
  return {_mm512_srai_epi32(a.v, N)};
}

// Conversions.
ISOBIT_INLINE i32x16 bitcast_i(f32x16 a) { return {_mm512_castps_si512(a.v)}; }
ISOBIT_INLINE f32x16 bitcast_f(i32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
ISOBIT_INLINE f32x16 to_f32(i32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
ISOBIT_INLINE i32x16 to_i32(f32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }

// Integer dot products. A word is two int16 or four bytes of neighbouring k.
ISOBIT_INLINE i32x16 load_words(const void* p) { return {_mm512_loadu_si512(p)}; }
ISOBIT_INLINE i32x16 shuffle_bytes(i32x16 words, i32x16 pattern) {
  return {_mm512_shuffle_epi8(words.v, pattern.v)};
}
ISOBIT_INLINE void store_i16(int16_t* p, i32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}
ISOBIT_INLINE void store_i8(int8_t* p, i32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
ISOBIT_INLINE f32x16 to_f32_wide(i32x16 high, i32x16 low) {
  const auto half = [](__m256i h, __m256i l) {
    return _mm512_cvtpd_ps(
        _mm512_fmadd_pd(_mm512_cvtepi32_pd(h), _mm512_set1_pd(0x1p16), _mm512_cvtepi32_pd(l)));
  };
  const __m256 first = half(_mm512_castsi512_si256(high.v), _mm512_castsi512_si256(low.v));
  const __m256 second = half(_mm512_extracti32x8_epi32(high.v, 1), _mm512_extracti32x8_epi32(low.v, 1));
  return {_mm512_insertf32x8(_mm512_castps256_ps512(first), second, 1)};
}
#ifdef __AVX512VNNI__
ISOBIT_INLINE i32x16 dot_pairs(i32x16 acc, i32x16 a, i32x16 b) {
  return {_mm512_dpwssd_epi32(acc.v, a.v, b.v)};
}
constexpr int32_t kQuadOffset = 128;
using QuadWeights = i32x16;
using QuadRow = i32x16;
ISOBIT_INLINE QuadWeights quad_weights(i32x16 bytes) { return bytes; }
ISOBIT_INLINE QuadWeights quad_weights_offset(i32x16 bytes) { return bytes; }
ISOBIT_INLINE QuadRow quad_row(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return broadcast_i(word);
}
ISOBIT_INLINE i32x16 dot_quads(i32x16 acc, QuadWeights w, QuadRow a) {
  return {_mm512_dpbusd_epi32(acc.v, w.v, a.v)};
}
#else
ISOBIT_INLINE i32x16 dot_pairs(i32x16 acc, i32x16 a, i32x16 b) {
  return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(a.v, b.v))};
}
constexpr int32_t kQuadOffset = 128;
struct QuadWeights {
  i32x16 even, odd;
};
using QuadRow = QuadWeights;
ISOBIT_INLINE QuadWeights quad_weights(i32x16 bytes) {
  return {{_mm512_and_si512(bytes.v, _mm512_set1_epi16(255))}, {_mm512_srli_epi16(bytes.v, 8)}};
}
ISOBIT_INLINE QuadWeights quad_weights_offset(i32x16 bytes) { return quad_weights(bytes); }
ISOBIT_INLINE QuadRow quad_row(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  const __m512i bytes = _mm512_set1_epi32(word);
  return {{_mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8)}, {_mm512_srai_epi16(bytes, 8)}};
}
ISOBIT_INLINE i32x16 dot_quads(i32x16 acc, QuadWeights w, QuadRow a) {
  return dot_pairs(dot_pairs(acc, w.even, a.even), w.odd, a.odd);
}
#endif

// Reductions: lane i with lane i+8, then +4, +2, +1.
ISOBIT_INLINE float sum_halving(f32x16 a) {
  const __m256 h8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 h4 = _mm_add_ps(_mm256_castps256_ps128(h8), _mm256_extractf128_ps(h8, 1));
  const __m128 h2 = _mm_add_ps(h4, _mm_movehl_ps(h4, h4));
  return _mm_cvtss_f32(_mm_add_ss(h2, _mm_movehdup_ps(h2)));
}
ISOBIT_INLINE float reduce_max(f32x16 a) {
  const __m256 h8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 h4 = _mm_max_ps(_mm256_castps256_ps128(h8), _mm256_extractf128_ps(h8, 1));
  const __m128 h2 = _mm_max_ps(h4, _mm_movehl_ps(h4, h4));
  return _mm_cvtss_f32(_mm_max_ss(h2, _mm_movehdup_ps(h2)));
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

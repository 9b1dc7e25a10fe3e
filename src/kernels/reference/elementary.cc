// SPDX-License-Identifier: Apache-2.0
// The functions of one number as fixed sequences of binary32 operations. `fma` is fused, everything else is
// not.
#include "kernels/reference/elementary.h"

#include "kernels/elementary_constants.h"
#include "kernels/scalar_fma.h"

namespace isobit::kernels::reference {
namespace {

float fma(float a, float b, float c) { return scalar_fma(a, b, c); }
float absolute(float x) { return __builtin_fabsf(x); }
int32_t bits_of(float x) { return __builtin_bit_cast(int32_t, x); }
float float_of(int32_t bits) { return __builtin_bit_cast(float, bits); }
/// f(x) of an odd f from y = f(|x|).
float with_sign_of(float x, float y) { return float_of(bits_of(y) ^ (bits_of(x) & INT32_MIN)); }

/// k[0] + k[1] x + ..., by fma from the highest coefficient.
template <int N>
float horner(const float (&k)[N], float x) {
  float q = k[N - 1];
  for (int i = N - 2; i >= 0; --i) q = fma(q, x, k[i]);
  return q;
}

/// 2^n, -126 <= n <= 127.
float power_of_two(int n) { return float_of((n + 127) * (1 << 23)); }

// exp(x) = 2^n exp(r), n the integer nearest x / ln 2 and |r| <= ln(2)/2.
float exp_n(float x) { return fma(x, kLog2E, kRoundMagic) - kRoundMagic; }
float exp_r(float x, float n) { return fma(-n, kLn2Lo, fma(-n, kLn2Hi, x)); }
/// (exp(r) - 1) / r.
float exp_slope(float r) { return fma(horner(kExp, r), r, 1.0f); }
/// a 2^n where no subnormal can come out. 2^128 is no binary32 number, so two factors.
float scale(float a, float n) {
  const int whole = static_cast<int>(n);
  const int half = whole / 2;
  return a * power_of_two(half) * power_of_two(whole - half);
}

// log(u) = e ln 2 + log(1 + f): u / 2^e = 1 + f lies in [3/4, 3/2).
int log_exponent(float u) { return (bits_of(u) - bits_of(0.75f)) >> 23; }
float log_sum(int e, float f) {
  const float log1p_f = fma(horner(kLog, f), f * f, f);
  return fma(static_cast<float>(e), kLn2, log1p_f);
}

/// exp(-(s + s_lo)) (kTail0 + t q(t)) numerator / (a + shift), t = t0 + t1 numerator / (a + shift); +0 for s
/// > kTailMax. What rounding takes away is kept in the variables _lo, so that three roundings matter in all.
float normal_tail(float a, float s, float s_lo, float numerator, const TailShape& shape) {
  if (s > kTailMax) return 0.0f;
  if (s != s) return s;
  const float d = a + shape.shift;
  const float d_lo = shape.shift - (d - a);
  const float quotient = numerator / d;
  const float t = fma(quotient, shape.t1, shape.t0);
  const float rest = fma(-quotient, d_lo, fma(-quotient, d, numerator));
  const float quotient_lo = rest * (1.0f - t) * fma(t, shape.rest1, shape.rest0);

  const float slope = horner(kTailSlope, t);
  const float p = fma(slope, t, kTail0);
  const float p_lo = fma(slope, t, kTail0 - p);

  const float n = exp_n(-s);
  const float r = fma(-n, kLn2Hi, -s) - fma(n, kLn2Lo, s_lo);
  const float change = fma(exp_slope(r) * r, p, p_lo);
  const float product = p + change;
  const float product_lo = change - (product - p);
  return scale(fma(product, quotient, fma(product, quotient_lo, product_lo * quotient)), n);
}
/// erfc(a) for a >= 0.7.
float erfc_positive(float a) {
  const float s = a * a;
  return normal_tail(a, s, fma(a, a, -s) - kSqrtHalfError, kSqrtHalf, kErfcTail);
}
/// erf(x) for |x| <= 1.
float erf_centre(float x) { return fma(horner(kErf, x * x), x, x); }

}  // namespace

float exp_ref(float x) {
  if (x < kExpMin) return 0.0f;
  if (x > kExpMax) return kInfinity;
  if (x != x) return x;
  const float n = exp_n(x);
  const float r = exp_r(x, n);
  return scale(fma(exp_slope(r), r, 1.0f), n);
}

float expm1_ref(float x) {
  if (absolute(x) < kTiny || x != x) return x;
  if (x > kExpMax) return kInfinity;
  const float bounded = x < -18.0f ? -18.0f : x;  // -1 already
  const float n = exp_n(bounded);
  const float r = exp_r(bounded, n);
  // (2^n (1 + p) - 1) / 2, so that 2^128 does not overflow before its time.
  const float half_power = power_of_two(static_cast<int>(n) - 1);
  const float half = fma(half_power, exp_slope(r) * r, half_power - 0.5f);
  return half + half;
}

float log_ref(float x) {
  if (x == 0.0f) return -kInfinity;
  if (x < 0.0f) return kNaN;
  if (!(x < kInfinity)) return x;
  const bool subnormal = x < 0x1p-126f;
  const float u = subnormal ? x * 0x1p23f : x;
  const int e = log_exponent(u);
  const float m = float_of(bits_of(u) - e * (1 << 23));
  return log_sum(subnormal ? e - 23 : e, m - 1.0f);
}

float log1p_ref(float x) {
  if (x == -1.0f) return -kInfinity;
  if (x < -1.0f) return kNaN;
  if (absolute(x) < kTiny || !(x < kInfinity)) return x;
  const int e = log_exponent(x + 1.0f);
  // f = (1 + x) / 2^e - 1, from x itself. 2^-e could be subnormal, 2^(2-e) is not.
  const float power = power_of_two(2 - e);
  const float f = fma(x * 0.25f, power, fma(power, 0.25f, -1.0f));
  return log_sum(e, f);
}

float softplus_ref(float x) { return (0.0f > x ? 0.0f : x) + log1p_ref(exp_ref(-absolute(x))); }

float sigmoid_ref(float x) { return 1.0f / (1.0f + exp_ref(-x)); }

float silu_ref(float x) { return x / (1.0f + exp_ref(-x)); }

float tanh_ref(float x) {
  const float a = absolute(x);
  if (a <= kTanhCut) {
    const float s = a * a;
    return with_sign_of(x, fma(horner(kTanh, s) * s, a, a));
  }
  if (x != x) return x;
  const float twice = kTanhMax < a + a ? kTanhMax : a + a;
  const float n = exp_n(twice);
  const float r = exp_r(twice, n);
  // 1 - 2 / (exp(2a) + 1), the denominator with one rounding.
  const float power = power_of_two(static_cast<int>(n));
  return with_sign_of(x, 1.0f - 2.0f / fma(exp_slope(r) * r, power, power + 1.0f));
}

float gelu_tanh_ref(float x) {
  if (x < kGeluTanhMin) return 0.0f;
  if (x != x) return x;
  const float c = kGeluTanhMax < x ? kGeluTanhMax : x;
  // w + w_lo = A + B c^2.
  const float s = c * c;
  const float s_lo = fma(c, c, -s);
  const float b = kGeluTanhBHi * s;
  const float w = b + kGeluTanhAHi;
  const float t = w - b;
  const float sum_lo = (b - (w - t)) + (kGeluTanhAHi - t);
  float w_lo = fma(kGeluTanhBHi, s, -b) + sum_lo;
  w_lo = w_lo + fma(s, kGeluTanhBLo, kGeluTanhALo);
  w_lo = fma(kGeluTanhBHi, s_lo, w_lo);
  // z + z_lo = c (w + w_lo); x / (1 + exp(z + z_lo)).
  const float z = c * w;
  const float z_lo = fma(c, w_lo, fma(c, w, -z));
  const float n = exp_n(z);
  const float r = fma(-n, kLn2Hi, z) + fma(-n, kLn2Lo, z_lo);
  return x / (1.0f + scale(fma(exp_slope(r), r, 1.0f), n));
}

float erf_ref(float x) {
  const float a = absolute(x);
  return with_sign_of(x, a <= 1.0f ? erf_centre(a) : 1.0f - erfc_positive(a));
}

float erfc_ref(float x) {
  const float a = absolute(x);
  if (a <= 0.7f) return 1.0f - erf_centre(x);
  return x < 0.0f ? 2.0f - erfc_positive(a) : erfc_positive(a);
}

float gelu_ref(float x) {
  const float a = absolute(x);
  if (a <= 1.0f) return x * fma(horner(kPhi, x * x), x, 0.5f);
  // max(0, x) - a Phi(-a), and Phi(-a) falls like exp(-a^2/2): the square is carried in two floats.
  const float h = 0.5f * a;
  const float s = h * a;
  return (0.0f > x ? 0.0f : x) - normal_tail(a, s, fma(h, a, -s), h, kGeluTail);
}

namespace {

struct TrigReduced {
  uint32_t quadrant;
  float r, r_lo;  // |x| = quadrant pi/2 + r + r_lo, modulo 2 pi
};
/// a <= 2^31 becomes an integer over a power of two, exactly, and is multiplied by 1/(2 pi) in 96 bits modulo
/// one turn.
TrigReduced trig_reduce(float a) {
  if (a <= kPiQuarter) return {0, a, 0.0f};
  int range = 0;
  while (!(a < kTrigRanges[range].limit)) ++range;
  const TrigRange& k = kTrigRanges[range];
  const uint64_t x = static_cast<uint64_t>(a * k.scale);
  const uint64_t product1 = x * static_cast<uint32_t>(k.word[1]);
  const uint64_t product2 = x * static_cast<uint32_t>(k.word[2]);
  const uint64_t product0 = x * static_cast<uint32_t>(k.word[0]) << 32;
  const uint64_t turn64 = product0 + product1 + (product2 >> 32);  // of one turn in 2^64 parts
  const uint32_t high = static_cast<uint32_t>(turn64 >> 32);
  const uint32_t low = static_cast<uint32_t>(turn64);
  const uint32_t quadrant = (high + (1u << 29)) >> 30;
  const int32_t turn = static_cast<int32_t>(high - (quadrant << 30));
  // turn + low 2^-32 in two floats, then times 2 pi 2^-32.
  const float turn_f = static_cast<float>(turn);
  const float turn_rest = static_cast<float>(turn - static_cast<int32_t>(turn_f));
  const float low_f = fma(static_cast<float>(static_cast<int32_t>(low >> 1)), 0x1p-31f, turn_rest);
  const float t = turn_f + low_f;
  const float t_lo = low_f - (t - turn_f);
  const float product = t * kTurnUnitHi;
  const float product_lo = fma(t, kTurnUnitLo, t_lo * kTurnUnitHi) + fma(t, kTurnUnitHi, -product);
  const float r = product + product_lo;
  return {quadrant, r, product_lo - (r - product)};
}
/// sin(quadrant pi/2 + r + r_lo).
float sin_reduced(uint32_t quadrant, float r, float r_lo) {
  const float s = r * r;
  float y;
  if (quadrant % 2 == 0) {
    y = r + fma(horner(kSin, s) * s, r, r_lo);
  } else {
    const float s_lo = fma(r + r, r_lo, fma(r, r, -s));
    y = 1.0f + fma(fma(horner(kCos, s), s, -0.5f), s, -0.5f * s_lo);
  }
  return quadrant % 4 < 2 ? y : -y;
}

}  // namespace

float sin_ref(float x) {
  const float a = absolute(x);
  if (!(a <= kTrigMax)) return kNaN;
  const TrigReduced t = trig_reduce(a);
  return with_sign_of(x, sin_reduced(t.quadrant, t.r, t.r_lo));
}

float cos_ref(float x) {
  const float a = absolute(x);
  if (!(a <= kTrigMax)) return kNaN;
  const TrigReduced t = trig_reduce(a);
  return sin_reduced(t.quadrant + 1, t.r, t.r_lo);
}

float relu_ref(float x) { return x > 0.0f ? x : 0.0f; }

float unary_ref(Unary kind, float x) {
  using Function = float (*)(float);
  constexpr Function kFunctions[] = {exp_ref,  log_ref,       log1p_ref,   expm1_ref,    tanh_ref,
                                     erf_ref,  erfc_ref,      sigmoid_ref, softplus_ref, silu_ref,
                                     gelu_ref, gelu_tanh_ref, sin_ref,     cos_ref,      relu_ref};
  static_assert(sizeof(kFunctions) / sizeof(kFunctions[0]) == static_cast<int>(Unary::kCount));
  return kFunctions[static_cast<int>(kind)](x);
}

}  // namespace isobit::kernels::reference

// SPDX-License-Identifier: Apache-2.0
// The functions of one number (contract 5, formulas in docs/functions.md) over 16 lanes, without branches.
// reference/elementary.cc gives the reasons; here are the same operations in the same order.
#pragma once

#include <cstddef>

#include "kernels/elementary_constants.h"
#include "kernels/isa/simd.h"
#include "kernels/table.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

ISOBIT_INLINE f32x16 fma(f32x16 a, f32x16 b, float c) { return fma(a, b, broadcast(c)); }
ISOBIT_INLINE f32x16 fma(f32x16 a, float b, float c) { return fma(a, broadcast(b), broadcast(c)); }
ISOBIT_INLINE f32x16 fma(f32x16 a, float b, f32x16 c) { return fma(a, broadcast(b), c); }
ISOBIT_INLINE f32x16 fnma(f32x16 a, float b, f32x16 c) { return fnma(a, broadcast(b), c); }

/// f(x) of an odd f from y = f(|x|).
ISOBIT_INLINE f32x16 with_sign_of(f32x16 x, f32x16 y) {
  return bitcast_f(bitcast_i(y) ^ (bitcast_i(x) & broadcast_i(INT32_MIN)));
}

/// k[0] + k[1] x + ... + k[N-1] x^(N-1), by fma from the highest.
template <int N>
ISOBIT_INLINE f32x16 horner(const float (&k)[N], f32x16 x) {
  f32x16 q = fma(x, k[N - 1], k[N - 2]);
  for (int i = N - 3; i >= 0; --i) q = fma(q, x, k[i]);
  return q;
}

// --- exponentials

/// The integer n nearest x / ln 2.
ISOBIT_INLINE f32x16 exp_n(f32x16 x) { return fma(x, kLog2E, kRoundMagic) - broadcast(kRoundMagic); }
/// x - n ln 2.
ISOBIT_INLINE f32x16 exp_r(f32x16 x, f32x16 n) { return fnma(n, kLn2Lo, fnma(n, kLn2Hi, x)); }
/// (exp(r) - 1) / r.
ISOBIT_INLINE f32x16 exp_slope(f32x16 r) { return fma(horner(kExp, r), r, 1.0f); }
/// 2^n, -126 <= n <= 127.
ISOBIT_INLINE f32x16 power_of_two(f32x16 n) { return bitcast_f(shl<23>(to_i32(n) + broadcast_i(127))); }

ISOBIT_INLINE f32x16 exp(f32x16 x) {
  const f32x16 bounded = min(broadcast(kExpMax), x);
  const f32x16 n = exp_n(bounded);
  const f32x16 r = exp_r(bounded, n);
  const f32x16 y = ldexp(fma(exp_slope(r), r, 1.0f), n);
  return select(x < broadcast(kExpMin), zero(), y);
}

ISOBIT_INLINE f32x16 expm1(f32x16 x) {
  const f32x16 bounded = max(broadcast(-18.0f), min(broadcast(kExpMax), x));
  const f32x16 n = exp_n(bounded);
  const f32x16 r = exp_r(bounded, n);
  const f32x16 p = exp_slope(r) * r;
  const f32x16 half_power = power_of_two(n - broadcast(1.0f));
  const f32x16 half = fma(half_power, p, half_power - broadcast(0.5f));
  return select(abs(x) < broadcast(kTiny), x, half + half);
}

// --- logarithms

/// e ln 2 + log(1 + f).
ISOBIT_INLINE f32x16 log_sum(f32x16 e, f32x16 f) {
  const f32x16 log1p_f = fma(horner(kLog, f), f * f, f);
  return fma(e, kLn2, log1p_f);
}
/// The power of two in u, as its exponent field: u / 2^e lies in [3/4, 3/2).
ISOBIT_INLINE i32x16 log_exponent(f32x16 u) {
  return (bitcast_i(u) - broadcast_i(0x3f400000)) & broadcast_i(-0x800000);
}

ISOBIT_INLINE f32x16 log(f32x16 x) {
  const mask16 subnormal = x < broadcast(0x1p-126f);
  const f32x16 u = select(subnormal, x * broadcast(0x1p23f), x);
  const i32x16 field = log_exponent(u);
  const f32x16 e = to_f32(sar<23>(field)) - select(subnormal, broadcast(23.0f), zero());
  const f32x16 y = log_sum(e, bitcast_f(bitcast_i(u) - field) - broadcast(1.0f));
  const f32x16 special = select(x == zero(), broadcast(-kInfinity), select(x < zero(), broadcast(kNaN), x));
  return select((x > zero()) & (x < broadcast(kInfinity)), y, special);
}

ISOBIT_INLINE f32x16 log1p(f32x16 x) {
  const f32x16 one = broadcast(1.0f);
  const i32x16 field = log_exponent(x + one);
  const f32x16 power = bitcast_f(broadcast_i(0x40800000) - field);  // 2^(2-e): 2^-e could be subnormal
  const f32x16 quarter = broadcast(0.25f);
  const f32x16 f = fma(x * quarter, power, fma(power, quarter, -one));  // (1 + x) / 2^e - 1
  const f32x16 y = log_sum(to_f32(sar<23>(field)), f);
  const f32x16 special = select(x == -one, broadcast(-kInfinity), select(x < -one, broadcast(kNaN), x));
  return select((x > -one) & (x < broadcast(kInfinity)) & (abs(x) >= broadcast(kTiny)), y, special);
}

ISOBIT_INLINE f32x16 softplus(f32x16 x) { return max(zero(), x) + log1p(exp(-abs(x))); }

// --- logistic functions

ISOBIT_INLINE f32x16 sigmoid(f32x16 x) { return broadcast(1.0f) / (broadcast(1.0f) + exp(-x)); }
ISOBIT_INLINE f32x16 silu(f32x16 x) { return x / (broadcast(1.0f) + exp(-x)); }
ISOBIT_INLINE f32x16 tanh(f32x16 x) {
  const f32x16 a = abs(x);
  const f32x16 s = a * a;
  const f32x16 centre = fma(horner(kTanh, s) * s, a, a);
  const f32x16 twice = min(broadcast(kTanhMax), a + a);
  const f32x16 n = exp_n(twice);
  const f32x16 r = exp_r(twice, n);
  const f32x16 power = power_of_two(n);
  const f32x16 one = broadcast(1.0f);
  const f32x16 outer = one - broadcast(2.0f) / fma(exp_slope(r) * r, power, power + one);
  return with_sign_of(x, select(a <= broadcast(kTanhCut), centre, outer));
}
ISOBIT_INLINE f32x16 gelu_tanh(f32x16 x) {
  const f32x16 c = max(broadcast(kGeluTanhMin), min(broadcast(kGeluTanhMax), x));
  const f32x16 a_hi = broadcast(kGeluTanhAHi), b_hi = broadcast(kGeluTanhBHi);
  // w + w_lo = A + B c^2, in two floats.
  const f32x16 s = c * c;
  const f32x16 s_lo = fma(c, c, -s);
  const f32x16 b = b_hi * s;
  const f32x16 w = b + a_hi;
  const f32x16 t = w - b;
  const f32x16 sum_lo = (b - (w - t)) + (a_hi - t);
  f32x16 w_lo = fma(b_hi, s, -b) + sum_lo;
  w_lo = w_lo + fma(s, kGeluTanhBLo, kGeluTanhALo);
  w_lo = fma(b_hi, s_lo, w_lo);
  // z + z_lo = c (w + w_lo), then exp.
  const f32x16 z = c * w;
  const f32x16 z_lo = fma(c, w_lo, fma(c, w, -z));
  const f32x16 n = exp_n(z);
  const f32x16 r = fnma(n, kLn2Hi, z) + fnma(n, kLn2Lo, z_lo);
  const f32x16 e = ldexp(fma(exp_slope(r), r, 1.0f), n);
  return select(x < broadcast(kGeluTanhMin), zero(), x / (broadcast(1.0f) + e));
}

// --- the normal distribution

/// exp(-(s + s_lo)) q(t) numerator / (a + shift), t = t0 + t1 numerator / (a + shift): see kTail. +0 beyond
/// kTailMax.
ISOBIT_INLINE f32x16 normal_tail(f32x16 a, f32x16 s, f32x16 s_lo, f32x16 numerator, const TailShape& shape) {
  const f32x16 shift = broadcast(shape.shift);
  const f32x16 d = a + shift;
  const f32x16 d_lo = shift - (d - a);
  const f32x16 quotient = numerator / d;
  const f32x16 t = fma(quotient, shape.t1, shape.t0);
  // What rounding took from d and the quotient comes back as quotient_lo, with its effect on t.
  const f32x16 rest = fnma(quotient, d_lo, fnma(quotient, d, numerator));
  const f32x16 quotient_lo = rest * (broadcast(1.0f) - t) * fma(t, shape.rest1, shape.rest0);
  const f32x16 slope = horner(kTailSlope, t);
  const f32x16 p = fma(slope, t, kTail0);
  const f32x16 p_lo = fma(slope, t, broadcast(kTail0) - p);
  const f32x16 n = exp_n(-s);
  const f32x16 r = fnma(n, kLn2Hi, -s) - fma(n, kLn2Lo, s_lo);
  const f32x16 change = fma(exp_slope(r) * r, p, p_lo);
  const f32x16 product = p + change;
  const f32x16 product_lo = change - (product - p);
  const f32x16 low = fma(product, quotient_lo, product_lo * quotient);
  return select(s > broadcast(kTailMax), zero(), ldexp(fma(product, quotient, low), n));
}

ISOBIT_INLINE f32x16 erfc_positive(f32x16 a) {
  const f32x16 s = a * a;
  const f32x16 s_lo = fma(a, a, -s) - broadcast(kSqrtHalfError);
  return normal_tail(a, s, s_lo, broadcast(kSqrtHalf), kErfcTail);
}
ISOBIT_INLINE f32x16 erf_centre(f32x16 x) { return fma(horner(kErf, x * x), x, x); }

ISOBIT_INLINE f32x16 erf(f32x16 x) {
  const f32x16 a = abs(x);
  const f32x16 outer = broadcast(1.0f) - erfc_positive(a);
  return with_sign_of(x, select(a <= broadcast(1.0f), erf_centre(a), outer));
}
ISOBIT_INLINE f32x16 erfc(f32x16 x) {
  const f32x16 a = abs(x);
  const f32x16 tail = erfc_positive(a);
  const f32x16 outer = select(x < zero(), broadcast(2.0f) - tail, tail);
  return select(a <= broadcast(0.7f), broadcast(1.0f) - erf_centre(x), outer);
}
ISOBIT_INLINE f32x16 gelu(f32x16 x) {
  const f32x16 centre = x * fma(horner(kPhi, x * x), x, 0.5f);
  const f32x16 a = abs(x);
  const f32x16 h = broadcast(0.5f) * a;
  const f32x16 s = h * a;
  const f32x16 tail = normal_tail(a, s, fma(h, a, -s), h, kGeluTail);
  return select(a <= broadcast(1.0f), centre, max(zero(), x) - tail);
}

// --- circular functions

struct TrigReduced {
  i32x16 quadrant;  // modulo 4
  f32x16 r, r_lo;   // |x| = quadrant pi/2 + r + r_lo
};
/// |x| < 2^31 as an integer times a power of two, times 1/(2 pi) in 96 bits, modulo one turn.
ISOBIT_INLINE TrigReduced trig_reduce(f32x16 a) {
  f32x16 scale = broadcast(kTrigRanges[3].scale);
  i32x16 word0 = broadcast_i(kTrigRanges[3].word[0]);
  i32x16 word1 = broadcast_i(kTrigRanges[3].word[1]);
  i32x16 word2 = broadcast_i(kTrigRanges[3].word[2]);
  for (int i = 2; i >= 0; --i) {
    const mask16 inside = a < broadcast(kTrigRanges[i].limit);
    scale = select(inside, broadcast(kTrigRanges[i].scale), scale);
    word0 = select(inside, broadcast_i(kTrigRanges[i].word[0]), word0);
    word1 = select(inside, broadcast_i(kTrigRanges[i].word[1]), word1);
    word2 = select(inside, broadcast_i(kTrigRanges[i].word[2]), word2);
  }
  // The negative is converted because 2^31 is no int32 and -2^31 is one.
  const i32x16 x = broadcast_i(0) - to_i32(-(a * scale));
  const i32x16 product1 = x * word1;
  const i32x16 low = product1 + mulhi_u(x, word2);
  const i32x16 sign_bit = broadcast_i(INT32_MIN);
  const i32x16 carry = select((product1 ^ sign_bit) > (low ^ sign_bit), broadcast_i(1), broadcast_i(0));
  const i32x16 high = x * word0 + mulhi_u(x, word1) + carry;
  const i32x16 quadrant = shr<30>(high + broadcast_i(1 << 29));
  const i32x16 turn = high - shl<30>(quadrant);
  // turn + low 2^-32 in two floats, then times 2 pi 2^-32.
  const f32x16 turn_f = to_f32(turn);
  const f32x16 low_f = fma(to_f32(shr<1>(low)), 0x1p-31f, to_f32(turn - to_i32(turn_f)));
  const f32x16 t = turn_f + low_f;
  const f32x16 t_lo = low_f - (t - turn_f);
  const f32x16 unit = broadcast(kTurnUnitHi);
  const f32x16 product = t * unit;
  const f32x16 product_lo = fma(t, kTurnUnitLo, t_lo * unit) + fma(t, unit, -product);
  const f32x16 r = product + product_lo;
  const f32x16 r_lo = product_lo - (r - product);
  const mask16 small = a <= broadcast(kPiQuarter);
  return {select(small, broadcast_i(0), quadrant), select(small, a, r), select(small, zero(), r_lo)};
}
/// sin(quadrant pi/2 + r + r_lo).
ISOBIT_INLINE f32x16 sin_reduced(i32x16 quadrant, f32x16 r, f32x16 r_lo) {
  const f32x16 s = r * r;
  const f32x16 s_lo = fma(r + r, r_lo, fma(r, r, -s));
  const f32x16 sine = r + fma(horner(kSin, s) * s, r, r_lo);
  const f32x16 slope = fma(horner(kCos, s), s, -0.5f);
  const f32x16 cosine = broadcast(1.0f) + fma(slope, s, broadcast(-0.5f) * s_lo);
  const mask16 odd = (quadrant & broadcast_i(1)) == broadcast_i(1);
  const i32x16 sign = shl<30>(quadrant & broadcast_i(2));
  return bitcast_f(bitcast_i(select(odd, cosine, sine)) ^ sign);
}
ISOBIT_INLINE f32x16 sin(f32x16 x) {
  const f32x16 a = abs(x);
  const TrigReduced t = trig_reduce(a);
  const f32x16 y = sin_reduced(t.quadrant, t.r, t.r_lo);
  return select(a <= broadcast(kTrigMax), with_sign_of(x, y), broadcast(kNaN));
}
ISOBIT_INLINE f32x16 cos(f32x16 x) {
  const f32x16 a = abs(x);
  const TrigReduced t = trig_reduce(a);
  const f32x16 y = sin_reduced(t.quadrant + broadcast_i(1), t.r, t.r_lo);
  return select(a <= broadcast(kTrigMax), y, broadcast(kNaN));
}

ISOBIT_INLINE f32x16 relu(f32x16 x) { return select(x > zero(), x, zero()); }

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

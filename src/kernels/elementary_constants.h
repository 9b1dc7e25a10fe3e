// SPDX-License-Identifier: Apache-2.0
// The constants of the functions of one number (docs/functions.md), shared by the reference and the fast
// kernels. Coefficients are minimax for the stated interval, each rounded to binary32 before the next was
// fitted; k[0] first.
#pragma once

#include <cstdint>

namespace isobit::kernels {

constexpr float kInfinity = __builtin_inff();
constexpr float kNaN = __builtin_nanf("");

// 1.5 * 2^23: adding it leaves a number of magnitude below 2^22 rounded to nearest even in the low bits.
constexpr float kRoundMagic = 0x1.8p23f;
// Below this magnitude log1p(x) and expm1(x) are x.
constexpr float kTiny = 0x1p-30f;

// exp(r) = 1 + r (1 + r q(r)), |r| <= ln(2)/2.
constexpr float kExpMin = -0x1.5d589ep+6f;  // below: exp is +0
constexpr float kExpMax = 89.0f;            // from here on: exp is inf
constexpr float kLog2E = 0x1.715476p+0f;
constexpr float kLn2Hi = 0x1.62e4p-1f;  // 15 bits: n * kLn2Hi is exact
constexpr float kLn2Lo = 0x1.7f7d1cp-20f;
constexpr float kExp[] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f, 0x1.1239d6p-7f, 0x1.6a2446p-10f};

// log(1 + f) = f + f^2 q(f), -1/4 <= f <= 1/2.
constexpr float kLn2 = 0x1.62e43p-1f;
constexpr float kLog[] = {-0x1p-1f,       0x1.5555a4p-2f,  -0x1.00004ap-2f, 0x1.99699ep-3f, -0x1.54ed96p-3f,
                          0x1.28807ap-3f, -0x1.0d98f2p-3f, 0x1.acf4bap-4f,  -0x1.71e354p-5f};

// tanh(x) = x + x s q(s), s = x^2, |x| <= kTanhCut.
constexpr float kTanhCut = 1.0f;
constexpr float kTanhMax = 20.0f;  // 2|x| from here on: 1
constexpr float kTanh[] = {-0x1.55553cp-2f, 0x1.110be4p-3f, -0x1.b9623ap-5f, 0x1.6009a6p-6f,
                           -0x1.045ff4p-7f, 0x1.2da01ep-9f, -0x1.77cd58p-12f};

// erf(x) = x + x q(s), s = x^2, |x| <= 1.
constexpr float kErf[] = {0x1.06eba8p-3f, -0x1.81273ep-2f,  0x1.ce2ce6p-4f, -0x1.b7f71ap-6f,
                          0x1.53f224p-8f, -0x1.a3515ep-11f, 0x1.4771fcp-14f};

// Phi(x) = 1/2 + x q(s), s = x^2, |x| <= 1: the normal distribution.
constexpr float kPhi[] = {0x1.988454p-2f,   -0x1.105862p-4f, 0x1.46d558p-7f,
                          -0x1.376eacp-10f, 0x1.e26c8ep-14f, -0x1.122036p-17f};

// Its tail: 2 Phi(-a) exp(a^2/2) (a + c) = kTail0 + t q(t), t = (a - c) / (a + c), c = 0x1.03p+1, 0.9 <= a
// <= 13.2. erfc uses it at a = sqrt(2) x. This c was chosen because q(0) and c / sqrt(2) lie next to binary32
// numbers.
constexpr float kTailMax = 83.0f;  // beyond, in the exponent: +0
constexpr float kTail0 = 0x1.5948e2p+0f;
constexpr float kTailSlope[] = {-0x1.58ff32p-1f, 0x1.12847ap-4f,  0x1.29f0bcp-4f, -0x1.8ed1b8p-9f,
                                -0x1.c2ddeep-7f, -0x1.af7a0ap-9f, 0x1.43c316p-9f, 0x1.beac7ep-11f};
constexpr float kSqrtHalf = 0x1.6a09e6p-1f;
constexpr float kSqrtHalfError = 0x1.26055cp-26f;  // sqrt(1/2) = kSqrtHalf (1 + kSqrtHalfError)
/// quotient = numerator / (a + shift); t = t0 + t1 quotient; (1 - t) (rest0 + rest1 t) is about what a change
/// of the numerator's last bits adds to quotient, together with what it does to q through t.
struct TailShape {
  float shift, t0, t1, rest0, rest1;
};
constexpr TailShape kGeluTail = {0x1.03p+1f, -1.0f, 4.0f, 0.131f, -0.116f};
constexpr TailShape kErfcTail = {0x1.6e4804p+0f, 1.0f, -0x1.03p+2f, 0.514f, -0.164f};

// gelu_tanh(x) = x / (1 + exp(x (A + B x^2))), A = -2 sqrt(2/pi), B = 0.044715 A.
constexpr float kGeluTanhAHi = -0x1.988454p+0f, kGeluTanhALo = 0x1.857936p-25f;
constexpr float kGeluTanhBHi = -0x1.2444f2p-4f, kGeluTanhBLo = -0x1.49b16ap-29f;
constexpr float kGeluTanhMin = -10.06f;  // below: +0
constexpr float kGeluTanhMax = 9.5f;     // above: x

// sin(r) = r + r^3 q(s), cos(r) = 1 - s/2 + s^2 q(s), s = r^2, |r| <= pi/4.
constexpr float kSin[] = {-0x1.555556p-3f, 0x1.111174p-7f, -0x1.a05956p-13f, 0x1.7c2da2p-19f};
constexpr float kCos[] = {0x1.55554ap-5f, -0x1.6c0c1ap-10f, 0x1.99e0ecp-16f};
constexpr float kPiQuarter = 0x1.921fb6p-1f;
constexpr float kTrigMax = 0x1p31f;
// 2 pi 2^-32: one unit of a turn cut into 2^32 parts.
constexpr float kTurnUnitHi = 0x1.921fb6p-30f, kTurnUnitLo = -0x1.777a5cp-55f;

/// |x| below `limit` becomes the integer |x| * scale < 2^31, and frac(1 / (2 pi scale)) is the fraction
/// word[0] word[1] word[2].
struct TrigRange {
  float limit;
  float scale;
  int32_t word[3];
};
constexpr TrigRange kTrigRanges[] = {
    {0x1p7f, 0x1p24f, {0x28, -0x419f246d, -0x6efab581}},
    {0x1p15f, 0x1p16f, {0x28be, 0x60db9391, 0x054a7f09}},
    {0x1p23f, 0x1p8f, {0x28be60, -0x246c6efb, 0x4a7f09d5}},
    {0x1p32f, 1.0f, {0x28be60db, -0x6c6efab6, 0x7f09d5f4}},
};

}  // namespace isobit::kernels

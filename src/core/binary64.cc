// SPDX-License-Identifier: Apache-2.0
// exp, log and pow through a double-double logarithm; sin and cos through an integer reduction by 2/pi.
// A double-double is an unevaluated sum hi + lo with |lo| <= ulp(hi)/2.
#include "core/binary64.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace isobit::binary64 {
namespace {

struct DoubleDouble {
  double hi;
  double lo;
};

// hi + lo == a + b exactly, for |a| >= |b| or a == 0.
DoubleDouble fast_two_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}

// hi + lo == a + b exactly.
DoubleDouble two_sum(double a, double b) {
  const double s = a + b;
  const double t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}

// hi + lo == a * b exactly (Dekker, Veltkamp splits), where nothing overflows or underflows.
DoubleDouble two_product(double a, double b) {
  constexpr double kSplit = 0x1p27 + 1.0;
  const double ca = kSplit * a;
  const double cb = kSplit * b;
  const double a1 = ca - (ca - a);
  const double b1 = cb - (cb - b);
  const double a2 = a - a1;
  const double b2 = b - b1;
  const double p = a * b;
  return {p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2};
}

DoubleDouble add(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble s = two_sum(a.hi, b.hi);
  return fast_two_sum(s.hi, s.lo + (a.lo + b.lo));
}

DoubleDouble multiply(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble p = two_product(a.hi, b.hi);
  return fast_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

DoubleDouble divide(double a, DoubleDouble b) {
  const double q = a / b.hi;
  const DoubleDouble p = two_product(q, b.hi);
  const double rest = ((a - p.hi) - p.lo) - q * b.lo;
  return fast_two_sum(q, rest / b.hi);
}

// c[0] + z*(c[1] + z*(c[2] + ...)), every operation rounded.
template <int N>
double horner(double z, const double (&c)[N]) {
  double sum = c[N - 1];
  for (int i = N - 2; i >= 0; i--) sum = c[i] + z * sum;
  return sum;
}

// 2^k for -1022 <= k <= 1023.
double power_of_two(int k) { return std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52); }

constexpr double kLn2Head = 0x1.62e42fefa2p-1;  // the first 40 bits of ln 2
constexpr DoubleDouble kLn2Tail = {0x1.9ef35793c7673p-41, 0x1.f97b57a079a19p-103};  // ln 2 - kLn2Head

// log x = k ln 2 + 2 atanh s, s = (m - 1)/(m + 1), x = 2^k m, m in [sqrt 1/2, sqrt 2). Relative error below
// 2^-66.
DoubleDouble log_double_double(double x) {
  constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;
  constexpr DoubleDouble kThird = {1.0 / 3, 0x1.5555555555555p-56};
  constexpr DoubleDouble kFifth = {1.0 / 5, -0x1.999999999999ap-57};
  constexpr DoubleDouble kSeventh = {1.0 / 7, 0x1.2492492492492p-57};
  constexpr double kTail[] = {1.0 / 9,  1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19,
                              1.0 / 21, 1.0 / 23, 1.0 / 25, 1.0 / 27, 1.0 / 29};
  int k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  k += static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m >= kSqrt2) {
    m *= 0.5;
    k += 1;
  }
  const DoubleDouble s = divide(m - 1.0, two_sum(m, 1.0));
  const DoubleDouble z = multiply(s, s);
  DoubleDouble sum = {z.hi * horner(z.hi, kTail), 0.0};
  sum = multiply(z, add(kSeventh, sum));
  sum = multiply(z, add(kFifth, sum));
  sum = multiply(z, add(kThird, sum));
  sum = multiply(s, add({1.0, 0.0}, sum));
  const DoubleDouble log_m = {2.0 * sum.hi, 2.0 * sum.lo};
  const DoubleDouble tail = {k * kLn2Tail.hi, k * kLn2Tail.lo};
  return add({k * kLn2Head, 0.0}, add(tail, log_m));
}

// e^(hi + lo), lo below an ulp of hi: 2^k (1 + r + r^2 (1/2! + r/3! + ...)).
double exp_double_double(double hi, double lo) {
  constexpr double kInvLn2 = 0x1.71547652b82fep+0;
  constexpr double kToInteger = 0x1.8p52;  // adding and subtracting it rounds to an integer, ties to even
  constexpr double kInverseFactorials[] = {
      1.0 / 2.0,         1.0 / 6.0,          1.0 / 24.0,         1.0 / 120.0,     1.0 / 720.0,
      1.0 / 5040.0,      1.0 / 40320.0,      1.0 / 362880.0,     1.0 / 3628800.0, 1.0 / 39916800.0,
      1.0 / 479001600.0, 1.0 / 6227020800.0, 1.0 / 87178291200.0};
  if (hi != hi) return hi;
  if (hi > 710.0) return std::numeric_limits<double>::infinity();
  if (hi < -746.0) return 0.0;
  const double k = (hi * kInvLn2 + kToInteger) - kToInteger;
  const double head = hi - k * kLn2Head;  // exact
  const double tail = k * kLn2Tail.hi;
  const DoubleDouble difference = two_sum(head, -tail);
  const DoubleDouble reduced = fast_two_sum(difference.hi, difference.lo + lo);
  const double r = reduced.hi;
  const double p = 1.0 + (r + ((r * r) * horner(r, kInverseFactorials) + (reduced.lo + reduced.lo * r)));
  const int n = static_cast<int>(k);
  const int half = n / 2;
  return (p * power_of_two(half)) * power_of_two(n - half);
}

// Bits of 2/pi, 63 zeros and the point first: bit i of the array (from the left) has the weight 2^(63 - i).
constexpr uint64_t kTwoOverPi[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
    0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
constexpr double kPiOver4 = 0x1.921fb54442d18p-1;
constexpr DoubleDouble kPiOver2 = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};

struct Reduced {
  DoubleDouble r;  // |r| <= pi/4
  int quadrant;    // x == quadrant * pi/2 + r, modulo 2 pi
};

// x > pi/4. x = m 2^e with an integer m < 2^53; of m (2^e 2/pi) the 192 bits of weight 2^1 .. 2^-190 are
// kept: two of the quadrant, 190 of the fraction, which for no binary64 x begins with more than 62 zeros (or
// ones).
Reduced reduce(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const int e = static_cast<int>(bits >> 52) - 1075;
  const uint64_t m = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  const int first = e + 62;  // its weight times 2^e is 2^1
  const uint64_t* word = kTwoOverPi + first / 64;
  const int shift = first % 64;
  uint64_t w[3];
  for (int i = 0; i < 3; i++)
    w[i] = shift == 0 ? word[i] : (word[i] << shift) | (word[i + 1] >> (64 - shift));

  using uint128 = unsigned __int128;
  const uint128 low = static_cast<uint128>(m) * w[2];
  const uint128 middle = static_cast<uint128>(m) * w[1] + static_cast<uint64_t>(low >> 64);
  uint64_t f2 = static_cast<uint64_t>(low);
  uint64_t f1 = static_cast<uint64_t>(middle);
  uint64_t f0 = m * w[0] + static_cast<uint64_t>(middle >> 64);

  int quadrant = static_cast<int>(f0 >> 62);
  f0 = (f0 << 2) | (f1 >> 62);
  f1 = (f1 << 2) | (f2 >> 62);
  f2 <<= 2;
  const bool negative = f0 >> 63;
  if (negative) {  // the fraction is at least 1/2: take it from the next quadrant
    quadrant = (quadrant + 1) & 3;
    f0 = ~f0;
    f1 = ~f1;
    f2 = ~f2;
  }
  const int zeros = std::countl_zero(f0);  // at least 1, at most 63
  f0 = (f0 << zeros) | (f1 >> (64 - zeros));
  f1 = (f1 << zeros) | (f2 >> (64 - zeros));
  const DoubleDouble f = {
      static_cast<double>(f0 >> 11) * power_of_two(-53 - zeros),
      static_cast<double>(((f0 & 0x7ff) << 42) | (f1 >> 22)) * power_of_two(-106 - zeros)};
  DoubleDouble r = multiply(f, kPiOver2);
  if (negative) r = {-r.hi, -r.lo};
  return {r, quadrant};
}

}  // namespace

double exp(double x) { return exp_double_double(x, 0.0); }

double log(double x) { return log_double_double(x).hi; }

double pow(double x, double y) {
  const DoubleDouble l = log_double_double(x);
  const double estimate = y * l.hi;
  if (estimate > 710.0) return std::numeric_limits<double>::infinity();
  if (estimate < -746.0) return 0.0;
  const DoubleDouble p = two_product(y, l.hi);
  return exp_double_double(p.hi, p.lo + y * l.lo);
}

SinCos sincos(double x) {
  // (sin r - r)/r^3 and (cos r - 1 + r^2/2)/r^4 in powers of r^2.
  constexpr double kSin[] = {-1.0 / 6.0,
                             1.0 / 120.0,
                             -1.0 / 5040.0,
                             1.0 / 362880.0,
                             -1.0 / 39916800.0,
                             1.0 / 6227020800.0,
                             -1.0 / 1307674368000.0,
                             1.0 / 355687428096000.0,
                             -1.0 / 121645100408832000.0};
  constexpr double kCos[] = {
      1.0 / 24.0,        -1.0 / 720.0,         1.0 / 40320.0,          -1.0 / 3628800.0,
      1.0 / 479001600.0, -1.0 / 87178291200.0, 1.0 / 20922789888000.0, -1.0 / 6402373705728000.0};
  const double magnitude = std::bit_cast<double>(std::bit_cast<uint64_t>(x) & 0x7fffffffffffffffu);
  Reduced reduced = {{magnitude, 0.0}, 0};
  if (magnitude > kPiOver4) reduced = reduce(magnitude);
  const double r = reduced.r.hi;
  const double lo = reduced.r.lo;
  const double z = r * r;
  const double sine = r + ((r * z) * horner(z, kSin) + (lo - lo * (0.5 * z)));
  const double half = 0.5 * z;
  const double w = 1.0 - half;
  const double cosine = w + (((1.0 - w) - half) + ((z * z) * horner(z, kCos) - r * lo));
  SinCos result = {sine, cosine};
  if (reduced.quadrant == 1) result = {cosine, -sine};
  if (reduced.quadrant == 2) result = {-sine, -cosine};
  if (reduced.quadrant == 3) result = {-cosine, sine};
  if (std::bit_cast<uint64_t>(x) >> 63) result.sin = -result.sin;
  return result;
}

}  // namespace isobit::binary64

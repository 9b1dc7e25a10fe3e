// SPDX-License-Identifier: Apache-2.0
// binary64: within one unit in the last place of the correctly rounded result, and frozen bits over many
// arguments.
#include "core/binary64.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "core/binary64_cases.h"
#include "core/sha256.h"

namespace isobit {
namespace {

using binary64_cases::Case;

// Representable numbers between a and b; +0 and -0 are one.
int64_t steps(double a, double b) {
  const auto order = [](double x) {
    const int64_t bits = std::bit_cast<int64_t>(x);
    return bits < 0 ? std::numeric_limits<int64_t>::min() - bits : bits;
  };
  return std::abs(order(a) - order(b));
}

template <int N, typename F>
void expect_close(const Case (&cases)[N], F f) {
  for (const Case& c : cases) EXPECT_LE(steps(f(c), c.result), 1) << std::hexfloat << c.x << " " << c.y;
}

TEST(Binary64, AgreesWithCorrectlyRoundedResults) {
  expect_close(binary64_cases::kExp, [](const Case& c) { return binary64::exp(c.x); });
  expect_close(binary64_cases::kLog, [](const Case& c) { return binary64::log(c.x); });
  expect_close(binary64_cases::kPow, [](const Case& c) { return binary64::pow(c.x, c.y); });
  expect_close(binary64_cases::kSin, [](const Case& c) { return binary64::sincos(c.x).sin; });
  expect_close(binary64_cases::kCos, [](const Case& c) { return binary64::sincos(c.x).cos; });
}

TEST(Binary64, ExactAndExtremeArguments) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(binary64::exp(0.0), 1.0);
  EXPECT_EQ(binary64::exp(-0.0), 1.0);
  EXPECT_EQ(binary64::exp(710.0), kInf);
  EXPECT_EQ(binary64::exp(kInf), kInf);
  EXPECT_EQ(binary64::exp(-746.0), 0.0);
  EXPECT_EQ(binary64::exp(-kInf), 0.0);
  EXPECT_TRUE(std::isnan(binary64::exp(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_LE(steps(binary64::exp(-744.0), 1e-323), 0);  // subnormal: 2 * 2^-1074
  EXPECT_EQ(binary64::log(1.0), 0.0);
  EXPECT_EQ(binary64::pow(1.0, 1e300), 1.0);
  EXPECT_EQ(binary64::pow(3.0, 0.0), 1.0);
  EXPECT_EQ(binary64::pow(1e10, 400.0), kInf);
  EXPECT_EQ(binary64::pow(1e10, -400.0), 0.0);
  EXPECT_TRUE(std::signbit(binary64::sincos(-0.0).sin));
  EXPECT_FALSE(std::signbit(binary64::sincos(0.0).sin));
  EXPECT_EQ(binary64::sincos(0.0).cos, 1.0);
}

TEST(Binary64, SineIsOddAndCosineEven) {
  for (double x = 1e-3; x < 1e300; x *= 7.3) {
    const binary64::SinCos plus = binary64::sincos(x);
    const binary64::SinCos minus = binary64::sincos(-x);
    EXPECT_EQ(plus.sin, -minus.sin);
    EXPECT_EQ(plus.cos, minus.cos);
  }
}

// Every compiler, optimisation level and CPU must give these bits.
TEST(Binary64, FrozenBits) {
  Sha256 hash;
  uint64_t state = 88172645463325252u;
  const auto draw = [&state](int low, int high) {  // magnitudes 2^low .. 2^(high+1)
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const uint64_t exponent =
        static_cast<uint64_t>(low + static_cast<int>(state % static_cast<uint64_t>(high - low + 1)) + 1023);
    return std::bit_cast<double>((exponent << 52) | (state >> 12));
  };
  const auto put = [&hash](double x) {
    const uint64_t bits = std::bit_cast<uint64_t>(x);
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = static_cast<unsigned char>(bits >> (8 * i));
    hash.update(bytes, sizeof bytes);
  };
  for (int i = 0; i < 20000; i++) {
    const double x = draw(-30, 9);
    put(binary64::exp(x));
    put(binary64::exp(-x));
    put(binary64::log(draw(-1022, 1023)));
    const double base = draw(-20, 30);
    put(binary64::pow(base, draw(-8, 5)));
    const binary64::SinCos pair = binary64::sincos(i % 2 ? draw(-20, 20) : -draw(-5, 1023));
    put(pair.sin);
    put(pair.cos);
  }
  EXPECT_EQ(hash.hex(), "a7687a2d75e9b1d9e5f9dddce0da56ab255fa20899251df546d3cb36a16eac3f");
}

}  // namespace
}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// The emulated fma equals the hardware's in every bit (NaNs alike).
#include "kernels/scalar_fma.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "support/bits.h"

namespace isobit::kernels {
namespace {

#ifdef __x86_64__
#define ISOBIT_WITH_FMA [[gnu::target("fma")]]
bool has_hardware() { return __builtin_cpu_supports("fma"); }
#else
#define ISOBIT_WITH_FMA
bool has_hardware() {
#ifdef __FP_FAST_FMAF
  return true;
#else
  return false;
#endif
}
#endif
ISOBIT_WITH_FMA [[gnu::noinline]] float hardware_fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}

using testing::comparable;
using testing::float_of;

void expect_equal(float a, float b, float c) {
  const float expected = hardware_fma(a, b, c), got = emulated_fma(a, b, c);
  ASSERT_EQ(comparable(got), comparable(expected)) << std::hexfloat << "fma(" << a << ", " << b << ", " << c
                                                   << "): expected " << expected << ", got " << got;
}

TEST(ScalarFma, EdgeCases) {
  if (!has_hardware()) GTEST_SKIP() << "no fma on this CPU";
  std::vector<float> x;
  for (uint32_t bits :
       {0u,          1u,          2u,          3u,          0x400000u,   0x7ffffeu,   0x7fffffu,
        0x800000u,   0x800001u,   0xffffffu,   0x1000000u,  0x1f800000u, 0x20000001u, 0x33000000u,
        0x337fffffu, 0x33800000u, 0x33800001u, 0x34000000u, 0x3effffffu, 0x3f000000u, 0x3f7fffffu,
        0x3f800000u, 0x3f800001u, 0x3f800002u, 0x3fc00000u, 0x3fffffffu, 0x40000000u, 0x4b000000u,
        0x4b800001u, 0x5f000000u, 0x5f7fffffu, 0x7effffffu, 0x7f000000u, 0x7f7ffffeu, 0x7f7fffffu,
        0x7f800000u, 0x7fc00000u}) {
    x.push_back(float_of(bits));
    x.push_back(-float_of(bits));
  }
  for (float a : x) {
    for (float b : x) {
      for (float c : x) expect_equal(a, b, c);
    }
  }
}

TEST(ScalarFma, RandomBits) {
  if (!has_hardware()) GTEST_SKIP() << "no fma on this CPU";
  std::mt19937_64 random(1);
  for (int i = 0; i < 8000000 && !HasFatalFailure(); ++i) {
    const uint64_t x = random();
    expect_equal(float_of(static_cast<uint32_t>(x)), float_of(static_cast<uint32_t>(x >> 32)),
                 float_of(static_cast<uint32_t>(random())));
  }
}

TEST(ScalarFma, AddendNearTheProduct) {
  // Cancellation, halfway cases and sums in which one side only decides the rounding.
  if (!has_hardware()) GTEST_SKIP() << "no fma on this CPU";
  std::mt19937_64 random(2);
  for (int i = 0; i < 8000000 && !HasFatalFailure(); ++i) {
    const uint64_t x = random(), y = random();
    const float a = float_of(static_cast<uint32_t>(x)), b = float_of(static_cast<uint32_t>(x >> 32));
    const uint32_t product = __builtin_bit_cast(uint32_t, a * b);
    const uint32_t shift = static_cast<uint32_t>(y % 61) << 23;
    const uint32_t low = static_cast<uint32_t>(y >> 8) & (y >> 40 & 1 ? 7u : 0x7fffffu);
    const uint32_t sign = static_cast<uint32_t>(y >> 41 & 1) << 31;
    expect_equal(a, b, float_of((product ^ low ^ sign) + (y >> 42 & 1 ? shift : 0u - shift)));
  }
}

TEST(ScalarFma, ProductNearHalfAnUlpOfTheAddend) {
  // (1 + u)(1 - v) is just beside 1, which is half an ulp of c: rounding to binary64 first would make a tie
  // of it.
  if (!has_hardware()) GTEST_SKIP() << "no fma on this CPU";
  std::mt19937_64 random(4);
  for (int i = 0; i < 2000000 && !HasFatalFailure(); ++i) {
    const uint64_t x = random();
    const uint32_t u = x & 0xff, v = x >> 63 ? u : x >> 8 & 0xff;
    const int scale = static_cast<int>(x >> 16 & 63) - 32;
    const float a = std::ldexp(1.0f + static_cast<float>(u) * 0x1p-23f, scale);
    const float b = 1.0f - static_cast<float>(v) * 0x1p-24f * (x >> 62 & 1 ? 2.0f : 1.0f);
    const float c = std::ldexp(1.0f + static_cast<float>(x >> 24 & 0x7fffff) * 0x1p-23f, scale + 24);
    expect_equal(a, x >> 61 & 1 ? b : -b, c);
  }
}

TEST(ScalarFma, SubnormalResults) {
  if (!has_hardware()) GTEST_SKIP() << "no fma on this CPU";
  std::mt19937_64 random(3);
  for (int i = 0; i < 8000000 && !HasFatalFailure(); ++i) {
    const uint64_t x = random(), y = random();
    // Exponents of a and b that sum to about -150 .. -120, c subnormal or nearly so.
    const uint32_t ea = static_cast<uint32_t>(y % 100) + 20;
    const uint32_t eb = 127 + 127 - 150 + static_cast<uint32_t>(y >> 8) % 34 - ea;
    const uint32_t a = (static_cast<uint32_t>(x) & 0x807fffffu) | ea << 23;
    const uint32_t b = (static_cast<uint32_t>(x >> 32) & 0x807fffffu) | eb << 23;
    const uint32_t c = static_cast<uint32_t>(y >> 16) & (y >> 60 & 1 ? 0x81ffffffu : 0x8000000fu);
    expect_equal(float_of(a), float_of(b), float_of(c));
  }
}

}  // namespace
}  // namespace isobit::kernels

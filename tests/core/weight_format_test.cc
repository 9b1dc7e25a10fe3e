// SPDX-License-Identifier: Apache-2.0
// Rounding to bfloat16 and int8 and widening back, against the definitions of contract 8.
#include "isobit/weight_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "support/bits.h"
#include "support/host_env.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

float widened(uint16_t bits) {
  float x = 0.0f;
  widen_bf16(&bits, 1, &x);
  return x;
}

TEST(Bf16, EveryPatternWidensToItsUpperHalfAndRoundsBack) {
  for (uint32_t b = 0; b <= 0xffff; ++b) {
    const auto bits = static_cast<uint16_t>(b);
    const float x = widened(bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(x), b << 16);
    uint16_t back = 0;
    const int64_t bad = round_to_bf16(&x, 1, &back);
    ASSERT_EQ(bad, std::isfinite(x) ? 1 : 0) << b;
    ASSERT_TRUE(!std::isfinite(x) || back == bits) << b;
  }
}

// Between every two neighbours: the nearer, in the middle the even one, beyond the last none.
TEST(Bf16, RoundsToNearestEven) {
  for (uint32_t b = 0; b <= 0xffff; ++b) {
    if ((b & 0x7f80) == 0x7f80) continue;
    for (const uint32_t rest : {1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float x = std::bit_cast<float>(b << 16 | rest);
      const bool up = rest > 0x8000 || (rest == 0x8000 && (b & 1) != 0);
      const auto expected = static_cast<uint16_t>(up ? b + 1 : b);
      uint16_t got = 0;
      const int64_t bad = round_to_bf16(&x, 1, &got);
      if ((expected & 0x7f80) == 0x7f80)
        ASSERT_EQ(bad, 0) << b;
      else
        ASSERT_TRUE(bad == 1 && got == expected) << std::hex << b << " " << rest;
    }
  }
}

TEST(Bf16, TheFirstBadValueIsNamed) {
  std::vector<float> x(40, 1.0f);
  std::vector<uint16_t> bits(x.size());
  EXPECT_EQ(round_to_bf16(x.data(), 40, bits.data()), 40);
  x[31] = std::numeric_limits<float>::max();
  x[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(round_to_bf16(x.data(), 40, bits.data()), 7);
}

struct Row {
  std::vector<int8_t> codes;
  int32_t exponent;
};

Row quantized(const std::vector<float>& x) {
  Row r{std::vector<int8_t>(x.size()), 0};
  r.exponent = quantize_int8(x.data(), static_cast<int64_t>(x.size()), r.codes.data());
  return r;
}

void expect_row(const std::vector<float>& x, int32_t exponent, const std::vector<int8_t>& codes) {
  const Row r = quantized(x);
  EXPECT_EQ(r.exponent, exponent);
  EXPECT_EQ(r.codes, codes);
}

TEST(Int8, KnownRows) {
  expect_row({0.0f, -0.0f}, 0, {0, 0});
  expect_row({1.0f, -0.5f}, -6, {64, -32});
  expect_row({127.0f, -127.0f, 1.0f}, 0, {127, -127, 1});
  // 127.5 and what is above would round to 128.
  expect_row({127.5f, -127.996f, 127.49f}, 0, {127, -127, 127});
  // Ties go to the even code.
  expect_row({64.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f}, 0, {64, 0, 2, 2, 0, -2, -2});
  expect_row({0x1.fffffep127f, -0x1p127f}, 121, {127, -64});
  // Subnormal rows.
  expect_row({0x1p-149f, -0x1p-149f, 0.0f}, -155, {64, -64, 0});
  expect_row({0x1.8p-148f, 0x1p-149f}, -154, {96, 32});
  expect_row({0x1p-126f, 0x1p-133f, 0x1p-149f}, -132, {64, 0, 0});
  expect_row({}, 0, {});
}

TEST(Int8, WidensExactlyAndPacksBackToTheSameValues) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<float> x =
        random.units(random.in(1, 40), std::ldexp(1.0f, static_cast<int>(random.in(-149, 127))));
    const Row r = quantized(x);
    std::vector<float> values(x.size()), again(x.size());
    const auto n = static_cast<int64_t>(x.size());
    ASSERT_EQ(widen_int8(r.codes.data(), n, r.exponent, values.data()), n);
    for (size_t j = 0; j < x.size(); ++j) {
      ASSERT_EQ(static_cast<double>(values[j]), std::ldexp(static_cast<double>(r.codes[j]), r.exponent));
      const double error = std::abs(static_cast<double>(x[j]) - values[j]);
      ASSERT_TRUE(error <= std::ldexp(0.5, r.exponent) || std::abs(r.codes[j]) == 127);
    }
    const Row second = quantized(values);
    ASSERT_EQ(widen_int8(second.codes.data(), n, second.exponent, again.data()), n);
    ASSERT_TRUE(same_bits(again, values));
  }
}

TEST(Int8, TheHostsRoundingAndFlushingChangeNothing) {
  const std::vector<float> x = {0x1.0cp-140f, 0x1.4p-142f, -0x1p-149f, 0x1.04p-141f};
  const Row expected = quantized(x);
  std::vector<float> values(x.size()), got(x.size());
  widen_int8(expected.codes.data(), 4, expected.exponent, values.data());
  Row r;
  {
    const HostMode mode;
    r = quantized(x);
    EXPECT_EQ(widen_int8(r.codes.data(), 4, r.exponent, got.data()), 4);
    EXPECT_TRUE(mode.intact());
  }
  EXPECT_EQ(r.exponent, expected.exponent);
  EXPECT_EQ(r.codes, expected.codes);
  EXPECT_TRUE(same_bits(got, values));
}

TEST(Int8, ValuesThatAreNoFloatAreFound) {
  float x[3];
  const int8_t lowest[3] = {1, 2, -128}, odd[3] = {64, 65, 32}, zeros[3] = {0, 0, 0};
  EXPECT_EQ(widen_int8(lowest, 3, 0, x), 2);
  EXPECT_EQ(widen_int8(odd, 3, -155, x), 1);
  EXPECT_EQ(widen_int8(zeros, 3, kMinInt8Exponent, x), 3);
  const int8_t full[1] = {127};
  EXPECT_EQ(widen_int8(full, 1, kMaxInt8Exponent, x), 1);
  EXPECT_EQ(widen_int8(full, 1, kMaxInt8Exponent + 1, x), 0);
}

TEST(WeightFormat, Names) {
  for (const WeightFormat f : {WeightFormat::kFloat32, WeightFormat::kBfloat16, WeightFormat::kInt8})
    EXPECT_EQ(parse_weight_format(to_string(f)), f);
  expect_error<ValueError>([] { parse_weight_format("int3"); }, {"weight_format", "bfloat16", "int3"});
}

}  // namespace
}  // namespace isobit::testing

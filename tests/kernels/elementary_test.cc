// SPDX-License-Identifier: Apache-2.0
// The functions of one number (docs/functions.md): every instruction set equals the reference bit for bit,
// the bits are the recorded ones, and the recorded worst inputs have the recorded errors.
#include "kernels/reference/elementary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/accuracy/oracle.h"
#include "kernels/table.h"
#include "support/bits.h"

namespace isobit::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

using testing::bits_of;
using testing::comparable;
using testing::float_of;

/// 2^22 numbers evenly over all bit patterns, and the neighbourhoods of where sequences change.
std::vector<float> dense_sample() {
  std::vector<float> x;
  for (uint64_t i = 0; i < (uint64_t{1} << 32); i += 1021) x.push_back(float_of(static_cast<uint32_t>(i)));
  for (float centre : {0.0f,
                       0x1p-126f,
                       0x1p-30f,
                       0.25f,
                       0.5f,
                       0.7f,
                       0x1.921fb6p-1f,
                       0.9f,
                       1.0f,
                       2.0f,
                       9.5f,
                       10.0f,
                       10.06f,
                       18.0f,
                       87.33654f,
                       88.0f,
                       88.722839f,
                       89.0f,
                       128.0f,
                       32768.0f,
                       8388608.0f,
                       0x1p24f,
                       0x1p31f,
                       0x1p126f,
                       0x1p127f,
                       std::numeric_limits<float>::max(),
                       kInf}) {
    for (int d = -40; d <= 40; ++d) {
      const uint32_t near = bits_of(centre) + static_cast<uint32_t>(d);
      x.push_back(float_of(near));
      x.push_back(float_of(near ^ 0x80000000u));
    }
  }
  return x;
}

TEST(Elementary, EveryTableEqualsTheReference) {
  const std::vector<float> x = dense_sample();
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<float> expected(x.size()), y(x.size());
  for (int kind = 0; kind < kUnaryCount; ++kind) {
    for (int64_t i = 0; i < n; ++i) expected[i] = reference::unary_ref(static_cast<Unary>(kind), x[i]);
    for (const KernelTable* table : available_tables()) {
      table->unary(static_cast<Unary>(kind), x.data(), n, y.data());
      int64_t differing = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (comparable(y[i]) == comparable(expected[i])) continue;
        if (differing++ == 0) {
          ADD_FAILURE() << kUnaryNames[kind] << " on " << table->isa << " at " << std::hexfloat << x[i]
                        << ": expected " << expected[i] << ", got " << y[i];
        }
      }
      EXPECT_EQ(differing, 0) << kUnaryNames[kind] << " on " << table->isa;
    }
  }
}

/// FNV-1a over the little-endian bytes of the results.
uint64_t digest(const std::vector<float>& y) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (float value : y) {
    for (int byte = 0; byte < 4; ++byte)
      hash = (hash ^ (comparable(value) >> 8 * byte & 0xff)) * 0x100000001b3u;
  }
  return hash;
}

TEST(Elementary, BitsAreTheRecordedOnes) {
  // Every 4093rd bit pattern. A change here is a change of the contract: it needs a new version.
  constexpr uint64_t kGolden[kUnaryCount] = {
      0x5318068de251074b, 0x2d2252b5f2fee5e4, 0x7d6db90dcee67f53, 0xd4afb146481a0915, 0x4de010a366aa924c,
      0x862a019cfef280a8, 0x2e5b92adbba7a0de, 0xe6d2671c7bd79a01, 0xb440ee5c4a245a59, 0x82adb0a1238a871d,
      0x20f7f0884a6e20be, 0x235a31239f63b934, 0x7649b05a3b01b3f5, 0x198a3ea8b1418ca3, 0x9ff506d08101a662};
  std::vector<float> x, y;
  for (uint64_t i = 0; i < (uint64_t{1} << 32); i += 4093) x.push_back(float_of(static_cast<uint32_t>(i)));
  y.resize(x.size());
  for (int kind = 0; kind < kUnaryCount; ++kind) {
    active_table().unary(static_cast<Unary>(kind), x.data(), static_cast<int64_t>(x.size()), y.data());
    EXPECT_EQ(digest(y), kGolden[kind]) << kUnaryNames[kind] << std::hex << " 0x" << digest(y);
  }
}

struct Worst {
  Unary kind;
  float x;
  double ulps;
};

TEST(Elementary, ErrorsAreTheRecordedOnes) {
  // The largest errors over all inputs, as docs/functions.md lists them.
  constexpr Worst kWorst[] = {
      {Unary::kExp, 0x1.4cc98p+2f, 0.9091},        {Unary::kExpm1, 0x1.816f4ap-2f, 1.9361},
      {Unary::kLog, 0x1.7f6048p-2f, 0.9283},       {Unary::kLog1p, 0x1.fffffep-2f, 1.2683},
      {Unary::kSoftplus, -0x1.c263aap-2f, 1.6532}, {Unary::kSigmoid, -0x1.0a2bd8p+4f, 2.4807},
      {Unary::kSilu, -0x1.0af4e2p+4f, 2.3939},     {Unary::kTanh, -0x1.d3e846p-1f, 0.9377},
      {Unary::kErf, 0x1.fda8fep-1f, 0.9855},       {Unary::kErfc, 0x1.978a14p+2f, 2.0551},
      {Unary::kGelu, -0x1.f5b46cp-1f, 2.0586},     {Unary::kGeluTanh, -0x1.401de4p+2f, 2.2838},
      {Unary::kSin, 0x1.a789ccp+14f, 0.9609},      {Unary::kCos, 0x1.01515ap+27f, 0.9638},
  };
  for (const Worst& worst : kWorst) {
    double exact;
    oracle(worst.kind, &worst.x, 1, &exact);
    const double error = ulp_error(reference::unary_ref(worst.kind, worst.x), exact);
    EXPECT_NEAR(error, worst.ulps, 0.0001) << kUnaryNames[static_cast<int>(worst.kind)];
  }
}

TEST(Elementary, ErrorsStayWithinTheContract) {
  std::vector<float> x = dense_sample();
  std::vector<double> exact(x.size());
  for (int kind = 0; kind < kUnaryCount; ++kind) {
    const Unary unary = static_cast<Unary>(kind);
    const bool basic = unary == Unary::kExp || unary == Unary::kLog || unary == Unary::kTanh ||
                       unary == Unary::kErf || unary == Unary::kSin || unary == Unary::kCos;
    std::vector<float> y(x.size());
    active_table().unary(unary, x.data(), static_cast<int64_t>(x.size()), y.data());
    oracle(unary, x.data(), static_cast<int>(x.size()), exact.data());
    double worst_ulps = 0.0, worst_below = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isinf(x[i])) continue;
      ASSERT_EQ(std::isnan(y[i]), std::isnan(exact[i]))
          << kUnaryNames[kind] << " at " << std::hexfloat << x[i];
      if (std::isnan(exact[i])) continue;
      if (std::abs(exact[i]) >= 0x1p-100) {
        worst_ulps = std::max(worst_ulps, ulp_error(y[i], exact[i]));
      } else {
        worst_below = std::max(worst_below, std::abs(y[i] - exact[i]));
      }
    }
    EXPECT_LE(worst_ulps, basic ? 1.0 : 2.5) << kUnaryNames[kind];
    EXPECT_LE(worst_below, 0x1p-119) << kUnaryNames[kind];
  }
}

TEST(Elementary, SpecialValues) {
  const auto value = [](Unary kind, float x) { return reference::unary_ref(kind, x); };
  const auto expect_bits = [&](Unary kind, float x, float expected) {
    EXPECT_EQ(bits_of(value(kind, x)), bits_of(expected))
        << kUnaryNames[static_cast<int>(kind)] << " at " << x;
  };
  for (int kind = 0; kind < kUnaryCount; ++kind) {
    if (static_cast<Unary>(kind) == Unary::kRelu) continue;
    EXPECT_TRUE(std::isnan(value(static_cast<Unary>(kind), std::nanf("")))) << kUnaryNames[kind];
  }
  for (Unary odd : {Unary::kLog1p, Unary::kExpm1, Unary::kTanh, Unary::kErf, Unary::kSin, Unary::kGelu,
                    Unary::kSilu, Unary::kGeluTanh}) {
    expect_bits(odd, 0.0f, 0.0f);
    expect_bits(odd, -0.0f, -0.0f);
  }
  for (Unary one : {Unary::kExp, Unary::kErfc, Unary::kCos}) {
    expect_bits(one, 0.0f, 1.0f);
    expect_bits(one, -0.0f, 1.0f);
  }
  expect_bits(Unary::kExp, kInf, kInf);
  expect_bits(Unary::kExp, -kInf, 0.0f);
  expect_bits(Unary::kExp, 0x1.62e42ep+6f, 0x1.ffff08p+127f);
  expect_bits(Unary::kExp, 0x1.62e43p+6f, kInf);
  expect_bits(Unary::kExp, -0x1.5d58ap+6f, 0.0f);
  EXPECT_GT(value(Unary::kExp, -0x1.5d589ep+6f), 0.0f);
  expect_bits(Unary::kLog, 0.0f, -kInf);
  expect_bits(Unary::kLog, -0.0f, -kInf);
  expect_bits(Unary::kLog, 1.0f, 0.0f);
  expect_bits(Unary::kLog, kInf, kInf);
  EXPECT_TRUE(std::isnan(value(Unary::kLog, -1.0f)));
  expect_bits(Unary::kLog1p, -1.0f, -kInf);
  expect_bits(Unary::kLog1p, kInf, kInf);
  EXPECT_TRUE(std::isnan(value(Unary::kLog1p, -2.0f)));
  expect_bits(Unary::kExpm1, -kInf, -1.0f);
  expect_bits(Unary::kExpm1, kInf, kInf);
  for (Unary sign : {Unary::kTanh, Unary::kErf}) {
    expect_bits(sign, kInf, 1.0f);
    expect_bits(sign, -kInf, -1.0f);
  }
  expect_bits(Unary::kErfc, kInf, 0.0f);
  expect_bits(Unary::kErfc, -kInf, 2.0f);
  expect_bits(Unary::kSigmoid, 0.0f, 0.5f);
  expect_bits(Unary::kSigmoid, kInf, 1.0f);
  expect_bits(Unary::kSigmoid, -kInf, 0.0f);
  expect_bits(Unary::kSoftplus, kInf, kInf);
  expect_bits(Unary::kSoftplus, -kInf, 0.0f);
  for (Unary gate : {Unary::kGelu, Unary::kGeluTanh}) {
    expect_bits(gate, kInf, kInf);
    expect_bits(gate, -kInf, 0.0f);
  }
  expect_bits(Unary::kSilu, kInf, kInf);
  EXPECT_TRUE(std::isnan(value(Unary::kSin, kInf)));
  EXPECT_TRUE(std::isnan(value(Unary::kCos, 0x1.000002p+31f)));
  EXPECT_FALSE(std::isnan(value(Unary::kCos, -0x1p+31f)));
  expect_bits(Unary::kRelu, -1.0f, 0.0f);
  expect_bits(Unary::kRelu, 3.0f, 3.0f);
}

TEST(Elementary, ArraysOfEveryLengthInPlace) {
  for (const KernelTable* table : available_tables()) {
    for (int n = 0; n < 40; ++n) {
      std::vector<float> x(static_cast<size_t>(n) + 1, 77.0f);
      for (int i = 0; i < n; ++i) x[i] = static_cast<float>(i) * 0.37f - 5.0f;
      table->unary(Unary::kSilu, x.data(), n, x.data());
      for (int i = 0; i < n; ++i) {
        EXPECT_EQ(bits_of(x[i]), bits_of(reference::silu_ref(static_cast<float>(i) * 0.37f - 5.0f)))
            << table->isa;
      }
      EXPECT_EQ(x[n], 77.0f) << table->isa;
    }
  }
}

}  // namespace
}  // namespace isobit::kernels

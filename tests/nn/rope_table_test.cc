// SPDX-License-Identifier: Apache-2.0
// Rotary tables against transformers, their frozen bits, growth under threads, and the rules for the options.
#include "nn/rope_table.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "core/sha256.h"
#include "isobit/error.h"
#include "nn/rope_cases.h"

namespace isobit {
namespace {

using rope_cases::Case;

constexpr int64_t kDim = 16;
constexpr int64_t kMax = 131072;

RopeScaling scaling(RopeType type, double factor = 4.0) {
  RopeScaling s;
  s.type = type;
  s.factor = factor;
  s.original_max_position_embeddings = 4096;
  return s;
}

RopeScaling llama3() {
  RopeScaling s = scaling(RopeType::kLlama3, 8.0);
  s.low_freq_factor = 1.0;
  s.high_freq_factor = 4.0;
  s.original_max_position_embeddings = 8192;
  return s;
}

RopeScaling yarn_scaled() {
  RopeScaling s = scaling(RopeType::kYarn, 40.0);
  s.truncate = false;
  s.mscale = 0.707;
  s.mscale_all_dim = 1.0;
  return s;
}

RopeScaling longrope() {
  RopeScaling s = scaling(RopeType::kLongRope, 32.0);
  s.short_factor = {1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.25, 1.5};
  s.long_factor = {1.0, 1.5, 2.25, 4.5, 9.0, 18.0, 30.5, 48.0};
  return s;
}

struct Variant {
  const char* name;
  double theta;
  std::optional<RopeScaling> scaling;
  int64_t max_positions;
  const Case& expected;
  const char* digest;  // of inv_freq, then the cos and sin rows of positions 0..511
};

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"default",
       10000.0,
       {},
       kMax,
       rope_cases::kDefault,
       "f7e87f92a60bba970edf551ddc6d86267545778ac0f08445364d7fb4051caeb2"},
      {"linear", 10000.0, scaling(RopeType::kLinear), kMax, rope_cases::kLinear,
       "f470ab15d8850a56e3507d0e297b467658e20b287a18f08733cce2c02ea32528"},
      {"llama3", 500000.0, llama3(), kMax, rope_cases::kLlama3,
       "d7841f64f73944d17779cd88920373e001efdef82ac20760abedc15434c2894e"},
      {"yarn", 1000000.0, scaling(RopeType::kYarn, 32.0), kMax, rope_cases::kYarn,
       "1787fe4dd7cce1c4d94b513b80ffecde632dfaa33acbc35b20f69e2c9c91e273"},
      {"yarn scaled", 10000.0, yarn_scaled(), kMax, rope_cases::kYarnScaled,
       "aed799ca5d410ac869f561d2b9ddda420bd85b2a61fe3c03102d806997632a21"},
      {"longrope long", 10000.0, longrope(), kMax, rope_cases::kLongRopeLong,
       "c210a68536350dcd0bffdfec7081bcfebef59d868ab89b96fa04367d8b7f25d1"},
      {"longrope short", 10000.0, longrope(), 4096, rope_cases::kLongRopeShort,
       "8e1131978451801dc2519464456ba9024c12d3d873e37113c7733a79918bcbbe"},
      {"dynamic", 10000.0, scaling(RopeType::kDynamic), 4096, rope_cases::kDefault,
       "f7e87f92a60bba970edf551ddc6d86267545778ac0f08445364d7fb4051caeb2"},
  };
  return all;
}

// Distance in units in the last place of float32, for numbers of one sign.
int64_t ulps(float a, double b) {
  return std::abs(int64_t{std::bit_cast<int32_t>(a)} - std::bit_cast<int32_t>(static_cast<float>(b)));
}

TEST(RopeTable, AgreesWithTransformers) {
  for (const Variant& v : variants()) {
    SCOPED_TRACE(v.name);
    const RopeTable table(kDim, v.theta, v.scaling, v.max_positions);
    ASSERT_EQ(table.half(), kDim / 2);
    EXPECT_EQ(table.attention_factor(), static_cast<float>(v.expected.attention_factor));
    for (int64_t i = 0; i < table.half(); i++) {
      EXPECT_LE(ulps(table.frequencies().inv_freq[i], v.expected.inv_freq[i]), 2) << i;
    }
    for (int64_t p = 0; p < 4; p++) {
      const int64_t position = rope_cases::kPositions[p];
      for (int64_t i = 0; i < table.half(); i++) {
        // Two units of inv_freq move the angle by 2^-22 of itself.
        const double tolerance = 2e-7 + static_cast<double>(position) * v.expected.inv_freq[i] * 0x1p-22;
        EXPECT_NEAR(table.cos_row(position)[i], v.expected.cos[p][i], tolerance) << position << " " << i;
        EXPECT_NEAR(table.sin_row(position)[i], v.expected.sin[p][i], tolerance) << position << " " << i;
      }
    }
  }
}

std::string digest(const RopeTable& table) {
  Sha256 hash;
  const size_t row = sizeof(float) * static_cast<size_t>(table.half());
  hash.update(table.frequencies().inv_freq.data(), row);
  for (int64_t p = 0; p < 512; p++) {
    hash.update(table.cos_row(p), row);
    hash.update(table.sin_row(p), row);
  }
  return hash.hex();
}

TEST(RopeTable, FrozenBits) {
  for (const Variant& v : variants()) {
    EXPECT_EQ(digest(RopeTable(kDim, v.theta, v.scaling, v.max_positions)), v.digest) << v.name;
  }
  EXPECT_EQ(digest(RopeTable(256, 500000.0, llama3(), kMax)),
            "7fb795015f5568632381434283592ec0938863b0bb8e5a21cdba004707f54a22");  // many columns in the
                                                                                  // smooth range
}

TEST(RopeTable, AnglesAreFloat32ProductsAtAnyPosition) {
  const RopeTable table(2, 10000.0, {}, int64_t{1} << 40);
  EXPECT_EQ(table.frequencies().inv_freq[0], 1.0f);
  EXPECT_EQ(table.cos_row(8191)[0], static_cast<float>(std::cos(8191.0)));
  EXPECT_EQ(table.sin_row(1000003)[0], static_cast<float>(std::sin(1000003.0)));
  // 2^24 + 1 is not a float32: the angle is 2^24.
  EXPECT_EQ(table.sin_row(16777217)[0], table.sin_row(16777216)[0]);
  EXPECT_EQ(table.sin_row(16777216)[0], static_cast<float>(std::sin(16777216.0)));
}

TEST(RopeTable, RowsStayAndThreadsAgree) {
  const RopeTable alone(64, 10000.0, {}, kMax);
  alone.reserve(3000);
  const float* first = alone.cos_row(0);
  const RopeTable together(64, 10000.0, {}, kMax);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      for (int64_t k = 0; k < 3000; k++) {
        const int64_t p = (k * 1237 + t * 701) % 3000;
        for (int64_t i = 0; i < 32; i++) {
          wrong[t] +=
              together.cos_row(p)[i] != alone.cos_row(p)[i] || together.sin_row(p)[i] != alone.sin_row(p)[i];
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
  alone.reserve(20000);
  EXPECT_EQ(alone.cos_row(0), first);
}

TEST(RopeTable, EqualFrequenciesShareOneTable) {
  const auto a = RopeTable::shared(kDim, 10000.0, {}, 4096);
  const auto b = RopeTable::shared(kDim, 10000.0, scaling(RopeType::kDynamic), 4096);
  const auto c = RopeTable::shared(kDim, 10000.0, scaling(RopeType::kLinear), 4096);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refusal(const RopeScaling& s, double theta = 10000.0, int64_t max_positions = 4096) {
  return refusal([&] { validate_rope(kDim, kDim, theta, s, max_positions); });
}

RopeScaling with(RopeScaling s, const std::function<void(RopeScaling&)>& change) {
  change(s);
  return s;
}

TEST(ValidateRope, AcceptsEveryVariant) {
  for (const Variant& v : variants()) {
    EXPECT_EQ(refusal([&] { validate_rope(kDim, kDim, v.theta, v.scaling, v.max_positions); }), "accepted")
        << v.name;
  }
  EXPECT_EQ(refusal([] { validate_rope(64, 32, 10000.0, {}, int64_t{1} << 40); }), "accepted");
}

TEST(ValidateRope, Plain) {
  const auto plain = [](int64_t head_dim, int64_t rope_dim, double theta, int64_t max_positions) {
    return refusal([&] { validate_rope(head_dim, rope_dim, theta, {}, max_positions); });
  };
  const std::string dims = "[TransformerBlock] rope_dim: expected an even number in 2..head_dim (16), got ";
  EXPECT_EQ(plain(16, 0, 1e4, 1), dims + "0");
  EXPECT_EQ(plain(16, 7, 1e4, 1), dims + "7");
  EXPECT_EQ(plain(16, 18, 1e4, 1), dims + "18");
  EXPECT_EQ(plain(16, 16, 1e4, 0), "[TransformerBlock] max_positions: expected an integer > 0, got 0");
  const std::string theta = "[TransformerBlock] rope_theta: expected a finite float32 number > 0, got ";
  EXPECT_EQ(plain(16, 16, 0.0, 1), theta + "0");
  EXPECT_EQ(plain(16, 16, -1.0, 1), theta + "-1");
  EXPECT_EQ(plain(16, 16, std::numeric_limits<double>::quiet_NaN(), 1), theta + "nan");
  EXPECT_EQ(plain(16, 16, 1e39, 1), theta + "1e+39");   // infinite at float32
  EXPECT_EQ(plain(16, 16, 1e-60, 1), theta + "1e-60");  // zero at float32
  EXPECT_NE(plain(16, 16, 1e-44, 100).find("rope_theta: expected rotation angles that float32 can hold"),
            std::string::npos);
}

TEST(ValidateRope, Scaling) {
  const std::string prefix = "[TransformerBlock] rope_scaling.";
  const RopeScaling linear = scaling(RopeType::kLinear);
  const RopeScaling yarn = scaling(RopeType::kYarn);
  EXPECT_EQ(refusal(with(linear, [](auto& s) { s.factor.reset(); })),
            prefix + "factor: expected a finite float32 number > 0, got nothing");
  EXPECT_EQ(refusal(with(linear, [](auto& s) { s.factor = -2.0; })),
            prefix + "factor: expected a finite float32 number > 0, got -2");
  EXPECT_EQ(refusal(with(llama3(), [](auto& s) { s.low_freq_factor = 0.0; })),
            prefix + "low_freq_factor: expected a finite float32 number > 0, got 0");
  EXPECT_EQ(refusal(with(llama3(), [](auto& s) { s.high_freq_factor.reset(); })),
            prefix + "high_freq_factor: expected a finite float32 number > 0, got nothing");
  EXPECT_EQ(refusal(with(llama3(), [](auto& s) { s.high_freq_factor = 1.0; })),
            prefix + "high_freq_factor: expected more than low_freq_factor (1), got 1");
  EXPECT_EQ(refusal(with(llama3(), [](auto& s) { s.original_max_position_embeddings = 0; })),
            prefix + "original_max_position_embeddings: expected an integer > 0, got 0 or nothing");
  EXPECT_EQ(refusal(with(yarn, [](auto& s) { s.original_max_position_embeddings = -1; })),
            prefix + "original_max_position_embeddings: expected an integer > 0, got -1");
  EXPECT_EQ(refusal(with(yarn, [](auto& s) { s.beta_fast = -1.0; })),
            prefix + "beta_fast: expected a finite float32 number >= 0 (0: the default), got -1");
  EXPECT_EQ(refusal(with(yarn, [](auto& s) { s.attention_factor = 0.0; })),
            prefix + "attention_factor: expected a finite float32 number > 0, got 0");
  EXPECT_EQ(refusal(yarn, 1.0),
            "[TransformerBlock] rope_theta: expected more than 1 with yarn scaling, got 1");
  EXPECT_EQ(refusal(with(longrope(), [](auto& s) { s.short_factor.pop_back(); })),
            prefix + "short_factor: expected 8 numbers (rope_dim / 2), got 7");
  EXPECT_EQ(refusal(with(longrope(), [](auto& s) { s.long_factor[3] = 0.0; })),
            prefix + "long_factor[3]: expected a finite float32 number > 0, got 0");
  EXPECT_EQ(refusal(with(longrope(), [](auto& s) { s.original_max_position_embeddings = 1; })),
            prefix + "attention_factor: expected a finite float32 number > 0, got inf");
  EXPECT_EQ(refusal(scaling(RopeType::kDynamic), 1e4, 4097),
            "[TransformerBlock] max_positions: expected at most "
            "rope_scaling.original_max_position_embeddings (4096) with "
            "dynamic scaling, got 4097");
}

}  // namespace
}  // namespace isobit

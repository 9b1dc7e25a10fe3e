// SPDX-License-Identifier: Apache-2.0
// A block that keeps its matrices as bfloat16 or int8 is the float32 block on the widened ones, bit for bit,
// in every call, for every option.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "support/bits.h"
#include "support/block_cases.h"

namespace isobit::testing {
namespace {

constexpr int64_t kBatch = 2, kLength = 13;

// The float32 block on what another one has stored.
TransformerBlock widened(const BlockCase& c, const TransformerBlock& stored) {
  synthetic::Weights weights = c.weights();
  for (const std::string& name : stored.weight_names()) {
    const std::vector<float> values = stored.weight(name);
    std::copy(values.begin(), values.end(), weights.at(name).begin());
  }
  TransformerOptions options = c.options;
  options.weight_format = WeightFormat::kFloat32;
  return {weights.map, options};
}

void check_equal(const BlockCase& c, bool every_isa) {
  const TransformerBlock stored = c.block(), wide = widened(c, stored);
  const std::vector<float> x = c.input(kBatch, kLength);
  const std::vector<float> whole = run(wide, x, kBatch, kLength);
  const std::vector<int64_t> lengths = {kLength, 4};
  const std::vector<float> ragged = run(wide, x, kBatch, kLength, nullptr, lengths);
  const auto check = [&] {
    ASSERT_TRUE(same_bits(run(stored, x, kBatch, kLength), whole));
    ASSERT_TRUE(same_bits(run(stored, x, kBatch, kLength, nullptr, lengths), ragged));
    ASSERT_TRUE(same_bits(run_split(stored, x, kBatch, {5, 1, 1, 6}, kLength), whole));
  };
  every_isa ? on_every_isa(check) : check();
  for (const std::string& name : stored.weight_names())
    ASSERT_TRUE(same_bits(wide.weight(name), stored.weight(name))) << name;
}

class StoredWeights : public ::testing::TestWithParam<WeightFormat> {};

TEST_P(StoredWeights, EqualTheWidenedOnesForEveryOption) {
  for (BlockCase c : option_cases()) {
    SCOPED_TRACE(c.name);
    c.options.weight_format = GetParam();
    check_equal(c, false);
  }
}

TEST_P(StoredWeights, EqualTheWidenedOnesInRandomBlocksOnEveryInstructionSet) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("random_case(" + std::to_string(seed) + ")");
    BlockCase c = random_case(seed);
    c.options.weight_format = GetParam();
    check_equal(c, true);
  }
}

// The codes of an integer profile are those of the widened weights, rows of zeros and subnormal ones too.
TEST_P(StoredWeights, EqualTheWidenedOnesInEveryProfile) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("random_case(" + std::to_string(seed) + ")");
    BlockCase c = random_case(seed);
    synthetic::Weights weights = c.weights();
    std::vector<float>& up = weights.at("up_proj.weight");
    for (size_t i = 0; i < up.size() && i < static_cast<size_t>(2 * c.d_model); ++i)
      up[i] *= i < static_cast<size_t>(c.d_model) ? 0.0f : 0x1p-138f;
    c.options.weight_format = GetParam();
    const TransformerBlock rounded(weights.map, c.options);
    synthetic::Weights wide = c.weights();
    for (const std::string& name : rounded.weight_names()) {
      const std::vector<float> values = rounded.weight(name);
      std::copy(values.begin(), values.end(), wide.at(name).begin());
    }
    for (const NumericProfile profile : {NumericProfile::kFixed15V1, NumericProfile::kInt8x32V1}) {
      TransformerOptions stored_options = c.options, wide_options = c.options;
      stored_options.numeric_profile = wide_options.numeric_profile = profile;
      wide_options.weight_format = WeightFormat::kFloat32;
      const TransformerBlock stored(weights.map, stored_options), other(wide.map, wide_options);
      const std::vector<float> x = c.input(kBatch, kLength), whole = run(other, x, kBatch, kLength);
      EXPECT_FALSE(same_bits(whole, run(rounded, x, kBatch, kLength)));
      ASSERT_TRUE(same_bits(run(stored, x, kBatch, kLength), whole)) << to_string(profile);
      ASSERT_TRUE(same_bits(run_split(stored, x, kBatch, {5, 1, 1, 6}, kLength), whole));
    }
  }
}

// Vectors stay as they are, matrices do not: they cannot be held in fewer bits.
TEST_P(StoredWeights, OnlyMatricesAreRounded) {
  BlockCase c = option_cases().front();
  c.options.weight_format = GetParam();
  c.options.qkv_bias = true;
  const TransformerBlock stored = c.block();
  EXPECT_EQ(stored.options().weight_format, GetParam());
  synthetic::Weights given = c.weights();
  for (const std::string& name : stored.weight_names())
    EXPECT_EQ(same_bits(stored.weight(name), given.at(name)), stored.weight_shape(name).size() == 1) << name;
}

// Rows of one value, zero rows and subnormal rows.
TEST_P(StoredWeights, RowsOfEveryMagnitude) {
  BlockCase c = option_cases().front();
  c.options.weight_format = GetParam();
  synthetic::Weights weights = c.weights();
  std::vector<float>& up = weights.at("up_proj.weight");
  for (int64_t i = 0; i < 3 * c.d_model; ++i)
    up[static_cast<size_t>(i)] = i < c.d_model ? 0.0f : i < 2 * c.d_model ? 0x1p-149f : up[i] * 0x1p-130f;
  const TransformerBlock stored(weights.map, c.options);
  const std::vector<float> got = stored.weight("up_proj.weight");
  std::copy(got.begin(), got.end(), up.begin());
  TransformerOptions wide = c.options;
  wide.weight_format = WeightFormat::kFloat32;
  for (const std::string& name : stored.weight_names()) {
    const std::vector<float> values = stored.weight(name);
    std::copy(values.begin(), values.end(), weights.at(name).begin());
  }
  const std::vector<float> x = c.input(1, 9);
  EXPECT_TRUE(same_bits(run(stored, x, 1, 9), run({weights.map, wide}, x, 1, 9)));
}

INSTANTIATE_TEST_SUITE_P(Each, StoredWeights, ::testing::Values(WeightFormat::kBfloat16, WeightFormat::kInt8),
                         [](const auto& info) { return to_string(info.param); });

TEST(StoredWeightsBf16, AValueThatRoundsToInfinityIsRefusedByName) {
  BlockCase c = option_cases().front();
  synthetic::Weights weights = c.weights();
  weights.at("k_proj.weight")[3] = 3.4e38f;
  EXPECT_EQ(TransformerBlock(weights.map, c.options).d_model(), c.d_model);
  c.options.weight_format = WeightFormat::kBfloat16;
  expect_error<ValueError>([&] { TransformerBlock(weights.map, c.options); },
                           {"[TransformerBlock] k_proj.weight", "bfloat16"});
}

}  // namespace
}  // namespace isobit::testing

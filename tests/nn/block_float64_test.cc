// SPDX-License-Identifier: Apache-2.0
// Every option, and random combinations, against the same block in binary64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/bits.h"
#include "support/block_cases.h"
#include "support/float64_block.h"

namespace isobit::testing {
namespace {

void check_near(const BlockCase& c, int64_t length, double tolerance) {
  const TransformerBlock block = c.block();
  const std::vector<float> x = c.input(1, length);
  const std::vector<float> got = run(block, x, 1, length);
  synthetic::Weights weights = c.weights();
  for (const std::string& name : block.weight_names()) {  // as they are stored
    const std::vector<float> stored = block.weight(name);
    std::copy(stored.begin(), stored.end(), weights.at(name).begin());
  }
  const std::vector<double> expected = float64_block(block.options(), weights.map, x, length);
  double largest = 0.0;
  for (const double v : expected) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], tolerance * largest) << "index " << i;
}

class BlockFloat64 : public ::testing::TestWithParam<BlockCase> {};

double tolerance_of(NumericProfile profile) {
  return profile == NumericProfile::kFp32V1 ? 4e-6 : profile == NumericProfile::kFixed15V1 ? 4e-4 : 4e-2;
}

TEST_P(BlockFloat64, Near) { check_near(GetParam(), 40, tolerance_of(GetParam().options.numeric_profile)); }

// A test that cannot fail proves nothing: every option changes the result of a plain block of the same shape,
// so the comparisons above do see it.
TEST_P(BlockFloat64, ChangesTheResult) {
  const BlockCase& c = GetParam();
  if (c.name == "plain" || c.name == "dynamic") GTEST_SKIP() << "the default";
  const BlockCase base = option_cases().front();
  const std::vector<float> x = synthetic::values(7, 40 * 24);
  if (c.d_model != 24) GTEST_SKIP() << "another width";
  BlockCase same_seed = c;
  same_seed.seed = base.seed;
  EXPECT_FALSE(same_bits(run(same_seed.block(), x, 1, 40), run(base.block(), x, 1, 40)));
}

INSTANTIATE_TEST_SUITE_P(Each, BlockFloat64, ::testing::ValuesIn(option_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(BlockFloat64Random, Near) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("random_case(" + std::to_string(seed) + ")");
    check_near(random_case(seed), 25, 1e-5);
  }
}

// Over several blocks of 256 positions.
TEST(BlockFloat64Long, Near) {
  BlockCase c = option_cases().front();
  c.d_model = 8;
  c.options.n_heads = 2;
  c.options.n_kv_heads = 1;
  check_near(c, 800, 1e-5);
  c.options.window = 300;
  check_near(c, 800, 1e-5);
}

}  // namespace
}  // namespace isobit::testing

// SPDX-License-Identifier: Apache-2.0
// One sequence, one result: whole, in pieces, token by token, ragged, alone or in a batch of any order, under
// every instruction set and thread count, for every option and for random combinations of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/bits.h"
#include "support/block_cases.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

constexpr int64_t kBatch = 3, kLength = 21;

// Every way to compute the same three rows of 21 tokens.
void check_all_ways(const BlockCase& c) {
  const TransformerBlock block = c.block();
  const int64_t d = c.d_model;
  Random random(c.seed);
  const std::vector<float> x = c.input(kBatch, kLength);
  const std::vector<float> whole = run(block, x, kBatch, kLength);
  ASSERT_TRUE(std::all_of(whole.begin(), whole.end(), [](float v) { return std::isfinite(v); }));

  for (int i = 0; i < 3; ++i) {
    const std::vector<int64_t> parts = random.parts(kLength, 12);
    ASSERT_TRUE(same_bits(run_split(block, x, kBatch, parts, kLength + 5), whole)) << "in pieces";
  }
  const std::vector<int64_t> steps(kLength, 1);
  ASSERT_TRUE(same_bits(run_split(block, x, kBatch, steps, kLength), whole)) << "token by token";

  const auto row_of = [&](const std::vector<float>& all, int64_t row, int64_t n) {
    return std::vector<float>(all.begin() + row * kLength * d, all.begin() + (row * kLength + n) * d);
  };
  const std::vector<int64_t> lengths = {random.in(1, kLength), kLength, random.in(1, kLength)};
  const std::vector<float> ragged = run(block, x, kBatch, kLength, nullptr, lengths);
  for (int64_t row = 0; row < kBatch; ++row) {
    const int64_t n = lengths[static_cast<size_t>(row)];
    const std::vector<float> alone = run(block, row_of(x, row, n), 1, n);
    ASSERT_TRUE(same_bits(alone, row_of(whole, row, n))) << "row " << row << " alone";
    ASSERT_TRUE(same_bits(alone, row_of(ragged, row, n))) << "row " << row << " ragged";
    for (int64_t i = (row * kLength + n) * d; i < (row + 1) * kLength * d; ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(ragged[static_cast<size_t>(i)]), 0u) << "padding is +0";
  }
  std::vector<float> reversed, expected;
  for (int64_t row = kBatch - 1; row >= 0; --row) {
    const std::vector<float> in = row_of(x, row, kLength), out = row_of(whole, row, kLength);
    reversed.insert(reversed.end(), in.begin(), in.end());
    expected.insert(expected.end(), out.begin(), out.end());
  }
  ASSERT_TRUE(same_bits(run(block, reversed, kBatch, kLength), expected)) << "rows in another order";

  const RestoreRuntime restore;
  for (const std::string& isa : available_isas())
    for (const int threads : {1, 2, 3, 7}) {
      set_isa(isa);
      set_num_threads(threads);
      ASSERT_TRUE(same_bits(run(block, x, kBatch, kLength), whole)) << isa << ", " << threads << " threads";
      ASSERT_TRUE(same_bits(run_split(block, x, kBatch, {kLength - 2, 1, 1}, kLength), whole)) << isa;
    }
}

class Options : public ::testing::TestWithParam<BlockCase> {};

TEST_P(Options, AllWaysGiveTheSameBits) { check_all_ways(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Each, Options, ::testing::ValuesIn(option_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(RandomOptions, AllWaysGiveTheSameBits) {
  const uint64_t draws = long_tests() ? 400 : 30;
  for (uint64_t seed = 1; seed <= draws; ++seed) {
    SCOPED_TRACE("random_case(" + std::to_string(seed) + ")");
    ASSERT_NO_FATAL_FAILURE(check_all_ways(random_case(seed)));
  }
}

// Longer than a pass (512 tokens) and, with a window, than a ring, so that slots come round several times.
TEST(LongSequences, AllSplitsGiveTheSameBits) {
  for (const int64_t window : {0, 1, 30, 256, 300, 700}) {
    const BlockCase c = narrow_case(window);
    const TransformerBlock block = c.block();
    constexpr int64_t kLong = 2100;
    const std::vector<float> x = c.input(1, kLong);
    const std::vector<float> whole = run(block, x, 1, kLong);
    Random random(static_cast<uint64_t>(window));
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(same_bits(run_split(block, x, 1, random.parts(kLong, i == 0 ? 1000 : 400), kLong), whole))
          << "window " << window;
    ASSERT_TRUE(same_bits(run_split(block, x, 1, std::vector<int64_t>(kLong, 1), kLong), whole)) << "steps";
    // A batch cuts passes elsewhere.
    std::vector<float> pair = x;
    pair.insert(pair.end(), x.begin(), x.end());
    std::vector<float> twice = whole;
    twice.insert(twice.end(), whole.begin(), whole.end());
    ASSERT_TRUE(same_bits(run(block, pair, 2, kLong), twice)) << "window " << window;
    ASSERT_TRUE(same_bits(run_split(block, pair, 2, {900, 1, 700, 499}, kLong), twice))
        << "window " << window;
  }
}

TEST(LongSequences, EveryIsaAndThreadCount) {
  BlockCase c = option_cases().front();
  c.d_model = 8;
  c.options.n_heads = 2;
  c.options.n_kv_heads = 1;
  for (const int64_t window : {0, 270}) {  // several threads share the one kv head of the last tokens
    c.options.window = window;
    const TransformerBlock block = c.block();
    const std::vector<float> x = c.input(1, 900);
    const std::vector<float> whole = run(block, x, 1, 900);
    on_every_isa([&] { ASSERT_TRUE(same_bits(run_split(block, x, 1, {600, 294, 5, 1}, 900), whole)); });
  }
}

// The comparison of a step with the whole must notice a cache that is off by one unit in the last place.
TEST(StepVersusFull, NoticesOneUlpInTheCache) {
  const BlockCase c = option_cases().front();
  const TransformerBlock block = c.block();
  const std::vector<float> x = c.input(1, 12);
  const std::vector<float> whole = run(block, x, 1, 12);
  const std::vector<float> last = tokens(whole, 1, 12, 11, 12);
  int noticed = 0;
  for (const bool perturb_keys : {true, false}) {
    TransformerState state = block.allocate_state(1, 12);
    run(block, tokens(x, 1, 12, 0, 11), 1, 11, &state);
    const auto cache = perturb_keys ? state.k_cache() : state.v_cache();
    const std::vector<float> step = run(block, tokens(x, 1, 12, 11, 12), 1, 1, &state);
    EXPECT_TRUE(same_bits(step, last));
    state.set_cached_tokens(11);
    // A single ulp of one value can vanish in roundings further on; of a whole head's values it does not.
    for (int64_t i = 0; i < 11 * 6; ++i) {
      float& v = (*cache)[static_cast<size_t>(i)];
      v = std::bit_cast<float>(std::bit_cast<uint32_t>(v) + 1);
    }
    noticed += !same_bits(run(block, tokens(x, 1, 12, 11, 12), 1, 1, &state), last);
  }
  EXPECT_EQ(noticed, 2);
}

}  // namespace
}  // namespace isobit::testing

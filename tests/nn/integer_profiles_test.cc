// SPDX-License-Identifier: Apache-2.0
// Blocks of the integer profiles where caches matter: long sequences and rings, states that were made by hand
// or filled under another profile, calls that fail; and what the profiles leave alone.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "support/bits.h"
#include "support/block_cases.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

BlockCase narrow_case(NumericProfile profile, int64_t window) {
  BlockCase c = testing::narrow_case(window);
  c.options.numeric_profile = profile;
  return c;
}

class IntegerProfile : public ::testing::TestWithParam<NumericProfile> {};

TEST_P(IntegerProfile, LongSequencesInAllSplits) {
  for (const int64_t window : {0, 30, 300}) {
    const BlockCase c = narrow_case(GetParam(), window);
    const TransformerBlock block = c.block();
    constexpr int64_t kLong = 1500;
    const std::vector<float> x = c.input(1, kLong), whole = run(block, x, 1, kLong);
    Random random(static_cast<uint64_t>(window) + 1);
    ASSERT_TRUE(same_bits(run_split(block, x, 1, random.parts(kLong, 700), kLong), whole)) << window;
    ASSERT_TRUE(same_bits(run_split(block, x, 1, std::vector<int64_t>(kLong, 1), kLong), whole)) << window;
    on_every_isa([&] { ASSERT_TRUE(same_bits(run_split(block, x, 1, {1000, 499, 1}, kLong), whole)); });
  }
}

/// Asks whether a block takes a state of another profile.
void expect_refusal(const TransformerBlock& block, const std::vector<float>& x, TransformerState& state) {
  const NumericProfile before = state.numeric_profile();
  const int64_t cached = state.cached_tokens();
  const std::vector<float> keys = state.keys(), values = state.values();
  expect_error<ValueError>(
      [&] { run(block, x, 1, static_cast<int64_t>(x.size()) / block.d_model(), &state); },
      {"[TransformerBlock] state.numeric_profile",
       std::string("expected ") + to_string(block.options().numeric_profile),
       std::string("got ") + to_string(before)});
  EXPECT_EQ(state.numeric_profile(), before);
  EXPECT_EQ(state.cached_tokens(), cached);
  EXPECT_TRUE(same_bits(state.keys(), keys) && same_bits(state.values(), values));
}

// The key codes of a cache are a function of its float32 keys, however those came there.
TEST_P(IntegerProfile, StatesFromElsewhere) {
  const BlockCase c = narrow_case(GetParam(), 40);
  BlockCase plain = c;
  plain.options.numeric_profile = NumericProfile::kFp32V1;
  const TransformerBlock block = c.block(), float_block = plain.block();
  const std::vector<float> x = c.input(1, 60), first = tokens(x, 1, 60, 0, 50),
                           rest = tokens(x, 1, 60, 50, 60);
  TransformerState state = block.allocate_state(1, 60);
  run(block, first, 1, 50, &state);
  const auto keys = state.k_cache(), values = state.v_cache();
  const auto size = static_cast<int64_t>(keys->size());
  const std::vector<float> k(*keys), v(*values);
  TransformerState same(1, 1, 4, 60, k.data(), v.data(), size, 50, 40, GetParam());
  TransformerState unnamed(1, 1, 4, 60, k.data(), v.data(), size, 50, 40);
  expect_refusal(block, rest, unnamed);
  TransformerState copied = state.copy();
  EXPECT_EQ(copied.numeric_profile(), GetParam());
  expect_refusal(float_block, rest, copied);
  const std::vector<float> expected = run(block, rest, 1, 10, &state);
  ASSERT_TRUE(same_bits(run(block, rest, 1, 10, &same), expected));

  ASSERT_TRUE(same_bits(run(block, rest, 1, 10, &copied), expected));

  // An empty state is anybody's: used by the float32 block, emptied, and used by this one.
  TransformerState shared(1, 1, 4, 60, 40);
  run(float_block, first, 1, 50, &shared);
  EXPECT_EQ(shared.numeric_profile(), NumericProfile::kFp32V1);
  expect_refusal(block, rest, shared);
  shared.set_cached_tokens(0);
  run(block, first, 1, 50, &shared);
  EXPECT_EQ(shared.numeric_profile(), GetParam());
  ASSERT_TRUE(same_bits(run(block, rest, 1, 10, &shared), expected));
}

TEST_P(IntegerProfile, AFailedCallLeavesAnEmptyStatesProfile) {
  const BlockCase c = narrow_case(GetParam(), 0);
  const std::vector<float> bad(static_cast<size_t>(c.d_model), 3e38f);
  TransformerState state(1, 1, 4, 60);
  EXPECT_THROW(run(c.block(), bad, 1, 1, &state), NonFiniteError);
  EXPECT_EQ(state.numeric_profile(), NumericProfile::kFp32V1);
}

TEST_P(IntegerProfile, AnEditOfTheKeysIsHonoured) {
  const BlockCase c = narrow_case(GetParam(), 0);
  const TransformerBlock block = c.block();
  const std::vector<float> x = c.input(1, 20), rest = tokens(x, 1, 20, 15, 20);
  TransformerState state = block.allocate_state(1, 20), untouched = block.allocate_state(1, 20);
  for (TransformerState* s : {&state, &untouched}) run(block, tokens(x, 1, 20, 0, 15), 1, 15, s);
  const auto keys = state.k_cache();
  for (float& key : *keys) key = key * -0.5f;
  const std::vector<float> k(*keys), v(*state.v_cache());
  TransformerState rebuilt(1, 1, 4, 20, k.data(), v.data(), static_cast<int64_t>(k.size()), 15, 0,
                           GetParam());
  const std::vector<float> got = run(block, rest, 1, 5, &state);
  EXPECT_TRUE(same_bits(got, run(block, rest, 1, 5, &rebuilt)));
  EXPECT_FALSE(same_bits(got, run(block, rest, 1, 5, &untouched)));
}

TEST_P(IntegerProfile, AFailedCallLeavesARingAsItWas) {
  const BlockCase c = narrow_case(GetParam(), 100);
  const TransformerBlock block = c.block();
  constexpr int64_t kLong = 2200;
  const std::vector<float> x = c.input(1, kLong), whole = run(block, x, 1, kLong);
  TransformerState state = block.allocate_state(1, kLong);
  run(block, tokens(x, 1, kLong, 0, 1000), 1, 1000, &state);
  std::vector<float> bad = synthetic::values(5, 1100 * c.d_model);
  bad.back() = 1e30f;
  EXPECT_THROW(run(block, bad, 1, 1100, &state), NonFiniteError);
  const std::vector<float> rest = run(block, tokens(x, 1, kLong, 1000, kLong), 1, kLong - 1000, &state);
  EXPECT_TRUE(same_bits(rest, tokens(whole, 1, kLong, 1000, kLong)));
}

// weight() gives values that have the same codes: a block made of them is the same block.
TEST_P(IntegerProfile, WeightsMakeTheSameBlockAgain) {
  for (const float scale : {1.0f, 0x1p100f, 0x1p-120f, 0x1p-138f, 0x1p-145f})
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      BlockCase c = narrow_case(GetParam(), 0);
      c.d_model = 72;
      c.intermediate = 40;
      c.options.n_heads = 4;
      c.seed = seed;
      synthetic::Weights weights = c.weights();
      for (float& w : weights.at("up_proj.weight")) w *= scale;
      const TransformerBlock block(weights.map, c.options);
      for (const std::string& name : block.weight_names()) {
        const std::vector<float> values = block.weight(name);
        std::copy(values.begin(), values.end(), weights.at(name).begin());
      }
      const TransformerBlock again(weights.map, c.options);
      for (const std::string& name : block.weight_names())
        ASSERT_TRUE(same_bits(again.weight(name), block.weight(name))) << name << ", seed " << seed;
      const std::vector<float> x = c.input(1, 5);
      ASSERT_TRUE(same_bits(run(again, x, 1, 5), run(block, x, 1, 5))) << "seed " << seed;
    }
}

INSTANTIATE_TEST_SUITE_P(Each, IntegerProfile,
                         ::testing::Values(NumericProfile::kFixed15V1, NumericProfile::kInt8x32V1),
                         [](const auto& info) { return to_string(info.param); });

TEST(NumericProfileNames, AreReadAndRefused) {
  for (const NumericProfile p :
       {NumericProfile::kFp32V1, NumericProfile::kFixed15V1, NumericProfile::kInt8x32V1})
    EXPECT_EQ(parse_numeric_profile(to_string(p)), p);
  for (const char* name : {"int8_v1", "fixed15_int8_attention_v1"})
    expect_error<NotImplemented>([&] { parse_numeric_profile(name); },
                                 {name, "rejected", "perplexity", "fp32_v1, fixed15_v1, int8x32_v1"});
  expect_error<ValueError>([] { parse_numeric_profile("bf16"); },
                           {"numeric_profile", "fp32_v1, fixed15_v1, int8x32_v1", "'bf16'"});
}

TEST(Fixed15, RowsThatAreTooLongAreRefused) {
  BlockCase c = narrow_case(NumericProfile::kFixed15V1, 0);
  c.intermediate = 65536;
  EXPECT_EQ(c.block().intermediate(), 65536);
  c.intermediate = 65537;
  expect_error<ValueError>([&] { c.block(); }, {"[TransformerBlock] down_proj.weight", "65536", "65537"});
  c.options.numeric_profile = NumericProfile::kInt8x32V1;
  EXPECT_EQ(c.block().intermediate(), 65537);
}

}  // namespace
}  // namespace isobit::testing

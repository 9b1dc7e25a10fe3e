// SPDX-License-Identifier: Apache-2.0
// Every rule of a block's options, weights and calls: refused before any work, naming what was wrong.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "support/bits.h"
#include "support/block_cases.h"

namespace isobit::testing {
namespace {

BlockCase plain() { return option_cases().front(); }  // 4 heads, 2 kv heads, d_model 24, intermediate 40

using Change = std::function<void(BlockCase&, synthetic::Weights&)>;

template <typename Error = ValueError>
void expect_refused(const Change& change, std::initializer_list<std::string_view> parts) {
  BlockCase c = plain();
  synthetic::Weights w = c.weights();
  change(c, w);
  expect_error<Error>([&] { TransformerBlock(w.map, c.options); }, parts);
}

void option(const std::function<void(TransformerOptions&)>& change,
            std::initializer_list<std::string_view> parts) {
  expect_refused([&](BlockCase& c, synthetic::Weights&) { change(c.options); }, parts);
}

TEST(BlockOptions, DefaultsAreFilledIn) {
  BlockCase c = plain();
  c.options.n_kv_heads.reset();
  const TransformerBlock block = c.block();
  EXPECT_EQ(block.options().n_kv_heads, 4);
  EXPECT_EQ(block.options().head_dim, 6);
  EXPECT_EQ(block.options().rope_dim, 6);
  EXPECT_EQ(block.d_model(), 24);
  EXPECT_EQ(block.intermediate(), 40);
}

TEST(BlockOptions, Sizes) {
  option([](auto& o) { o.n_heads = 0; }, {"[TransformerBlock] n_heads", "positive", "0"});
  option([](auto& o) { o.n_heads = -4; }, {"n_heads", "-4"});
  option([](auto& o) { o.n_kv_heads = 0; }, {"n_kv_heads", "0"});
  option([](auto& o) { o.n_kv_heads = 3; }, {"[TransformerBlock] n_kv_heads", "divisor", "4", "3"});
  option([](auto& o) { o.n_heads = 5, o.n_kv_heads = 5; }, {"head_dim", "24"});
  option([](auto& o) { o.head_dim = 7; }, {"[TransformerBlock] head_dim", "even", "7"});
  option([](auto& o) { o.head_dim = -6; }, {"head_dim", "-6"});
  option([](auto& o) { o.head_dim = 514; }, {"head_dim", "512", "514"});
  option([](auto& o) { o.head_dim = std::numeric_limits<int64_t>::max() - 1; }, {"head_dim"});
  option([](auto& o) { o.window = -1; }, {"[TransformerBlock] window", "-1"});
  option([](auto& o) { o.max_positions = 0; }, {"max_positions", "0"});
  option([](auto& o) { o.rope_dim = 3; }, {"rope_dim", "even", "3"});
  option([](auto& o) { o.rope_dim = 8; }, {"rope_dim", "6", "8"});
}

TEST(BlockOptions, RealNumbersAreFiniteAndPositiveAsFloat32) {
  for (const double bad : {0.0, -1.0, 1e-60, 1e60, std::numeric_limits<double>::quiet_NaN()}) {
    option([bad](auto& o) { o.norm_eps = bad; }, {"[TransformerBlock] norm_eps", "finite"});
    option([bad](auto& o) { o.rope_theta = bad; }, {"[TransformerBlock] rope_theta", "finite"});
    option([bad](auto& o) { o.attn_softcap = bad; }, {"[TransformerBlock] attn_softcap", "finite"});
  }
}

TEST(BlockOptions, Combinations) {
  option([](auto& o) { o.norm_bias = true; }, {"norm_bias", "layernorm", "rmsnorm"});
  option([](auto& o) { o.norm = NormKind::kLayerNorm, o.qk_norm = true; }, {"qk_norm", "layernorm"});
}

TEST(BlockOptions, WeightsAreThereExactlyWhenTheirOptionIsOn) {
  for (const char* name :
       {"input_layernorm.weight", "post_attention_layernorm.weight", "q_proj.weight", "k_proj.weight",
        "v_proj.weight", "o_proj.weight", "gate_proj.weight", "up_proj.weight", "down_proj.weight"})
    expect_refused([name](auto&, auto& w) { w.map.erase(name); }, {"[TransformerBlock]", name});
  const std::vector<std::pair<std::string, Change>> optional = {
      {"q_proj.bias", [](auto& c, auto&) { c.options.qkv_bias = true; }},
      {"o_proj.bias", [](auto& c, auto&) { c.options.o_bias = true; }},
      {"up_proj.bias", [](auto& c, auto&) { c.options.mlp_bias = true; }},
      {"down_proj.bias", [](auto& c, auto&) { c.options.mlp_bias = true; }},
      {"gate_proj.bias", [](auto& c, auto&) { c.options.mlp_bias = true; }},
      {"q_norm.weight", [](auto& c, auto&) { c.options.qk_norm = true; }},
      {"k_norm.weight", [](auto& c, auto&) { c.options.qk_norm = true; }}};
  for (const auto& [name, switch_on] : optional) {
    BlockCase c = plain();
    synthetic::Weights none;
    switch_on(c, none);
    synthetic::Weights with = c.weights();
    EXPECT_NO_THROW(TransformerBlock(with.map, c.options));
    expect_error<ValueError>([&] { TransformerBlock(with.map, plain().options); },
                             {"[TransformerBlock]", "is off"});
    with.map.erase(name);
    expect_error<ValueError>([&] { TransformerBlock(with.map, c.options); }, {"[TransformerBlock] " + name});
  }
  expect_refused([](auto& c, auto&) { c.options.mlp = MlpKind::kGelu; }, {"gate_proj.weight", "mlp='gelu'"});
  expect_refused([](auto&, auto& w) { w.map["rotary.inv_freq"] = w.map["q_proj.weight"]; },
                 {"rotary.inv_freq", "unknown"});
}

TEST(BlockOptions, ShapesAndDtypes) {
  expect_refused(
      [](auto&, auto& w) {
        w.map["q_proj.weight"].shape = {24, 12};
      },
      {"q_proj.weight", "(24, 24)", "(24, 12)"});
  expect_refused([](auto&, auto& w) { w.map["k_proj.weight"].shape = {288}; }, {"k_proj.weight", "rank 2"});
  expect_refused(
      [](auto&, auto& w) {
        w.map["up_proj.weight"].shape = {24, 40};
      },
      {"up_proj.weight", "(40, 24)"});
  expect_refused(
      [](auto&, auto& w) {
        w.map["down_proj.weight"].shape = {40, 24};
      },
      {"down_proj.weight", "(24, 40)"});
  expect_refused([](auto&, auto& w) { w.map["input_layernorm.weight"].shape = {0}; },
                 {"input_layernorm.weight", "non-empty"});
  expect_refused<TypeError>([](auto&, auto& w) { w.map["o_proj.weight"].dtype = DType::F64; },
                            {"[TransformerBlock] o_proj.weight", "F64"});
}

TEST(BlockOptions, Calls) {
  BlockCase c = plain();
  c.options.max_positions = 10;
  const TransformerBlock block = c.block();
  const std::vector<float> x = c.input(2, 11);
  expect_error<ValueError>([&] { run(block, x, 2, 11); },
                           {"[TransformerBlock] length", "max_positions = 10", "11"});
  expect_error<ValueError>([&] { run(block, x, 0, 5); }, {"[TransformerBlock] input", "batch 0"});
  expect_error<ValueError>([&] { run(block, x, 2, 0); }, {"[TransformerBlock] input", "length 0"});
  expect_error<ValueError>([&] { block.allocate_state(1, 11); }, {"max_tokens", "10", "11"});
  EXPECT_NO_THROW(run(block, c.input(2, 10), 2, 10));
  TransformerState state = block.allocate_state(2, 10);
  const std::vector<int64_t> lengths = {2, 2};
  expect_error<ValueError>([&] { run(block, c.input(2, 2), 2, 2, &state, lengths); },
                           {"lengths", "no state"});
  const auto expect_state = [&](TransformerState other, std::initializer_list<std::string_view> parts) {
    expect_error<ValueError>([&] { run(block, c.input(2, 3), 2, 3, &other); }, parts);
    EXPECT_EQ(other.cached_tokens(), 0);
  };
  expect_state(TransformerState(1, 2, 6, 10), {"[TransformerBlock] state.batch_size", "2", "1"});
  expect_state(TransformerState(2, 1, 6, 10), {"state.n_kv_heads", "2", "1"});
  expect_state(TransformerState(2, 2, 8, 10), {"state.head_dim", "6", "8"});
  expect_state(TransformerState(2, 2, 6, 10, 4), {"state.window", "0", "4"});
  expect_state(TransformerState(2, 2, 6, 2), {"state", "room for 3", "0 of max_tokens = 2"});
}

TEST(BlockWeights, AreGivenBackAsTheyCame) {
  for (const BlockCase& c : option_cases()) {
    if (c.options.weight_format != WeightFormat::kFloat32) continue;
    if (c.options.numeric_profile != NumericProfile::kFp32V1) continue;
    synthetic::Weights given = c.weights();
    const TransformerBlock block(given.map, c.options);
    EXPECT_EQ(block.weight_names().size(), given.map.size());
    for (const std::string& name : block.weight_names()) {
      EXPECT_EQ(block.weight_shape(name), given.map.at(name).shape) << name;
      EXPECT_TRUE(same_bits(block.weight(name), given.at(name))) << name;
    }
    expect_error<ValueError>([&] { block.weight("nothing"); }, {"'nothing'"});
  }
}

}  // namespace
}  // namespace isobit::testing

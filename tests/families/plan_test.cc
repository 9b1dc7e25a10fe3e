// SPDX-License-Identifier: Apache-2.0
// What each family makes of its config: sizes, options, class defaults, windows, tensor names.
#include <algorithm>
#include <set>

#include "checkpoint/helpers.h"
#include "families/config_helpers.h"
#include "isobit/error.h"

namespace isobit {
namespace {

using testing::expect_error;
using testing::Fields;
using testing::reads;
using testing::small_plan;

// Decoders of transformer layers.
const std::vector<std::string> kAllTypes = {"llama", "mistral", "phi3", "qwen2", "qwen3", "smollm"};

std::vector<std::string> block_keys(const ModelPlan& plan, size_t layer) {
  std::vector<std::string> out;
  for (const WeightSource& weight : plan.layer_weights[layer]) out.push_back(weight.block_key);
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Families, KnownTypesAreSorted) {
  const std::vector<std::string> known = known_model_types();
  EXPECT_TRUE(std::is_sorted(known.begin(), known.end()));
  EXPECT_TRUE(std::includes(known.begin(), known.end(), kAllTypes.begin(), kAllTypes.end()));
}

TEST(Families, EveryDefaultIsFilledIn) {
  for (const std::string& type : kAllTypes) {
    const ModelPlan plan = small_plan(type, {{"head_dim", "8"}, {"sliding_window", "null"}});
    EXPECT_EQ(plan.model_type, type);
    EXPECT_EQ(plan.kind, "transformer");
    EXPECT_EQ(plan.n_layers, 4);
    EXPECT_EQ(plan.d_model, 64);
    EXPECT_EQ(plan.vocab_size, 100);
    EXPECT_EQ(plan.intermediate, 96);
    EXPECT_EQ(plan.n_heads, 8);
    EXPECT_EQ(plan.n_kv_heads, 2);
    EXPECT_EQ(plan.head_dim, 8);
    EXPECT_EQ(plan.max_position_embeddings, 512);
    EXPECT_FALSE(plan.tie_embeddings);
    EXPECT_EQ(plan.norm_eps, type == "phi3" ? 1e-5 : 1e-6);
    EXPECT_EQ(plan.embed_name, "model.embed_tokens.weight");
    EXPECT_EQ(plan.norm_name, "model.norm.weight");
    EXPECT_EQ(plan.head_name, "lm_head.weight");
    ASSERT_EQ(plan.layers.size(), 4u);
    ASSERT_EQ(plan.layer_weights.size(), 4u);
    for (const TransformerOptions& layer : plan.layers) {
      EXPECT_EQ(layer.n_heads, 8);
      EXPECT_EQ(layer.n_kv_heads, 2);
      EXPECT_EQ(layer.head_dim, 8);
      EXPECT_EQ(layer.rope_dim, 8);
      EXPECT_EQ(layer.window, 0);
      EXPECT_EQ(layer.rope_theta, 10000.0);
      EXPECT_FALSE(layer.rope_scaling.has_value());
      EXPECT_EQ(layer.max_positions, 512);
      EXPECT_EQ(layer.norm, NormKind::kRmsNorm);
      EXPECT_EQ(layer.norm_eps, plan.norm_eps);
      EXPECT_FALSE(layer.norm_bias || layer.o_bias || layer.mlp_bias);
      EXPECT_EQ(layer.mlp, MlpKind::kSwiGlu);
      EXPECT_EQ(layer.qkv_bias, type == "qwen2");
      EXPECT_EQ(layer.qk_norm, type == "qwen3");
      EXPECT_FALSE(layer.attn_softcap.has_value());
    }
  }
}

TEST(Families, AbsentHeadDim) {
  for (const std::string& type : kAllTypes) {
    EXPECT_EQ(small_plan(type).head_dim, type == "qwen3" ? 128 : 8) << type;
    EXPECT_EQ(small_plan(type, {{"head_dim", "null"}}).head_dim, 8) << type;
    EXPECT_EQ(small_plan(type, {{"head_dim", "32"}}).head_dim, 32) << type;
  }
}

TEST(Families, AbsentKeyValueHeads) {
  const Fields heads = {{"num_attention_heads", "32"}, {"hidden_size", "256"}};
  for (const std::string& type : kAllTypes) {
    Fields fields = heads;
    fields["num_key_value_heads"] = "";
    EXPECT_EQ(small_plan(type, fields).n_kv_heads, type == "mistral" ? 8 : 32) << type;
    fields["num_key_value_heads"] = "null";
    EXPECT_EQ(small_plan(type, fields).n_kv_heads, 32) << type;
  }
  expect_error<UnsupportedModel>(
      [] {
        small_plan("qwen2", {{"num_key_value_heads", ""}});
      },
      {"num_key_value_heads", "a divisor of num_attention_heads = 8", "absent means 32"});
}

TEST(Families, AbsentMaxPositions) {
  const std::map<std::string, int64_t> expected = {{"llama", 2048},  {"mistral", 131072}, {"phi3", 4096},
                                                   {"qwen2", 32768}, {"qwen3", 32768},    {"smollm", 2048}};
  for (const auto& [type, positions] : expected) {
    const ModelPlan plan = small_plan(type, {{"max_position_embeddings", ""}});
    EXPECT_EQ(plan.max_position_embeddings, positions) << type;
    EXPECT_EQ(plan.layers[0].max_positions, positions) << type;
  }
}

TEST(Families, MaxPositionsAreNotCapped) {
  EXPECT_EQ(small_plan("llama", {{"max_position_embeddings", "1048576"}}).layers[3].max_positions, 1048576);
}

TEST(Families, IntegerValuedFloats) {
  const ModelPlan plan = small_plan(
      "llama", {{"hidden_size", "64.0"}, {"rope_theta", "1000000"}, {"max_position_embeddings", "1e3"}});
  EXPECT_EQ(plan.d_model, 64);
  EXPECT_EQ(plan.layers[0].rope_theta, 1e6);
  EXPECT_EQ(plan.max_position_embeddings, 1000);
}

TEST(Families, NormEpsilonAndTying) {
  const ModelPlan plan = small_plan("llama", {{"rms_norm_eps", "1e-05"}, {"tie_word_embeddings", "true"}});
  EXPECT_EQ(plan.norm_eps, 1e-5);
  EXPECT_EQ(plan.layers[2].norm_eps, 1e-5);
  EXPECT_TRUE(plan.tie_embeddings);
}

/// vLLM issue 6758: a tied config whose file stores the head anyway. The head is named so that the loader can
/// look.
TEST(Families, ATiedHeadIsStillNamed) {
  EXPECT_TRUE(reads(small_plan("llama", {{"tie_word_embeddings", "true"}}), "lm_head.weight"));
}

TEST(Llama, Names) {
  const ModelPlan plan = small_plan("llama");
  const auto names = plan.checkpoint_names();
  EXPECT_EQ(names.size(), 3u + 4 * 9);
  EXPECT_EQ(names.front(), "model.embed_tokens.weight");
  EXPECT_EQ(names.back(), "lm_head.weight");
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const char* name :
       {"input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj",
        "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
    EXPECT_TRUE(reads(plan, "model.layers.3." + std::string(name) + ".weight")) << name;
  for (const WeightSource& weight : plan.layer_weights[1]) {
    EXPECT_EQ(weight.row_begin, 0);
    EXPECT_EQ(weight.row_end, -1);
    EXPECT_TRUE(weight.checkpoint_name.ends_with(weight.block_key)) << weight.checkpoint_name;
  }
}

TEST(Llama, AttentionBiasIsOnAllFourProjections) {
  const ModelPlan plan = small_plan("llama", {{"attention_bias", "true"}});
  EXPECT_TRUE(plan.layers[0].qkv_bias);
  EXPECT_TRUE(plan.layers[0].o_bias);
  EXPECT_FALSE(plan.layers[0].mlp_bias);
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
    EXPECT_TRUE(reads(plan, "model.layers.0.self_attn." + std::string(name) + ".bias")) << name;
  EXPECT_EQ(plan.layer_weights[0].size(), 9u + 4);
}

TEST(Llama, MlpBiasIsOnAllThreeMatrices) {
  const ModelPlan plan = small_plan("llama", {{"mlp_bias", "true"}});
  EXPECT_TRUE(plan.layers[0].mlp_bias);
  EXPECT_FALSE(plan.layers[0].qkv_bias);
  for (const char* name : {"gate_proj", "up_proj", "down_proj"})
    EXPECT_TRUE(reads(plan, "model.layers.0.mlp." + std::string(name) + ".bias")) << name;
  EXPECT_EQ(plan.layer_weights[0].size(), 9u + 3);
}

TEST(Llama, FieldsOfOtherFamiliesChangeNothing) {
  for (const char* factor : {"0.5", "2"}) {
    const ModelPlan plan = small_plan(
        "llama", {{"pretraining_tp", "2"}, {"partial_rotary_factor", factor}, {"some_new_field", "[1,{}]"}});
    EXPECT_EQ(plan.layers[0].window, 0);
    EXPECT_EQ(plan.layers[0].rope_dim, 8);
  }
}

TEST(Mistral, NemoHeadsNeedNotFillTheHiddenSize) {
  const ModelPlan plan = small_plan("mistral", {{"head_dim", "16"}});
  EXPECT_EQ(plan.n_heads * plan.head_dim, 128);
  EXPECT_EQ(plan.d_model, 64);
}

TEST(Mistral, Window) {
  const auto window = [](const std::string& value) {
    const ModelPlan plan = small_plan("mistral", {{"sliding_window", value}});
    for (const TransformerOptions& layer : plan.layers) EXPECT_EQ(layer.window, plan.layers[0].window);
    return plan.layers[0].window;
  };
  EXPECT_EQ(window(""), 4096);
  EXPECT_EQ(window("null"), 0);
  EXPECT_EQ(window("0"), 0);
  EXPECT_EQ(window("128"), 128);
  expect_error<UnsupportedModel>([&] { window("-1"); }, {"sliding_window", "got -1"});
  expect_error<UnsupportedModel>([&] { window("1.5"); }, {"sliding_window", "got 1.5"});
}

TEST(Mistral, NoBiasesAndLayerTypesIgnored) {
  const ModelPlan plan = small_plan(
      "mistral",
      {{"attention_bias", "true"}, {"sliding_window", "8"}, {"layer_types", R"(["full_attention"])"}});
  EXPECT_FALSE(plan.layers[0].qkv_bias);
  EXPECT_EQ(plan.layers[0].window, 8);
}

TEST(Qwen2, BiasesOnQkvOnly) {
  const ModelPlan plan = small_plan("qwen2", {{"attention_bias", "false"}});
  EXPECT_TRUE(plan.layers[0].qkv_bias);
  EXPECT_FALSE(plan.layers[0].o_bias);
  EXPECT_TRUE(reads(plan, "model.layers.0.self_attn.v_proj.bias"));
  EXPECT_FALSE(reads(plan, "model.layers.0.self_attn.o_proj.bias"));
}

TEST(Qwen3, NormsAndBiases) {
  const ModelPlan plan = small_plan("qwen3");
  EXPECT_TRUE(plan.layers[0].qk_norm);
  EXPECT_TRUE(reads(plan, "model.layers.2.self_attn.q_norm.weight"));
  EXPECT_TRUE(reads(plan, "model.layers.2.self_attn.k_norm.weight"));
  EXPECT_EQ(plan.layer_weights[0].size(), 11u);
  const ModelPlan biased = small_plan("qwen3", {{"attention_bias", "true"}});
  EXPECT_TRUE(biased.layers[0].qkv_bias && biased.layers[0].o_bias);
  EXPECT_TRUE(reads(biased, "model.layers.0.self_attn.o_proj.bias"));
}

class QwenWindows : public ::testing::TestWithParam<const char*> {
 protected:
  static std::vector<int64_t> windows(const Fields& fields) {
    std::vector<int64_t> out;
    for (const TransformerOptions& layer : small_plan(GetParam(), fields).layers) out.push_back(layer.window);
    return out;
  }
};

TEST_P(QwenWindows, FieldsAreIgnoredUnlessSwitchedOn) {
  const std::vector<int64_t> none(4, 0);
  EXPECT_EQ(windows({{"sliding_window", "32768"}, {"max_window_layers", "2"}}), none);
  EXPECT_EQ(windows({{"use_sliding_window", "false"}, {"sliding_window", "16"}, {"max_window_layers", "0"}}),
            none);
  EXPECT_EQ(windows({{"use_sliding_window", "true"}, {"sliding_window", "null"}, {"max_window_layers", "0"}}),
            none);
  EXPECT_EQ(windows({{"use_sliding_window", "true"}, {"sliding_window", "16"}}), none)
      << "28 layers are without";
}

TEST_P(QwenWindows, UpperLayersHaveThem) {
  const Fields fields = {
      {"use_sliding_window", "true"}, {"max_window_layers", "3"}, {"sliding_window", "16"}};
  EXPECT_EQ(windows(fields), (std::vector<int64_t>{0, 0, 0, 16}));
  EXPECT_EQ(windows({{"use_sliding_window", "true"}, {"max_window_layers", "1"}}),
            (std::vector<int64_t>{0, 4096, 4096, 4096}));
}

TEST_P(QwenWindows, LayerTypesBeatTheRule) {
  Fields fields = {
      {"use_sliding_window", "true"},
      {"max_window_layers", "0"},
      {"sliding_window", "16"},
      {"layer_types", R"(["sliding_attention","full_attention","attention","sliding_attention"])"}};
  EXPECT_EQ(windows(fields), (std::vector<int64_t>{16, 0, 0, 16}));
  fields["layer_types"] = R"(["full_attention"])";
  expect_error<UnsupportedModel>([&] { windows(fields); }, {"layer_types", "a list of 4 strings"});
  fields["layer_types"] = R"(["full_attention","full_attention","linear_attention","full_attention"])";
  expect_error<UnsupportedModel>([&] { windows(fields); },
                                 {"layer_types", "sliding_attention", "linear_attention"});
  fields["layer_types"] = R"(["sliding_attention","full_attention","attention","sliding_attention"])";
  fields["use_sliding_window"] = "false";
  expect_error<UnsupportedModel>([&] { windows(fields); }, {"layer_types", "use_sliding_window"});
}

INSTANTIATE_TEST_SUITE_P(Types, QwenWindows, ::testing::Values("qwen2", "qwen3"));

TEST(Phi3, FusedRows) {
  const ModelPlan plan = small_plan("phi3");
  const std::string layer = "model.layers.2.";
  std::map<std::string, WeightSource> weights;
  for (const WeightSource& weight : plan.layer_weights[2]) weights[weight.block_key] = weight;
  const auto expect_rows = [&](const std::string& key, const std::string& name, int64_t begin, int64_t end) {
    EXPECT_EQ(weights[key].checkpoint_name, layer + name) << key;
    EXPECT_EQ(weights[key].row_begin, begin) << key;
    EXPECT_EQ(weights[key].row_end, end) << key;
  };
  expect_rows("q_proj.weight", "self_attn.qkv_proj.weight", 0, 64);
  expect_rows("k_proj.weight", "self_attn.qkv_proj.weight", 64, 80);
  expect_rows("v_proj.weight", "self_attn.qkv_proj.weight", 80, 96);
  expect_rows("gate_proj.weight", "mlp.gate_up_proj.weight", 0, 96);
  expect_rows("up_proj.weight", "mlp.gate_up_proj.weight", 96, 192);
  expect_rows("o_proj.weight", "self_attn.o_proj.weight", 0, -1);
  expect_rows("down_proj.weight", "mlp.down_proj.weight", 0, -1);
  EXPECT_EQ(block_keys(plan, 2), block_keys(small_plan("llama"), 2));
  EXPECT_EQ(plan.checkpoint_names().size(), 3u + 4 * 6) << "a fused matrix is named once";
}

TEST(Phi3, Window) {
  EXPECT_EQ(small_plan("phi3").layers[0].window, 0);
  EXPECT_EQ(small_plan("phi3", {{"sliding_window", "2047"}}).layers[3].window, 2047);
  EXPECT_EQ(small_plan("phi3", {{"sliding_window", "null"}}).layers[3].window, 0);
}

}  // namespace
}  // namespace isobit

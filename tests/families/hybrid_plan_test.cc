// SPDX-License-Identifier: Apache-2.0
// Configs of hybrids: which layer is what, the defaults of absent fields, the names, and each refusal.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/helpers.h"
#include "families/config_helpers.h"
#include "isobit/error.h"

namespace isobit {
namespace {

using testing::expect_error;
using testing::Fields;
using testing::reads;
using testing::small_config;
using testing::small_plan;

const Fields kMixer = {{"mamba_n_heads", "16"}, {"mamba_d_state", "16"}};
const Fields kGranite = {{"num_local_experts", "0"}};
const Fields kNemotron = {{"hybrid_override_pattern", "\"M-*\""},
                          {"num_hidden_layers", ""},
                          {"mamba_num_heads", "16"},
                          {"mamba_head_dim", "8"}};
const Fields kZamba = {{"layers_block_type", R"(["mamba","hybrid","hybrid","hybrid"])"},
                       {"num_mem_blocks", "2"},
                       {"num_key_value_heads", ""}};

Fields with(Fields fields, const Fields& changes) {
  for (const auto& [field, value] : changes) fields[field] = value;
  return fields;
}

const Mamba2Options& mixer(const ModelPlan& plan, size_t layer = 0) {
  return std::get<Mamba2Options>(*plan.mamba_layers[layer]);
}

TEST(Bamba, KindsNamesAndDefaults) {
  const ModelPlan plan = small_plan("bamba", with(kMixer, {{"attn_layer_indices", "[1]"}}));
  EXPECT_EQ(plan.kind, "hybrid");
  EXPECT_TRUE(plan.is_mamba(0));
  EXPECT_FALSE(plan.is_mamba(1));
  EXPECT_EQ(plan.norm_eps, 1e-5);
  EXPECT_EQ(plan.layers[1].rope_dim, 4);  // half of each head, forced
  EXPECT_EQ(plan.mamba_shape.conv_channels, 128 + 2 * 16);
  EXPECT_TRUE(reads(plan, "model.layers.0.mamba.norm.weight"));
  EXPECT_TRUE(reads(plan, "model.layers.1.self_attn.q_proj.weight"));
  EXPECT_TRUE(reads(plan, "model.final_layernorm.weight"));
  EXPECT_TRUE(small_plan("bamba", kMixer).is_mamba(1));
}

TEST(Granite, KindsMultipliersAndRotation) {
  const ModelPlan plan = small_plan(
      "granitemoehybrid",
      with(with(kMixer, kGranite), {{"layer_types", R"(["mamba","attention","mamba","full_attention"])"},
                                    {"embedding_multiplier", "12"},
                                    {"logits_scaling", "8"},
                                    {"residual_multiplier", "0.25"},
                                    {"attention_multiplier", "0.125"}}));
  EXPECT_EQ(plan.intermediate, 1024);
  EXPECT_TRUE(plan.is_mamba(2));
  EXPECT_FALSE(plan.is_mamba(3));
  EXPECT_EQ(plan.layers[1].rope_dim, 0);
  EXPECT_EQ(plan.layers[1].attn_scale, 0.125);
  EXPECT_EQ(plan.embedding_multiplier, 12);
  EXPECT_EQ(plan.logits_divisor, 8);
  EXPECT_EQ(plan.multipliers.residual, 0.25);
  EXPECT_EQ(plan.norm_eps, 1e-6);
  EXPECT_TRUE(reads(plan, "model.layers.0.shared_mlp.input_linear.weight"));
  const ModelPlan rope = small_plan(
      "granitemoehybrid",
      with(with(kMixer, kGranite), {{"position_embedding_type", "\"rope\""}, {"rope_theta", "500"}}));
  EXPECT_EQ(rope.layers[0].rope_dim, 8);
  EXPECT_EQ(rope.layers[0].rope_theta, 500);
  EXPECT_EQ(rope.layers[0].attn_scale, 1);
  EXPECT_TRUE(rope.is_mamba(3));  // without layer_types all are
}

TEST(FalconH1, MultipliersAndDefaults) {
  const ModelPlan plain = small_plan("falcon_h1", with(kMixer, {{"num_key_value_heads", ""}}));
  EXPECT_EQ(plain.mamba_shape.channels, 1024);
  EXPECT_EQ(plain.n_kv_heads, 8);
  EXPECT_TRUE(mixer(plain).norm_before_gate);
  EXPECT_FALSE(reads(plain, "model.layers.0.mamba.norm.weight"));
  EXPECT_TRUE(plain.parts_of(3).attention_beside);
  EXPECT_EQ(plain.multipliers, Multipliers{});
  const ModelPlan plan = small_plan("falcon_h1", with(kMixer, {{"mamba_d_ssm", "null"},
                                                               {"mamba_rms_norm", "true"},
                                                               {"ssm_multipliers", "[1,2,3,4,5]"},
                                                               {"mlp_multipliers", "[6,7]"},
                                                               {"key_multiplier", "8"},
                                                               {"lm_head_multiplier", "9"}}));
  EXPECT_EQ(plan.mamba_shape.channels, 128);
  EXPECT_TRUE(reads(plan, "model.layers.0.mamba.norm.weight"));
  EXPECT_EQ(plan.multipliers.ssm, (std::array<double, 5>{1, 2, 3, 4, 5}));
  EXPECT_EQ(plan.multipliers.gate, 6);
  EXPECT_EQ(plan.multipliers.down, 7);
  EXPECT_EQ(plan.multipliers.key, 8);
  EXPECT_EQ(plan.logits_multiplier, 9);
}

TEST(NemotronH, OneMixerALayer) {
  const ModelPlan plan = small_plan("nemotron_h", kNemotron);
  EXPECT_EQ(plan.n_layers, 3);
  EXPECT_TRUE(plan.is_mamba(0));
  EXPECT_EQ(plan.parts_of(1), (LayerParts{.mixer = false, .mlp = true}));
  EXPECT_EQ(plan.parts_of(2), (LayerParts{.mixer = true, .mlp = false}));
  EXPECT_EQ(plan.head_dim, 128);
  EXPECT_EQ(plan.layers[2].rope_dim, 0);
  EXPECT_EQ(plan.layers[1].mlp, MlpKind::kRelu2);
  EXPECT_EQ(mixer(plan).n_groups, 8);
  EXPECT_EQ(mixer(plan).dt_min, 0);
  EXPECT_TRUE(reads(plan, "backbone.layers.1.mixer.up_proj.weight"));
  EXPECT_TRUE(reads(plan, "backbone.layers.2.mixer.o_proj.weight"));
  const ModelPlan listed =
      small_plan("nemotron_h", with(kNemotron, {{"layers_block_type", R"(["mlp","linear_attention"])"}}));
  EXPECT_EQ(listed.n_layers, 2);  // the list wins
  EXPECT_TRUE(listed.is_mamba(1));
}

TEST(Zamba2, BlocksTakeTurns) {
  const ModelPlan plan = small_plan("zamba2", kZamba);
  EXPECT_EQ(plan.parts_of(0).shared_block, -1);
  EXPECT_EQ(plan.parts_of(1).shared_block, 1);
  EXPECT_EQ(plan.parts_of(2).shared_block, 2);
  EXPECT_EQ(plan.parts_of(3).shared_block, 1);
  EXPECT_TRUE(plan.tie_embeddings);
  EXPECT_EQ(plan.head_dim, 16);
  EXPECT_EQ(plan.layers[0].rope_dim, 0);
  EXPECT_EQ(mixer(plan).dt_min, 0.001);
  EXPECT_EQ(mixer(plan).gated_norm_eps, 1e-5);
  const std::string second =
      "model.layers.2.shared_transformer.feed_forward.gate_up_proj_adapter_list.1.0.weight";
  EXPECT_TRUE(reads(plan, second));
  EXPECT_TRUE(
      reads(plan, "model.layers.1.shared_transformer.feed_forward.gate_up_proj_adapter_list.2.0.weight"));
  EXPECT_FALSE(reads(plan, "model.layers.3.shared_transformer.self_attn.q_proj.weight"));
  EXPECT_TRUE(reads(plan, "model.layers.3.mamba_decoder.mamba.in_proj.weight"));
  EXPECT_TRUE(reads(plan, "model.layers.0.mamba.in_proj.weight"));
}

// A plan that is not refused is one that the blocks take: the widths of heads of every family, swept.
TEST(Plans, AttentionIsEvenOrRefused) {
  const std::string samba = R"({"model_type":"samba","vocab":40,"n_layers":1,"layers":["attention"],)"
                            R"("intermediate":48,"n_heads":)";
  int plans = 0;
  const auto check = [&](const HFConfig& config) {
    try {
      const ModelPlan plan = plan_for(config);
      for (int64_t i = 0; i < plan.n_layers; ++i) {
        if (plan.is_mamba(i)) continue;
        const TransformerOptions& layer = plan.layers[static_cast<size_t>(i)];
        EXPECT_TRUE(layer.head_dim == plan.head_dim && plan.head_dim % 2 == 0 && plan.head_dim <= 512);
        EXPECT_TRUE(*layer.rope_dim % 2 == 0 && layer.rope_dim <= layer.head_dim);
      }
      ++plans;
    } catch (const UnsupportedModel&) {
    }
  };
  for (const std::string& type : known_model_types())
    for (const int heads : {1, 2, 4, 8})
      for (const int width : {1, 2, 3, 4, 6, 8, 10, 256, 512, 514, 1024}) {
        SCOPED_TRACE(type + ": " + std::to_string(heads) + " heads of " + std::to_string(width));
        const std::string d = std::to_string(heads * width);
        Fields fields = {{"hidden_size", d},
                         {"num_attention_heads", std::to_string(heads)},
                         {"num_key_value_heads", "1"},
                         {"pad_token_id", "0"}};
        const Fields& own = type == "nemotron_h"         ? kNemotron
                            : type == "zamba2"           ? kZamba
                            : type == "granitemoehybrid" ? kGranite
                                                         : Fields{};
        for (const Fields& more : {kMixer, own}) fields = with(fields, more);
        if (type == "samba")
          check(HFConfig::from_text(samba + std::to_string(heads) + ",\"d_model\":" + d + "}"));
        else
          check(small_config(type, fields));
      }
  EXPECT_GT(plans, 100);
}

struct Case {
  const char* type;
  Fields base;
  const char* field;
  const char* value;
  const char* part;
};

TEST(Hybrids, RefuseByField) {
  const Fields granite = with(kMixer, kGranite);
  const std::vector<Case> cases = {
      {"bamba", kMixer, "attn_layer_indices", "[4]", "attn_layer_indices"},
      {"bamba", kMixer, "mamba_n_heads", "5", "a divisor"},
      {"bamba", kMixer, "mamba_n_groups", "3", "a divisor"},
      {"bamba", kMixer, "mamba_d_head", "7", "mamba_d_head"},
      {"bamba", kMixer, "mamba_expand", "-1", "mamba_expand"},
      {"bamba", kMixer, "hidden_act", "\"gelu\"", "silu"},
      {"granitemoehybrid", granite, "num_local_experts", "", "no mixture of experts"},
      {"granitemoehybrid", granite, "num_local_experts", "1", "no mixture of experts"},
      {"granitemoehybrid", granite, "layer_types", R"(["mamba"])", "a list of 4"},
      {"granitemoehybrid", granite, "layer_types", R"(["mamba","x","mamba","mamba"])", "layer_types"},
      {"granitemoehybrid", granite, "position_embedding_type", "\"alibi\"", "rope"},
      {"granitemoehybrid", granite, "residual_multiplier", "0", "residual_multiplier"},
      {"granitemoehybrid", granite, "logits_scaling", "1e60", "logits_scaling"},
      {"granitemoehybrid", granite, "shared_intermediate_size", "0", "shared_intermediate_size"},
      {"falcon_h1", kMixer, "ssm_multipliers", "[1,2]", "a list of 5"},
      {"falcon_h1", kMixer, "mlp_multipliers", "[1,0]", "mlp_multipliers"},
      {"falcon_h1", kMixer, "mamba_d_ssm", "1000", "mamba_n_heads"},
      {"falcon_h1", kMixer, "key_multiplier", "null", "key_multiplier"},
      {"nemotron_h", kNemotron, "hybrid_override_pattern", "\"ME\"", "no mixture of experts"},
      {"nemotron_h", kNemotron, "hybrid_override_pattern", "\"MX\"", "mamba (M)"},
      {"nemotron_h", kNemotron, "hybrid_override_pattern", "\"--\"", "a mamba or attention layer"},
      {"nemotron_h", kNemotron, "hybrid_override_pattern", "", "the kinds of 1..4096 layers"},
      {"nemotron_h", kNemotron, "mlp_hidden_act", "\"silu\"", "relu2"},
      {"nemotron_h", kNemotron, "mamba_hidden_act", "\"gelu\"", "silu"},
      {"nemotron_h", kNemotron, "tie_word_embeddings", "true", "false"},
      {"nemotron_h", kNemotron, "mamba_n_groups", "3", "a divisor"},
      {"zamba2", kZamba, "layers_block_type", "", "the kind of each layer"},
      {"zamba2", kZamba, "layers_block_type", R"(["mamba","hybrid"])", "a list of 4"},
      {"zamba2", kZamba, "layers_block_type", R"(["mamba","attention","mamba","mamba"])", "hybrid"},
      {"zamba2", kZamba, "hidden_act", "\"silu\"", "gelu"},
      {"zamba2", kZamba, "use_long_context", "true", "false"},
      {"zamba2", kZamba, "tie_word_embeddings", "false", "true"},
      {"zamba2", kZamba, "num_attention_heads", "3", "a divisor of 2 * hidden_size"},
      {"zamba2", kZamba, "num_attention_heads", "128", "a divisor of 2 * hidden_size"},
      {"bamba", kMixer, "num_attention_heads", "32", "rotated share, 1 of 2 dimensions"},
      {"zamba2", kZamba, "num_mem_blocks", "0", "num_mem_blocks"},
      {"zamba2", kZamba, "time_step_min", "-1", "time_step_min"},
      {"zamba2", with(kZamba, {{"num_key_value_heads", "4"}}), "use_shared_attention_adapter", "true",
       "num_key_value_heads"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.type) + " " + c.field + ": " + c.value);
    expect_error<UnsupportedModel>(
        [&] {
          small_plan(c.type, with(c.base, {{c.field, c.value}}));
        },
        {"[plan_for] ", c.part});
  }
}

}  // namespace
}  // namespace isobit

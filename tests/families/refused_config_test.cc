// SPDX-License-Identifier: Apache-2.0
// Configs that are refused, each with the field in the message.
#include "checkpoint/helpers.h"
#include "families/config_helpers.h"
#include "isobit/error.h"

namespace isobit {
namespace {

using testing::expect_error;
using testing::small_plan;

struct Refusal {
  const char* name;
  const char* field;
  const char* value;
  const char* part;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.field << ": " << refusal.value; }

class RefusedConfig : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedConfig, NamesTheFieldForEveryFamily) {
  const Refusal& param = GetParam();
  for (const std::string& type : known_model_types()) {
    // These have fields of their own: mamba_plan_test.cc, hybrid_plan_test.cc.
    if (type.find("amba") != type.npos || type.find("_h") != type.npos || type == "granitemoehybrid")
      continue;
    expect_error<UnsupportedModel>(
        [&] {
          small_plan(type, {{param.field, param.value}});
        },
        {"[plan_for] ", param.field, param.part});
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RefusedConfig,
    ::testing::Values(Refusal{"NoHiddenSize", "hidden_size", "", "got nothing"},
                      Refusal{"NullHiddenSize", "hidden_size", "null", "got null"},
                      Refusal{"NoLayers", "num_hidden_layers", "", "got nothing"},
                      Refusal{"NoHeads", "num_attention_heads", "", "got nothing"},
                      Refusal{"NoIntermediate", "intermediate_size", "", "got nothing"},
                      Refusal{"NoVocabulary", "vocab_size", "", "got nothing"},
                      Refusal{"ZeroHidden", "hidden_size", "0", "got 0"},
                      Refusal{"NegativeHeads", "num_attention_heads", "-8", "got -8"},
                      Refusal{"ZeroHeads", "num_attention_heads", "0", "got 0"},
                      Refusal{"ZeroLayers", "num_hidden_layers", "0", "got 0"},
                      Refusal{"TooManyLayers", "num_hidden_layers", "1000000", "1..4096"},
                      Refusal{"HugeVocabulary", "vocab_size", "2147483648", "1..2147483647"},
                      Refusal{"TextVocabulary", "vocab_size", "\"100\"", "an integer"},
                      Refusal{"BooleanVocabulary", "vocab_size", "true", "an integer"},
                      Refusal{"FractionVocabulary", "vocab_size", "99.5", "an integer"},
                      Refusal{"InfiniteVocabulary", "vocab_size", "Infinity", "got Infinity"},
                      Refusal{"OddHeadDim", "head_dim", "7", "an even number"},
                      Refusal{"HugeHeadDim", "head_dim", "16384", "got 16384"},
                      Refusal{"ZeroHeadDim", "head_dim", "0", "got 0"},
                      Refusal{"KvHeadsDoNotDivide", "num_key_value_heads", "3",
                              "a divisor of num_attention_heads = 8"},
                      Refusal{"MoreKvHeadsThanHeads", "num_key_value_heads", "16", "a divisor"},
                      Refusal{"ZeroKvHeads", "num_key_value_heads", "0", "got 0"},
                      Refusal{"ZeroMaxPositions", "max_position_embeddings", "0", "got 0"},
                      Refusal{"NullMaxPositions", "max_position_embeddings", "null", "got null"},
                      Refusal{"ZeroEpsilon", "rms_norm_eps", "0", "positive"},
                      Refusal{"NegativeEpsilon", "rms_norm_eps", "-1e-6", "positive"},
                      Refusal{"NaNEpsilon", "rms_norm_eps", "NaN", "got NaN"},
                      Refusal{"TextEpsilon", "rms_norm_eps", "\"1e-6\"", "positive"},
                      Refusal{"TieAsNumber", "tie_word_embeddings", "1", "true or false"},
                      Refusal{"Gelu", "hidden_act", "\"gelu\"", "\"silu\" or \"swish\""},
                      Refusal{"NullAct", "hidden_act", "null", "a string"},
                      Refusal{"Dropout", "attention_dropout", "0.1", "expected 0"},
                      Refusal{"DropoutAsText", "attention_dropout", "\"0\"", "expected 0"},
                      Refusal{"Quantized", "quantization_config", R"({"quant_method":"gptq"})", "gptq"},
                      Refusal{"LocalExperts", "num_local_experts", "8", "no mixture of experts"},
                      Refusal{"Experts", "num_experts", "64", "no mixture of experts"},
                      Refusal{"ExpertsPerToken", "num_experts_per_tok", "2", "no mixture of experts"},
                      Refusal{"RoutedExperts", "n_routed_experts", "256", "no mixture of experts"},
                      Refusal{"TextConfig", "text_config", R"({"hidden_size":64})", "a text model"}),
    [](const auto& info) { return std::string(info.param.name); });

struct Foreign {
  const char* name;
  const char* field;
  const char* changing;
  const char* neutral;
};

void PrintTo(const Foreign& foreign, std::ostream* out) { *out << foreign.field; }

class ForeignField : public ::testing::TestWithParam<Foreign> {};

TEST_P(ForeignField, IsRefusedUnlessNeutral) {
  const Foreign& param = GetParam();
  for (const std::string type : {"llama", "smollm", "mistral", "qwen2", "qwen3", "phi3"}) {
    const testing::Fields base = {{"head_dim", "8"}};
    const auto plan_with = [&](const char* value) {
      testing::Fields fields = base;
      fields[param.field] = value;
      return small_plan(type, fields);
    };
    expect_error<UnsupportedModel>([&] { plan_with(param.changing); },
                                   {"[plan_for] ", param.field, "for " + type + " does not use it"});
    EXPECT_EQ(plan_with("null").n_layers, 4);
    EXPECT_EQ(plan_with(param.neutral).n_layers, 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Fields, ForeignField,
                         ::testing::Values(Foreign{"AttentionCap", "attn_logit_softcapping", "50.0", "null"},
                                           Foreign{"FinalCap", "final_logit_softcapping", "30.0", "null"},
                                           Foreign{"QueryScale", "query_pre_attn_scalar", "256", "null"},
                                           Foreign{"Clip", "clip_qkv", "8", "null"},
                                           Foreign{"LogitScale", "logit_scale", "0.0625", "1"},
                                           Foreign{"Embedding", "embedding_multiplier", "12", "1.0"},
                                           Foreign{"Logits", "logits_scaling", "8", "1"},
                                           Foreign{"Residual", "residual_multiplier", "0.22", "1.0"},
                                           Foreign{"Attention", "attention_multiplier", "0.0078125", "null"},
                                           Foreign{"Key", "key_multiplier", "0.5", "1"},
                                           Foreign{"MlpMultipliers", "mlp_multipliers", "[1, 2]", "null"},
                                           Foreign{"QkNorm", "use_qk_norm", "true", "false"},
                                           Foreign{"Parallel", "use_parallel_residual", "true", "false"},
                                           Foreign{"Alibi", "alibi", "true", "false"},
                                           Foreign{"Text", "alibi", "\"false\"", "false"},
                                           Foreign{"Bidirectional", "use_bidirectional_attention", "true",
                                                   "false"},
                                           Foreign{"NoRope", "no_rope_layers", "[1, 0]", "null"},
                                           Foreign{"RotaryPart", "rotary_pct", "0.25", "1"},
                                           Foreign{"Latent", "kv_lora_rank", "512", "null"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ForeignWindow, IsRefusedUnlessNeutral) {
  const auto plan_with = [](testing::Fields fields) { return small_plan("llama", fields); };
  for (const char* value : {"\"x\"", "16", "511", "-1", "true", "[4]"})
    expect_error<UnsupportedModel>([&] { plan_with({{"sliding_window", value}}); }, {"sliding_window"});
  for (const char* value : {"null", "0", "512", "4096"})
    EXPECT_EQ(plan_with({{"sliding_window", value}}).layers[0].window, 0);
  EXPECT_EQ(plan_with({{"sliding_window", "16"}, {"use_sliding_window", "false"}}).layers[0].window, 0);
}

TEST(Families, HarmlessValuesOfRefusedFields) {
  const ModelPlan plan = small_plan("llama", {{"num_local_experts", "null"},
                                              {"num_experts", "0"},
                                              {"num_experts_per_tok", "1"},
                                              {"quantization_config", "null"},
                                              {"attention_dropout", "0.0"},
                                              {"hidden_act", "\"swish\""}});
  EXPECT_EQ(plan.n_layers, 4);
}

TEST(Families, MatrixSizesAreBounded) {
  expect_error<UnsupportedModel>(
      [] {
        small_plan("llama",
                   {{"hidden_size", "1048576"}, {"intermediate_size", "2097152"}, {"head_dim", "8"}});
      },
      {"intermediate_size", "2^40 elements", "got 2097152"});
  expect_error<UnsupportedModel>(
      [] {
        small_plan("llama", {{"num_attention_heads", "1048576"},
                             {"num_key_value_heads", "1"},
                             {"hidden_size", "2147483647"},
                             {"head_dim", "4096"}});
      },
      {"num_attention_heads", "below 2^31"});
}

TEST(Families, UnknownTypesNameTheKnownOnes) {
  for (const std::string type : {"gemma2", "mixtral", "gpt2", "Llama", ""})
    expect_error<UnsupportedModel>(
        [&] { small_plan(type); },
        {"[plan_for] model_type", "one of bamba, falcon_h1, falcon_mamba, granitemoehybrid, llama, ",
         "got \"", type});
}

TEST(Families, MultimodalConfigsSayWhy) {
  expect_error<UnsupportedModel>(
      [] {
        small_plan("mistral3", {{"text_config", R"({"model_type":"mistral"})"}});
      },
      {"model_type", "text_config", "got \"mistral3\""});
}

TEST(Families, UnsupportedModelIsAValueError) { EXPECT_THROW(small_plan("gemma"), ValueError); }

}  // namespace
}  // namespace isobit

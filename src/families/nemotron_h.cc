// SPDX-License-Identifier: Apache-2.0
// Nemotron-H without experts: every layer is a norm and one mixer, by hybrid_override_pattern (M, *, -) or
// layers_block_type: Mamba 2, attention without rotation, or an MLP with relu2 and no gate. The steps are
// limited by time_step_limit, as the models were trained; transformers limits a prompt's, and only those, by
// time_step_min.
#include "families/decoder.h"
#include "families/hybrid.h"
#include "families/registry.h"

namespace isobit::families {
namespace {

constexpr int64_t kMaxLayers = 4096;

enum class Kind { kMamba, kAttention, kMlp };

Kind kind_of(const ConfigFields& config, const char* field, const std::string& type) {
  if (type == "M" || type == "mamba" || type == "linear_attention") return Kind::kMamba;
  if (type == "*" || type == "attention" || type == "full_attention") return Kind::kAttention;
  if (type == "-" || type == "mlp") return Kind::kMlp;
  config.refuse(field, type == "E" || type == "moe" ? "no mixture of experts"
                                                    : "mamba (M), attention (*) or mlp (-) everywhere");
}

std::vector<Kind> read_kinds(const ConfigFields& config) {
  std::vector<Kind> kinds;
  for (const char* field : {"layers_block_type", "layer_types"}) {
    if (!config.has_value(field)) continue;
    for (const std::string& type : config.strings(field, config.length(field)))
      kinds.push_back(kind_of(config, field, type));
    break;
  }
  constexpr const char* kPattern = "hybrid_override_pattern";
  if (kinds.empty())
    for (const char letter : config.string_or(kPattern, ""))
      kinds.push_back(kind_of(config, kPattern, std::string(1, letter)));
  if (kinds.empty() || static_cast<int64_t>(kinds.size()) > kMaxLayers)
    config.refuse(kPattern, "the kinds of 1.." + std::to_string(kMaxLayers) + " layers");
  bool carries = false;
  for (const Kind kind : kinds) carries = carries || kind != Kind::kMlp;
  if (!carries) config.refuse(kPattern, "a mamba or attention layer");
  return kinds;
}

void refuse_unsupported(const ConfigFields& config) {
  if (config.string_or("mlp_hidden_act", "relu2") != "relu2") config.refuse("mlp_hidden_act", "\"relu2\"");
  if (config.string_or("mamba_hidden_act", "silu") != "silu") config.refuse("mamba_hidden_act", "\"silu\"");
  if (config.flag_or("tie_word_embeddings", false)) config.refuse("tie_word_embeddings", "false");
}

}  // namespace

ModelPlan plan_nemotron_h(const ConfigFields& config) {
  refuse_unsupported(config);
  const std::vector<Kind> kinds = read_kinds(config);
  ModelPlan plan = read_decoder(config, {.n_kv_heads = 8,
                                         .head_dim = 128,
                                         .norm_eps = 1e-5,
                                         .max_position_embeddings = 4096,
                                         .eps_field = "layer_norm_epsilon",
                                         .intermediate = 21504,
                                         .n_layers = static_cast<int64_t>(kinds.size()),
                                         .own_experts = true});
  const MixerFields fields = {.heads = "mamba_num_heads",
                              .head_dim = "mamba_head_dim",
                              .groups = config.has("mamba_n_groups") ? "mamba_n_groups" : "n_groups",
                              .default_groups = 8,
                              .states = "ssm_state_size",
                              .default_states = 128,
                              .width = config.has("mamba_d_conv") ? "mamba_d_conv" : "conv_kernel"};
  const int64_t channels =
      config.integer_or(fields.heads, 128, 1, 1 << 20) * config.integer_or(fields.head_dim, 64, 1, 1 << 11);
  const Mamba2Options mixer = read_mixer(config, fields, channels, plan);
  const bool bias = config.flag_or("use_bias", false);
  const bool mlp_bias = config.flag_or("mlp_bias", false);
  const MixerTensors tensors = {
      .in_bias = bias, .out_bias = bias, .conv_bias = config.flag_or("use_conv_bias", true)};
  for (TransformerOptions& layer : plan.layers) {
    layer.rope_dim = 0;
    layer.mlp = MlpKind::kRelu2;
    layer.mlp_bias = mlp_bias;
  }
  plan.parts.resize(kinds.size());
  plan.layer_weights.resize(kinds.size());
  plan.embed_name = "backbone.embeddings.weight";
  plan.norm_name = "backbone.norm_f.weight";
  plan.head_name = "lm_head.weight";
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    const auto layer = static_cast<size_t>(i);
    LayerNames names(plan, i, "backbone.layers." + std::to_string(i) + ".");
    plan.parts[layer] = {.mixer = kinds[layer] != Kind::kMlp, .mlp = kinds[layer] == Kind::kMlp};
    if (kinds[layer] == Kind::kMamba) {
      plan.mamba_layers[layer] = mixer;
      names.one("block_norm.weight", "norm.weight");
      names.mixer("mixer.", tensors);
    } else if (kinds[layer] == Kind::kAttention) {
      names.one("input_layernorm.weight", "norm.weight");
      names.attention("mixer.", /*bias=*/false);
    } else {
      names.one("post_attention_layernorm.weight", "norm.weight");
      names.each("mixer.", {"up_proj.weight", "down_proj.weight"});
      names.each("mixer.", {"up_proj.bias", "down_proj.bias"}, mlp_bias);
    }
  }
  return plan;
}

}  // namespace isobit::families

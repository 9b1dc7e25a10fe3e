// SPDX-License-Identifier: Apache-2.0
// Granite 4 without experts: Mamba 2 layers and attention layers, by layer_types, each with a SwiGLU
// ("shared_mlp", gate and up fused), and Granite's four multipliers: of the embedding, of what is added to
// the residual, of the scores, and the divisor of the logits. Attention rotates only where
// position_embedding_type is "rope".
#include "families/decoder.h"
#include "families/hybrid.h"
#include "families/registry.h"

namespace isobit::families {
namespace {

constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;

/// Which layers attend.
std::vector<bool> read_layer_types(const ConfigFields& config, int64_t n_layers) {
  std::vector<bool> attends(static_cast<size_t>(n_layers), false);
  const char* field = config.has_value("layer_types") ? "layer_types" : "layers_block_type";
  if (!config.has_value(field)) return attends;
  const std::vector<std::string> types = config.strings(field, n_layers);
  for (size_t i = 0; i < types.size(); ++i) {
    attends[i] = types[i] == "attention" || types[i] == "full_attention";
    if (!attends[i] && types[i] != "mamba" && types[i] != "linear_attention")
      config.refuse(field, "\"mamba\" or \"attention\" everywhere");
  }
  return attends;
}

bool read_rotates(const ConfigFields& config) {
  constexpr const char* kField = "position_embedding_type";
  if (!config.has_value(kField)) return false;
  const std::string type = config.string_or(kField, "nope");
  if (type != "rope" && type != "nope") config.refuse(kField, "null, \"nope\" or \"rope\"");
  return type == "rope";
}

}  // namespace

ModelPlan plan_granitemoehybrid(const ConfigFields& config) {
  if (!config.is("num_local_experts", 0))
    config.refuse("num_local_experts", "0: no mixture of experts (absent means 8)");
  ModelPlan plan =
      read_decoder(config, {.max_position_embeddings = 2048, .intermediate = 11008, .own_experts = true});
  plan.intermediate = config.integer_or("shared_intermediate_size", 1024, 1, kMaxExtent / 2);
  const bool rotates = read_rotates(config);
  if (rotates) read_rope(config, {}, plan);
  plan.embedding_multiplier = config.positive_or("embedding_multiplier", 1);
  plan.logits_divisor = config.positive_or("logits_scaling", 1);
  plan.multipliers.residual = config.positive_or("residual_multiplier", 1);
  const Mamba2Options mixer =
      read_mixer(config, {}, read_expanded(config, "mamba_expand", plan.d_model), plan);
  const bool attention_bias = config.flag_or("attention_bias", false);
  const bool proj_bias = config.flag_or("mamba_proj_bias", false);
  const MixerTensors tensors = {
      .in_bias = proj_bias, .out_bias = proj_bias, .conv_bias = config.flag_or("mamba_conv_bias", true)};
  for (TransformerOptions& layer : plan.layers) {
    if (!rotates) layer.rope_dim = 0;
    layer.qkv_bias = layer.o_bias = attention_bias;
    layer.attn_scale = config.positive_or("attention_multiplier", 1);
  }
  add_outer_names(plan);
  const std::vector<bool> attends = read_layer_types(config, plan.n_layers);
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    LayerNames names(plan, i, layer_prefix(i));
    if (attends[static_cast<size_t>(i)]) {
      names.one("input_layernorm.weight", "input_layernorm.weight");
      names.attention("self_attn.", attention_bias);
    } else {
      plan.mamba_layers[static_cast<size_t>(i)] = mixer;
      names.one("block_norm.weight", "input_layernorm.weight");
      names.mixer("mamba.", tensors);
    }
    names.one("post_attention_layernorm.weight", "post_attention_layernorm.weight");
    names.rows("gate_proj.weight", "shared_mlp.input_linear.weight", 0, plan.intermediate);
    names.rows("up_proj.weight", "shared_mlp.input_linear.weight", plan.intermediate, 2 * plan.intermediate);
    names.one("down_proj.weight", "shared_mlp.output_linear.weight");
  }
  return plan;
}

}  // namespace isobit::families

// SPDX-License-Identifier: Apache-2.0
// Falcon-H1: in every layer a Mamba 2 mixer and attention read the same normed input and their results are
// added; then a SwiGLU. Multipliers stand before and behind both, on the keys, on each part of in_proj's
// output, in the MLP, on the embedding and on the logits. By default the mixer has no gated norm.
#include <algorithm>

#include "families/decoder.h"
#include "families/hybrid.h"
#include "families/registry.h"

namespace isobit::families {
namespace {

constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;

void read_multipliers(const ConfigFields& config, ModelPlan& plan) {
  plan.embedding_multiplier = config.positive_or("embedding_multiplier", 1);
  plan.logits_multiplier = config.positive_or("lm_head_multiplier", 1);
  Multipliers& m = plan.multipliers;
  m.attention_in = config.positive_or("attention_in_multiplier", 1);
  m.attention_out = config.positive_or("attention_out_multiplier", 1);
  m.key = config.positive_or("key_multiplier", 1);
  m.ssm_in = config.positive_or("ssm_in_multiplier", 1);
  m.ssm_out = config.positive_or("ssm_out_multiplier", 1);
  if (config.has_value("ssm_multipliers")) {
    const std::vector<double> parts = config.positives("ssm_multipliers", 5);
    std::copy(parts.begin(), parts.end(), m.ssm.begin());
  }
  if (config.has_value("mlp_multipliers")) {
    const std::vector<double> both = config.positives("mlp_multipliers", 2);
    m.gate = both[0];
    m.down = both[1];
  }
}

int64_t read_channels_of_mixer(const ConfigFields& config, int64_t d_model) {
  if (config.has("mamba_d_ssm") && !config.has_value("mamba_d_ssm"))
    return read_expanded(config, "mamba_expand", d_model);
  return config.integer_or("mamba_d_ssm", 1024, 1, kMaxExtent);
}

}  // namespace

ModelPlan plan_falcon_h1(const ConfigFields& config) {
  ModelPlan plan = read_decoder(
      config, {.n_kv_heads = 8, .norm_eps = 1e-5, .max_position_embeddings = 8192, .intermediate = 14336});
  read_rope(config, {}, plan);
  read_multipliers(config, plan);
  Mamba2Options mixer = read_mixer(config, {}, read_channels_of_mixer(config, plan.d_model), plan);
  mixer.norm_before_gate = config.flag_or("mamba_norm_before_gate", true);
  const bool attention_bias = config.flag_or("attention_bias", false);
  const bool mlp_bias = config.flag_or("mlp_bias", false);
  const MixerTensors tensors = {.in_bias = config.flag_or("mamba_proj_bias", false),
                                .out_bias = config.flag_or("projectors_bias", false),
                                .conv_bias = config.flag_or("mamba_conv_bias", true),
                                .gated_norm = config.flag_or("mamba_rms_norm", false)};
  for (TransformerOptions& layer : plan.layers) layer.qkv_bias = layer.o_bias = attention_bias;
  plan.parts.assign(plan.layers.size(), {.attention_beside = true});
  add_outer_names(plan);
  plan.norm_name = "model.final_layernorm.weight";
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    plan.mamba_layers[static_cast<size_t>(i)] = mixer;
    LayerNames names(plan, i, layer_prefix(i));
    names.one("block_norm.weight", "input_layernorm.weight");
    names.mixer("mamba.", tensors);
    names.attention("self_attn.", attention_bias);
    names.mlp("pre_ff_layernorm.weight", "feed_forward.", mlp_bias);
  }
  return plan;
}

}  // namespace isobit::families

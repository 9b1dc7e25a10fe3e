// SPDX-License-Identifier: Apache-2.0
// Bamba: Mamba 2 layers and, at attn_layer_indices, attention with rotation of half of each head; every layer
// has a SwiGLU behind its mixer.
#include <algorithm>

#include "families/decoder.h"
#include "families/hybrid.h"
#include "families/registry.h"

namespace isobit::families {

ModelPlan plan_bamba(const ConfigFields& config) {
  ModelPlan plan =
      read_decoder(config, {.n_kv_heads = 8, .norm_eps = 1e-5, .max_position_embeddings = 262144});
  read_rope(config, {.fixed_share = 0.5}, plan);
  const Mamba2Options mixer =
      read_mixer(config, {}, read_expanded(config, "mamba_expand", plan.d_model), plan);
  const bool attention_bias = config.flag_or("attention_bias", false);
  const bool proj_bias = config.flag_or("mamba_proj_bias", false);
  const bool mlp_bias = config.flag_or("mlp_bias", false);
  const MixerTensors tensors = {
      .in_bias = proj_bias, .out_bias = proj_bias, .conv_bias = config.flag_or("mamba_conv_bias", true)};
  for (TransformerOptions& layer : plan.layers) {
    layer.qkv_bias = layer.o_bias = attention_bias;
    layer.mlp_bias = mlp_bias;
  }
  add_outer_names(plan);
  plan.norm_name = "model.final_layernorm.weight";
  const std::vector<int64_t> attention = config.integers("attn_layer_indices", 0, plan.n_layers - 1);
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    LayerNames names(plan, i, layer_prefix(i));
    if (std::find(attention.begin(), attention.end(), i) != attention.end()) {
      names.one("input_layernorm.weight", "input_layernorm.weight");
      names.attention("self_attn.", attention_bias);
    } else {
      plan.mamba_layers[static_cast<size_t>(i)] = mixer;
      names.one("block_norm.weight", "input_layernorm.weight");
      names.mixer("mamba.", tensors);
    }
    names.mlp("pre_ff_layernorm.weight", "feed_forward.", mlp_bias);
  }
  return plan;
}

}  // namespace isobit::families

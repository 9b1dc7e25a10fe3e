// SPDX-License-Identifier: Apache-2.0
// Bamba: Mamba 2 layers and, at attn_layer_indices, attention with rotation of half of each head; every layer
// has a SwiGLU behind its mixer.
#include <algorithm>

#include "families/decoder.h"
#include "families/mamba.h"
#include "families/registry.h"

namespace isobit::families {
namespace {

Mamba2Options read_mixer(const ConfigFields& config, ModelPlan& plan) {
  Mamba2Options o;
  o.norm_eps = o.gated_norm_eps = plan.norm_eps;
  o.n_groups = config.integer_or("mamba_n_groups", 1, 1, 1 << 16);
  const auto [low, high] = config.limits_or("time_step_limit", {o.dt_min, o.dt_max});
  o.dt_min = low;
  o.dt_max = high;
  const int64_t channels = config.integer_or("mamba_expand", 2, 1, 64) * plan.d_model;
  const int64_t heads = config.integer_or("mamba_n_heads", 128, 1, 1 << 20);
  if (channels % heads != 0)
    config.refuse("mamba_n_heads", "a divisor of mamba_expand * hidden_size = " + std::to_string(channels));
  if (heads % o.n_groups != 0) config.refuse("mamba_n_groups", "a divisor of mamba_n_heads");
  const int64_t states = config.integer_or("mamba_d_state", 256, 1, 1 << 16);
  plan.mamba_shape = {.version = 2,
                      .channels = channels,
                      .states = states,
                      .conv_channels = channels + 2 * o.n_groups * states,
                      .conv_width = config.integer_or("mamba_d_conv", 4, 1, 1 << 16),
                      .heads = heads,
                      .head_dim = channels / heads};
  return o;
}

}  // namespace

ModelPlan plan_bamba(const ConfigFields& config) {
  ModelPlan plan =
      read_decoder(config, {.n_kv_heads = 8, .norm_eps = 1e-5, .max_position_embeddings = 262144});
  read_rope(config, {.partial = true}, plan);
  const Mamba2Options mixer = read_mixer(config, plan);
  const bool attention_bias = config.flag_or("attention_bias", false);
  const bool conv_bias = config.flag_or("mamba_conv_bias", true);
  const bool proj_bias = config.flag_or("mamba_proj_bias", false);
  const bool mlp_bias = config.flag_or("mlp_bias", false);
  for (TransformerOptions& layer : plan.layers) {
    layer.rope_dim = *layer.head_dim / 2;  // whatever the config says: the class forces it
    layer.qkv_bias = layer.o_bias = attention_bias;
    layer.mlp_bias = mlp_bias;
  }
  add_outer_names(plan);
  plan.norm_name = "model.final_layernorm.weight";
  plan.kind = "hybrid";
  plan.mamba_layers.resize(plan.layers.size());
  const std::vector<int64_t> attention = config.integers("attn_layer_indices", 0, plan.n_layers - 1);
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    const bool attends = std::find(attention.begin(), attention.end(), i) != attention.end();
    const std::string prefix = layer_prefix(i);
    std::vector<WeightSource>& weights = plan.layer_weights[static_cast<size_t>(i)];
    const auto add = [&](const std::string& group, std::initializer_list<const char*> keys,
                         bool there = true) {
      for (const char* key : keys)
        if (there) weights.push_back({key, prefix + group + key});
    };
    if (attends) {
      weights.push_back({"input_layernorm.weight", prefix + "input_layernorm.weight"});
      add("self_attn.", {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"});
      add("self_attn.", {"q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias"}, attention_bias);
    } else {
      plan.mamba_layers[static_cast<size_t>(i)] = mixer;
      weights.push_back({"block_norm.weight", prefix + "input_layernorm.weight"});
      add("mamba.",
          {"in_proj.weight", "conv1d.weight", "dt_bias", "A_log", "D", "norm.weight", "out_proj.weight"});
      add("mamba.", {"in_proj.bias", "out_proj.bias"}, proj_bias);
      add("mamba.", {"conv1d.bias"}, conv_bias);
    }
    weights.push_back({"post_attention_layernorm.weight", prefix + "pre_ff_layernorm.weight"});
    add("feed_forward.", {"gate_proj.weight", "up_proj.weight", "down_proj.weight"});
    add("feed_forward.", {"gate_proj.bias", "up_proj.bias", "down_proj.bias"}, mlp_bias);
  }
  return plan;
}

}  // namespace isobit::families

// SPDX-License-Identifier: Apache-2.0
#include "families/hybrid.h"

#include <cmath>

namespace isobit::families {
namespace {

constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;

}  // namespace

int64_t read_expanded(const ConfigFields& config, const char* field, int64_t d_model) {
  const double channels = std::trunc(config.positive_or(field, 2) * static_cast<double>(d_model));
  if (!(channels >= 1) || channels > static_cast<double>(kMaxExtent))
    config.refuse(field, std::string(field) + " * hidden_size in 1..2^31 - 1");
  return static_cast<int64_t>(channels);
}

Mamba2Options read_mixer(const ConfigFields& config, const MixerFields& fields, int64_t channels,
                         ModelPlan& plan) {
  Mamba2Options o;
  o.norm_eps = o.gated_norm_eps = plan.norm_eps;
  o.n_groups = config.integer_or(fields.groups, fields.default_groups, 1, 1 << 16);
  const auto [low, high] = config.limits_or("time_step_limit", {o.dt_min, o.dt_max});
  o.dt_min = low;
  o.dt_max = high;
  const int64_t heads = config.integer_or(fields.heads, fields.default_heads, 1, 1 << 20);
  if (channels % heads != 0)
    config.refuse(fields.heads, "a divisor of the " + std::to_string(channels) + " channels of the mixers");
  if (heads % o.n_groups != 0) config.refuse(fields.groups, std::string("a divisor of ") + fields.heads);
  const bool given = config.has_value(fields.head_dim) && config.shown(fields.head_dim) != "\"auto\"";
  if (given && config.integer(fields.head_dim, 1, kMaxExtent) * heads != channels)
    config.refuse(fields.head_dim, std::to_string(channels / heads) + ", the channels of a head");
  const int64_t states = config.integer_or(fields.states, fields.default_states, 1, 1 << 16);
  plan.mamba_shape = {.version = 2,
                      .channels = channels,
                      .states = states,
                      .conv_channels = channels + 2 * o.n_groups * states,
                      .conv_width = config.integer_or(fields.width, 4, 1, 1 << 16),
                      .heads = heads,
                      .head_dim = channels / heads};
  plan.kind = "hybrid";
  plan.mamba_layers.resize(plan.layers.size());
  return o;
}

void LayerNames::each(const std::string& group, std::initializer_list<const char*> keys, bool there) {
  for (const char* key : keys)
    if (there) one(key, group + key);
}

void LayerNames::mixer(const std::string& group, const MixerTensors& tensors) {
  each(group, {"in_proj.weight", "conv1d.weight", "dt_bias", "A_log", "D", "out_proj.weight"});
  each(group, {"norm.weight"}, tensors.gated_norm);
  each(group, {"conv1d.bias"}, tensors.conv_bias);
  each(group, {"in_proj.bias"}, tensors.in_bias);
  each(group, {"out_proj.bias"}, tensors.out_bias);
}

void LayerNames::attention(const std::string& group, bool bias) {
  each(group, {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"});
  each(group, {"q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias"}, bias);
}

void LayerNames::mlp(const std::string& norm, const std::string& group, bool bias) {
  one("post_attention_layernorm.weight", norm);
  each(group, {"gate_proj.weight", "up_proj.weight", "down_proj.weight"});
  each(group, {"gate_proj.bias", "up_proj.bias", "down_proj.bias"}, bias);
}

}  // namespace isobit::families

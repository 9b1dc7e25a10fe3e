// SPDX-License-Identifier: Apache-2.0
// Mamba 1, 2 and 3 in the format of the mamba_ssm package, whose config names no model type: d_model,
// n_layer, vocab_size and ssm_cfg, the arguments of the layer. Layers of attention and MLPs in between are
// not read.
#include "families/mamba.h"
#include "families/registry.h"

namespace isobit::families {
namespace {

constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;

struct Mixer {
  MambaOptions options;
  MambaShape shape;
  MambaNames names;
};

void refuse_unsupported(const ConfigFields& config) {
  if (config.has_value("d_intermediate") && !config.is("d_intermediate", 0))
    config.refuse("d_intermediate", "0: layers without an MLP");
  if (config.has_value("attn_layer_idx") && !config.strings("attn_layer_idx", 0).empty())
    config.refuse("attn_layer_idx", "no attention layers");
  if (!config.flag_or("rms_norm", true)) config.refuse("rms_norm", "true");
}

int64_t read_heads(const ConfigFields& layer, int64_t channels, int64_t head_dim) {
  if (channels % head_dim != 0)
    layer.refuse("headdim", "a divisor of expand * d_model = " + std::to_string(channels));
  return channels / head_dim;
}

Mixer read_mamba1(const ConfigFields& layer, int64_t channels) {
  return {Mamba1Options{},
          {.version = 1,
           .channels = channels,
           .states = layer.integer_or("d_state", 16, 1, 1 << 16),
           .conv_channels = channels,
           .conv_width = layer.integer_or("d_conv", 4, 1, 1 << 16)},
          {.conv_bias = layer.flag_or("conv_bias", true), .proj_bias = layer.flag_or("bias", false)}};
}

Mixer read_mamba2(const ConfigFields& layer, int64_t channels) {
  Mamba2Options o;
  o.n_groups = layer.integer_or("ngroups", 1, 1, 1 << 16);
  o.norm_before_gate = layer.flag_or("norm_before_gate", false);
  const auto [low, high] = layer.limits_or("dt_limit", {o.dt_min, o.dt_max});
  o.dt_min = low;
  o.dt_max = high;
  if (layer.has_value("d_ssm") && !layer.is("d_ssm", static_cast<double>(channels)))
    layer.refuse("d_ssm", "expand * d_model = " + std::to_string(channels));
  if (layer.flag_or("D_has_hdim", false)) layer.refuse("D_has_hdim", "false");
  const int64_t head_dim = layer.integer_or("headdim", 64, 1, 1 << 20);
  const int64_t heads = read_heads(layer, channels, head_dim);
  if (heads % o.n_groups != 0)
    layer.refuse("ngroups", "a divisor of the " + std::to_string(heads) + " heads");
  const int64_t states = layer.integer_or("d_state", 128, 1, 1 << 16);
  return {o,
          {.version = 2,
           .channels = channels,
           .states = states,
           .conv_channels = channels + 2 * o.n_groups * states,
           .conv_width = layer.integer_or("d_conv", 4, 1, 1 << 16),
           .heads = heads,
           .head_dim = head_dim},
          {.conv_bias = layer.flag_or("conv_bias", true),
           .proj_bias = layer.flag_or("bias", false),
           .gated_norm = layer.flag_or("rmsnorm", true)}};
}

Mixer read_mamba3(const ConfigFields& layer, int64_t channels) {
  Mamba3Options o;
  o.rope_fraction = layer.positive_or("rope_fraction", 0.5);
  o.a_floor = layer.positive_or("A_floor", 1e-4);
  if (o.rope_fraction != 0.5 && o.rope_fraction != 1.0) layer.refuse("rope_fraction", "0.5 or 1.0");
  const int64_t head_dim = layer.integer_or("headdim", 64, 1, 1 << 20);
  const int64_t states = layer.integer_or("d_state", 128, 2, 1 << 16);
  const bool mimo = layer.flag_or("is_mimo", false);
  return {o,
          {.version = 3,
           .channels = channels,
           .states = states,
           .heads = read_heads(layer, channels, head_dim),
           .head_dim = head_dim,
           .rank = mimo ? layer.integer_or("mimo_rank", 4, 1, 64) : 1,
           .angles = static_cast<int64_t>(static_cast<double>(states) * o.rope_fraction) / 2},
          {.mimo = mimo, .output_norm = layer.flag_or("is_outproj_norm", false)}};
}

Mixer read_mixer(const ConfigFields& layer, int64_t d_model) {
  const int64_t channels = read_channels(layer, d_model);
  const std::string version = layer.string_or("layer", "Mamba1");
  if (version == "Mamba1") return read_mamba1(layer, channels);
  if (version == "Mamba2") return read_mamba2(layer, channels);
  if (version == "Mamba3") return read_mamba3(layer, channels);
  layer.refuse("layer", "\"Mamba1\", \"Mamba2\" or \"Mamba3\"");
}

}  // namespace

ModelPlan plan_mamba_ssm(const ConfigFields& config) {
  refuse_unsupported(config);
  ModelPlan plan;
  plan.d_model = config.integer("d_model", 1, kMaxExtent);
  plan.n_layers = config.integer("n_layer", 1, 4096);
  const int64_t multiple = config.integer_or("pad_vocab_size_multiple", 8, 1, 1 << 20);
  const int64_t vocab = config.integer("vocab_size", 1, kMaxExtent - (1 << 20));
  plan.vocab_size = (vocab + multiple - 1) / multiple * multiple;
  plan.norm_eps = 1e-5;
  plan.tie_embeddings = config.flag_or("tie_embeddings", true);
  plan.max_position_embeddings = kMaxExtent;
  const Mixer mixer = read_mixer(config.section("ssm_cfg"), plan.d_model);
  plan.kind = "mamba" + std::to_string(mixer.shape.version);
  plan.intermediate = mixer.shape.channels;
  plan.n_heads = plan.n_kv_heads = mixer.shape.heads;
  plan.head_dim = mixer.shape.head_dim;
  plan.mamba_layers.assign(static_cast<size_t>(plan.n_layers), mixer.options);
  plan.mamba_shape = mixer.shape;
  plan.embed_name = "backbone.embeddings.weight";  // its older spelling is found as well
  plan.norm_name = "backbone.norm_f.weight";
  plan.head_name = "lm_head.weight";
  add_mamba_names(plan, mixer.names);
  return plan;
}

}  // namespace isobit::families

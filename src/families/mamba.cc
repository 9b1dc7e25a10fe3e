// SPDX-License-Identifier: Apache-2.0
// Mamba 1 and Falcon Mamba in the Hugging Face format. Falcon Mamba normalises dt, B and C. time_step_min,
// _max and _floor are of the initialisation only.
#include "families/mamba.h"

#include <cmath>

#include "families/registry.h"

namespace isobit::families {
namespace {

constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;

ModelPlan plan_selective(const ConfigFields& config, const Mamba1Options& extra) {
  Mamba1Options options = extra;
  options.norm_eps = config.positive_or("layer_norm_epsilon", 1e-5);
  const int64_t d = config.integer_or("hidden_size", 768, 1, kMaxExtent);
  const int64_t channels = read_channels(config, d);
  const MambaShape shape = {.version = 1,
                            .channels = channels,
                            .states = config.integer_or("state_size", 16, 1, 1 << 16),
                            .conv_channels = channels,
                            .conv_width = config.integer_or("conv_kernel", 4, 1, 1 << 16)};
  ModelPlan plan = read_mamba(config, options, shape, /*tied_by_default=*/true);
  add_mamba_names(plan, {.conv_bias = config.flag_or("use_conv_bias", true),
                         .proj_bias = config.flag_or("use_bias", false)});
  return plan;
}

}  // namespace

int64_t read_channels(const ConfigFields& config, int64_t d_model) {
  const double channels = std::trunc(config.positive_or("expand", 2) * static_cast<double>(d_model));
  if (!(channels >= 1) || channels > static_cast<double>(kMaxExtent))
    config.refuse("expand", "expand * hidden_size in 1..2^31 - 1");
  return static_cast<int64_t>(channels);
}

ModelPlan read_mamba(const ConfigFields& config, const MambaOptions& options, const MambaShape& shape,
                     bool tied_by_default) {
  if (config.has_value("quantization_config"))
    config.refuse("quantization_config", "weights that are not quantized");
  const std::string act = config.string_or("hidden_act", "silu");
  if (act != "silu" && act != "swish") config.refuse("hidden_act", "\"silu\" or \"swish\"");
  ModelPlan plan;
  plan.kind = "mamba" + std::to_string(shape.version);
  plan.d_model = config.integer_or("hidden_size", shape.version == 1 ? 768 : 4096, 1, kMaxExtent);
  plan.n_layers = config.integer_or("num_hidden_layers", shape.version == 1 ? 32 : 64, 1, 4096);
  plan.vocab_size = config.integer_or("vocab_size", shape.version == 1 ? 50280 : 32768, 1, kMaxExtent);
  plan.norm_eps = config.positive_or("layer_norm_epsilon", 1e-5);
  plan.tie_embeddings = config.flag_or("tie_word_embeddings", tied_by_default);
  plan.max_position_embeddings = kMaxExtent;  // nothing depends on the position
  plan.intermediate = shape.channels;
  plan.n_heads = plan.n_kv_heads = shape.heads;
  plan.head_dim = shape.head_dim;
  plan.mamba_layers.assign(static_cast<size_t>(plan.n_layers), options);
  plan.mamba_shape = shape;
  plan.embed_name = "backbone.embeddings.weight";
  plan.norm_name = "backbone.norm_f.weight";
  plan.head_name = "lm_head.weight";
  return plan;
}

std::string mamba_prefix(int64_t layer) { return "backbone.layers." + std::to_string(layer) + "."; }

void add_mamba_names(ModelPlan& plan, const MambaNames& names) {
  const int version = plan.mamba_shape.version;
  plan.layer_weights.resize(static_cast<size_t>(plan.n_layers));
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    const std::string prefix = mamba_prefix(i);
    std::vector<WeightSource>& weights = plan.layer_weights[static_cast<size_t>(i)];
    weights.push_back({version == 1 ? "norm.weight" : "block_norm.weight", prefix + "norm.weight"});
    const auto add = [&](bool there, std::initializer_list<const char*> keys) {
      for (const char* key : keys)
        if (there) weights.push_back({key, prefix + "mixer." + key});
    };
    add(true, {"in_proj.weight"});
    add(names.proj_bias, {"in_proj.bias"});
    add(version < 3, {"conv1d.weight"});
    add(version < 3 && names.conv_bias, {"conv1d.bias"});
    add(version == 1, {"x_proj.weight", "dt_proj.weight", "dt_proj.bias"});
    add(version > 1, {"dt_bias"});
    add(version < 3, {"A_log"});
    add(version == 3, {"B_norm.weight", "C_norm.weight", "B_bias", "C_bias"});
    add(true, {"D"});
    add(version == 2 ? names.gated_norm : names.output_norm, {"norm.weight"});
    add(names.mimo, {"mimo_x", "mimo_z", "mimo_o"});
    add(true, {"out_proj.weight"});
    add(names.proj_bias, {"out_proj.bias"});
  }
}

ModelPlan plan_mamba(const ConfigFields& config) { return plan_selective(config, {}); }

ModelPlan plan_falcon_mamba(const ConfigFields& config) {
  Mamba1Options options;
  options.inner_norm = true;
  options.inner_norm_eps = config.positive_or("mixer_rms_eps", 1e-6);
  return plan_selective(config, options);
}

}  // namespace isobit::families

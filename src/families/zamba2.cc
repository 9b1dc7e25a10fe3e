// SPDX-License-Identifier: Apache-2.0
// Zamba 2: Mamba 2 in every layer, and at the "hybrid" ones a transformer block in front of it that reads the
// layer's input beside the embedding. num_mem_blocks such blocks take turns; each layer that uses one has
// adapters and an output projection of its own. Steps are at least time_step_min, in prefill and decode
// alike.
#include <cmath>

#include "families/decoder.h"
#include "families/hybrid.h"
#include "families/registry.h"

namespace isobit::families {
namespace {

constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;

/// The layers with a shared block, ascending.
std::vector<int64_t> read_hybrids(const ConfigFields& config, int64_t n_layers) {
  const char* field = config.has_value("layers_block_type") ? "layers_block_type" : "layer_types";
  std::vector<int64_t> hybrids;
  if (!config.has_value(field)) config.refuse("layers_block_type", "the kind of each layer");
  const std::vector<std::string> types = config.strings(field, n_layers);
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "hybrid") hybrids.push_back(static_cast<int64_t>(i));
    if (types[i] != "hybrid" && types[i] != "mamba" && types[i] != "linear_attention")
      config.refuse(field, "\"mamba\" or \"hybrid\" everywhere");
  }
  return hybrids;
}

void refuse_unsupported(const ConfigFields& config) {
  if (config.flag_or("use_long_context", false)) config.refuse("use_long_context", "false");
  // transformers then gives each layer a block of its own.
  if (!config.flag_or("tie_word_embeddings", true)) config.refuse("tie_word_embeddings", "true");
}

struct Shared {
  bool adapters;  // of q, k and v
  bool bias;
  int64_t intermediate;
};

/// The block's own weights, in the layer that uses it first.
void add_block(LayerNames& names, const Shared& shared) {
  const std::string at = "shared_transformer.", fused = at + "feed_forward.gate_up_proj";
  const int64_t inner = shared.intermediate;
  names.one("shared.input_layernorm.weight", at + "input_layernorm.weight");
  for (const char* name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"})
    names.one(std::string("shared.") + name, at + "self_attn." + name);
  names.one("shared.post_attention_layernorm.weight", at + "pre_ff_layernorm.weight");
  for (const char* part : {".weight", ".bias"}) {
    if (part[1] == 'b' && !shared.bias) continue;
    names.rows(std::string("shared.gate_proj") + part, fused + part, 0, inner);
    names.rows(std::string("shared.up_proj") + part, fused + part, inner, 2 * inner);
    names.one(std::string("shared.down_proj") + part, at + "feed_forward.down_proj" + part);
  }
}

/// The adapters of the use with number `use`; they lie beside the block's weights.
void add_adapters(LayerNames& block, const Shared& shared, size_t use) {
  const auto add = [&](const std::string& key, const std::string& list) {
    const std::string at = "shared_transformer." + list + "_adapter_list." + std::to_string(use);
    block.one("adapter." + key + ".down", at + ".0.weight");
    block.one("adapter." + key + ".up", at + ".1.weight");
  };
  add("gate_up", "feed_forward.gate_up_proj");
  if (!shared.adapters) return;
  for (const char* key : {"q", "k", "v"}) add(key, std::string("self_attn.linear_") + key);
}

}  // namespace

ModelPlan plan_zamba2(const ConfigFields& config) {
  refuse_unsupported(config);
  const int64_t d = config.integer("hidden_size", 1, kMaxExtent / 8);
  const int64_t heads = config.integer("num_attention_heads", 1, kMaxExtent);
  if ((2 * d) % heads != 0 || (2 * d / heads) % 2 != 0 || 2 * d / heads > kMaxHeadDim)
    config.refuse("num_attention_heads", "a divisor of 2 * hidden_size, with heads of an even width up to " +
                                             std::to_string(kMaxHeadDim));
  ModelPlan plan = read_decoder(config, {.head_dim = 2 * d / heads,
                                         .norm_eps = 1e-5,
                                         .max_position_embeddings = 4096,
                                         .activation = "gelu",
                                         .tied = true,
                                         .intermediate = 4 * d});
  const std::vector<int64_t> hybrids = read_hybrids(config, plan.n_layers);
  plan.head_dim = 2 * d / heads;  // whatever the config says
  for (TransformerOptions& layer : plan.layers) layer.head_dim = layer.rope_dim = plan.head_dim;
  const bool rotates = config.flag_or("use_mem_rope", false);
  if (rotates) read_rope(config, {}, plan);
  const Shared shared = {config.flag_or("use_shared_attention_adapter", false),
                         config.flag_or("add_bias_linear", false), plan.intermediate};
  if (shared.adapters && plan.n_kv_heads != plan.n_heads)
    config.refuse("num_key_value_heads", "num_attention_heads where use_shared_attention_adapter is true");
  for (TransformerOptions& layer : plan.layers) {
    if (!rotates) layer.rope_dim = 0;
    layer.attn_scale = 1.0 / std::sqrt(static_cast<double>(plan.head_dim) / 2);
    layer.mlp = MlpKind::kGeGlu;
    layer.mlp_bias = shared.bias;
  }
  const MixerFields fields = {.heads = "n_mamba_heads",
                              .default_heads = 8,
                              .head_dim = "mamba_headdim",
                              .groups = "mamba_ngroups",
                              .default_states = 64};
  Mamba2Options mixer = read_mixer(config, fields, read_expanded(config, "mamba_expand", d), plan);
  mixer.gated_norm_eps = 1e-5;
  mixer.dt_min = config.positive_or("time_step_min", 0.001);
  plan.mamba_layers.assign(plan.layers.size(), mixer);
  plan.parts.resize(plan.layers.size());
  const int64_t n_blocks = config.integer_or("num_mem_blocks", 1, 1, 1 << 16);
  add_outer_names(plan);
  plan.norm_name = "model.final_layernorm.weight";
  size_t uses = 0;
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    const bool hybrid = uses < hybrids.size() && hybrids[uses] == i;
    LayerNames names(plan, i, layer_prefix(i) + (hybrid ? "mamba_decoder." : ""));
    names.one("block_norm.weight", "input_layernorm.weight");
    names.mixer("mamba.", {.in_bias = shared.bias, .out_bias = shared.bias});
    if (!hybrid) continue;
    const int64_t first = hybrids[uses % static_cast<size_t>(n_blocks)];
    plan.parts[static_cast<size_t>(i)].shared_block = first;
    LayerNames(plan, i, layer_prefix(i)).one("linear.weight", "linear.weight");
    LayerNames block(plan, i, layer_prefix(first));
    if (first == i) add_block(block, shared);
    add_adapters(block, shared, uses++);
  }
  return plan;
}

}  // namespace isobit::families

// SPDX-License-Identifier: Apache-2.0
// The Samba stack: embedding, a list of Mamba 3 blocks and attention blocks with their defaults, final norm,
// head. Its config has the fields of isobit.SambaConfig, its tensors the names of SambaConfig.registry().
#include <algorithm>

#include "families/decoder.h"
#include "families/registry.h"

namespace isobit::families {
namespace {

constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;

TransformerOptions read_attention(const ConfigFields& config, int64_t d_model) {
  TransformerOptions o;
  o.n_heads = config.integer("n_heads", 1, kMaxExtent);
  o.n_kv_heads = config.has_value("n_kv_heads") ? config.integer("n_kv_heads", 1, kMaxExtent) : o.n_heads;
  o.head_dim =
      config.has_value("head_dim") ? config.integer("head_dim", 1, kMaxHeadDim) : d_model / o.n_heads;
  o.rope_dim = o.head_dim;
  if (o.n_heads % *o.n_kv_heads != 0) config.refuse("n_kv_heads", "a divisor of n_heads");
  if (o.n_heads * *o.head_dim != d_model) config.refuse("head_dim", "n_heads * head_dim = d_model");
  if (*o.head_dim % 2 != 0 || o.head_dim > kMaxHeadDim)
    config.refuse("n_heads", "heads of an even width up to " + std::to_string(kMaxHeadDim));
  return o;
}

}  // namespace

ModelPlan plan_samba(const ConfigFields& config) {
  constexpr int64_t kHeadDim = 64, kStates = 128;
  ModelPlan plan;
  plan.kind = "hybrid";
  plan.d_model = config.integer("d_model", 1, kMaxExtent / 8);
  plan.vocab_size = config.integer("vocab", 2, kMaxExtent);
  plan.n_layers = config.integer("n_layers", 1, 4096);
  plan.norm_eps = config.positive_or("norm_eps", 1e-5);
  plan.tie_embeddings = config.flag_or("tie_embeddings", true);
  const std::vector<std::string> kinds = config.strings("layers", plan.n_layers);
  for (const std::string& kind : kinds)
    if (kind != "mamba3" && kind != "attention")
      config.refuse("layers", "\"mamba3\" or \"attention\" everywhere");
  const bool attends = std::find(kinds.begin(), kinds.end(), "attention") != kinds.end();
  const bool scans = std::find(kinds.begin(), kinds.end(), "mamba3") != kinds.end();
  TransformerOptions attention;
  if (attends) attention = read_attention(config, plan.d_model);
  if (scans && plan.d_model % 32 != 0)
    config.refuse("d_model", "a multiple of 32 where there is a mamba3 layer");
  plan.max_position_embeddings = attends ? attention.max_positions : kMaxExtent;
  plan.n_heads = attention.n_heads;
  plan.n_kv_heads = attention.n_kv_heads.value_or(0);
  plan.head_dim = attention.head_dim.value_or(0);
  plan.intermediate = attends ? config.integer("intermediate", 1, kMaxExtent) : 0;
  plan.mamba_shape = {.version = 3,
                      .channels = 2 * plan.d_model,
                      .states = kStates,
                      .heads = 2 * plan.d_model / kHeadDim,
                      .head_dim = kHeadDim,
                      .rank = 1,
                      .angles = kStates / 4};
  plan.layers.assign(kinds.size(), attention);
  plan.mamba_layers.resize(kinds.size());
  plan.layer_weights.resize(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    const auto add = [&](std::initializer_list<const char*> keys) {
      for (const char* key : keys)
        plan.layer_weights[i].push_back({key, "layers." + std::to_string(i) + "." + key});
    };
    if (kinds[i] == "mamba3") {
      plan.mamba_layers[i] = Mamba3Options{};
      add({"block_norm.weight", "in_proj.weight", "dt_bias", "B_norm.weight", "C_norm.weight", "B_bias",
           "C_bias", "D", "out_proj.weight"});
    } else {
      add({"input_layernorm.weight", "post_attention_layernorm.weight", "q_proj.weight", "k_proj.weight",
           "v_proj.weight", "o_proj.weight", "gate_proj.weight", "up_proj.weight", "down_proj.weight"});
    }
  }
  plan.embed_name = "embed.weight";
  plan.norm_name = "norm_f.weight";
  plan.head_name = "lm_head.weight";
  return plan;
}

}  // namespace isobit::families

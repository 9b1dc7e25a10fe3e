// SPDX-License-Identifier: Apache-2.0
// Phi-3 and Phi-4: Llama without biases whose checkpoints fuse q, k, v into one matrix and gate, up into
// another. Longer contexts use longrope, and Phi-4-mini rotates only a part of each head.
#include "families/decoder.h"
#include "families/registry.h"

namespace isobit::families {

ModelPlan plan_phi3(const ConfigFields& config) {
  ModelPlan plan = read_decoder(config, {.norm_eps = 1e-5, .max_position_embeddings = 4096});
  read_rope(config, {.partial = true, .only_longrope = true, .default_original_max = 4096}, plan);
  read_uniform_window(config, 0, plan);
  add_outer_names(plan);
  const int64_t q_rows = plan.n_heads * plan.head_dim;
  const int64_t kv_rows = plan.n_kv_heads * plan.head_dim;
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    const std::string prefix = layer_prefix(i);
    const std::string qkv = prefix + "self_attn.qkv_proj.weight";
    const std::string gate_up = prefix + "mlp.gate_up_proj.weight";
    plan.layer_weights[static_cast<size_t>(i)] = {
        {"input_layernorm.weight", prefix + "input_layernorm.weight"},
        {"q_proj.weight", qkv, 0, q_rows},
        {"k_proj.weight", qkv, q_rows, q_rows + kv_rows},
        {"v_proj.weight", qkv, q_rows + kv_rows, q_rows + 2 * kv_rows},
        {"o_proj.weight", prefix + "self_attn.o_proj.weight"},
        {"post_attention_layernorm.weight", prefix + "post_attention_layernorm.weight"},
        {"gate_proj.weight", gate_up, 0, plan.intermediate},
        {"up_proj.weight", gate_up, plan.intermediate, 2 * plan.intermediate},
        {"down_proj.weight", prefix + "mlp.down_proj.weight"},
    };
  }
  return plan;
}

}  // namespace isobit::families

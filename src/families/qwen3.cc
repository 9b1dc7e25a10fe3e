// SPDX-License-Identifier: Apache-2.0
// Qwen 3: Llama with an RMSNorm over each head of q and k before the rotation, heads of 128 whatever the
// hidden size, and windows on the upper layers if asked for. attention_bias puts a bias on all four
// projections.
#include "families/decoder.h"
#include "families/registry.h"

namespace isobit::families {

ModelPlan plan_qwen3(const ConfigFields& config) {
  ModelPlan plan =
      read_decoder(config, {.n_kv_heads = 32, .head_dim = 128, .max_position_embeddings = 32768});
  read_rope(config, {}, plan);
  read_qwen_windows(config, plan);
  const bool attention_bias = config.flag_or("attention_bias", false);
  for (TransformerOptions& layer : plan.layers) {
    layer.qkv_bias = attention_bias;
    layer.o_bias = attention_bias;
    layer.qk_norm = true;
  }
  add_llama_names(plan);
  return plan;
}

}  // namespace isobit::families

// SPDX-License-Identifier: Apache-2.0
// Qwen 1.5, 2 and 2.5: Llama with a bias on q, k and v (never on o), and windows on the upper layers if asked
// for.
#include "families/decoder.h"
#include "families/registry.h"

namespace isobit::families {

ModelPlan plan_qwen2(const ConfigFields& config) {
  ModelPlan plan = read_decoder(config, {.n_kv_heads = 32, .max_position_embeddings = 32768});
  read_rope(config, {}, plan);
  read_qwen_windows(config, plan);
  for (TransformerOptions& layer : plan.layers) layer.qkv_bias = true;
  add_llama_names(plan);
  return plan;
}

}  // namespace isobit::families

// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3.3 and the checkpoints that use its type (SmolLM, TinyLlama, Yi, Falcon 3, ...): grouped-query
// attention, SwiGLU, RMSNorm; attention_bias puts a bias on all four projections, mlp_bias on all three.
#include "families/decoder.h"
#include "families/registry.h"

namespace isobit::families {

ModelPlan plan_llama(const ConfigFields& config) {
  ModelPlan plan = read_decoder(config, {.max_position_embeddings = 2048});
  read_rope(config, {}, plan);
  const bool attention_bias = config.flag_or("attention_bias", false);
  const bool mlp_bias = config.flag_or("mlp_bias", false);
  for (TransformerOptions& layer : plan.layers) {
    layer.qkv_bias = attention_bias;
    layer.o_bias = attention_bias;
    layer.mlp_bias = mlp_bias;
  }
  add_llama_names(plan);
  return plan;
}

}  // namespace isobit::families

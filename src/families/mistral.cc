// SPDX-License-Identifier: Apache-2.0
// Mistral 7B, Nemo and their kin: Llama without biases, and with one window for all layers. A file without
// the key sliding_window has the window of the first release; null means none.
#include "families/decoder.h"
#include "families/registry.h"

namespace isobit::families {

ModelPlan plan_mistral(const ConfigFields& config) {
  ModelPlan plan = read_decoder(config, {.n_kv_heads = 8, .max_position_embeddings = 131072});
  read_rope(config, {}, plan);
  read_uniform_window(config, 4096, plan);
  add_llama_names(plan);
  return plan;
}

}  // namespace isobit::families

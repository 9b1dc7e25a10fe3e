// SPDX-License-Identifier: Apache-2.0
// Any text is a config whose plan is consistent, or a ValueError.
#include <cstdlib>
#include <string>

#include "isobit/error.h"
#include "isobit/model_plan.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const isobit::HFConfig config = isobit::HFConfig::from_text({reinterpret_cast<const char*>(data), size});
    const isobit::ModelPlan plan = isobit::plan_for(config);
    check(plan.n_layers == static_cast<int64_t>(plan.layer_weights.size()));
    check(plan.mamba_layers.empty() || plan.mamba_layers.size() == plan.layer_weights.size());
    for (int64_t i = 0; i < plan.n_layers; ++i) {
      if (plan.is_mamba(i)) continue;
      const isobit::TransformerOptions& layer = plan.layers.at(static_cast<size_t>(i));
      check(plan.n_kv_heads > 0 && plan.n_heads % plan.n_kv_heads == 0);
      check(layer.head_dim == plan.head_dim && *layer.head_dim % 2 == 0);
      check(*layer.rope_dim >= 0 && *layer.rope_dim % 2 == 0 && layer.rope_dim <= layer.head_dim);
      check(layer.window >= 0 && layer.max_positions > 0);
      check(static_cast<float>(layer.norm_eps) > 0 && static_cast<float>(layer.rope_theta) > 0);
    }
    check(plan.checkpoint_names().size() >= 3 + plan.layers.size());
  } catch (const isobit::ValueError&) {
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Mamba 2 in the Hugging Face format, Codestral's groups included. The gated norm runs over each group's
// channels, as the checkpoints were trained and as transformers computes it since 5.6. time_step_limit holds
// in prefill and decode alike; chunk_size means nothing to a recurrence.
#include "families/mamba.h"
#include "families/registry.h"

namespace isobit::families {

ModelPlan plan_mamba2(const ConfigFields& config) {
  constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;
  Mamba2Options options;
  options.norm_eps = options.gated_norm_eps = config.positive_or("layer_norm_epsilon", 1e-5);
  options.n_groups = config.integer_or("n_groups", 8, 1, 1 << 16);
  const auto [low, high] = config.limits_or("time_step_limit", {options.dt_min, options.dt_max});
  options.dt_min = low;
  options.dt_max = high;
  if (config.flag_or("norm_before_gate", false)) config.refuse("norm_before_gate", "false");
  const int64_t channels = read_channels(config, config.integer_or("hidden_size", 4096, 1, kMaxExtent));
  const int64_t heads = config.integer_or("num_heads", 128, 1, 1 << 20);
  const int64_t head_dim = config.integer_or("head_dim", 64, 1, 1 << 20);
  if (heads * head_dim != channels)
    config.refuse("num_heads", "num_heads * head_dim = expand * hidden_size = " + std::to_string(channels));
  if (heads % options.n_groups != 0)
    config.refuse("n_groups", "a divisor of num_heads = " + std::to_string(heads));
  const int64_t states = config.integer_or("state_size", 128, 1, 1 << 16);
  const MambaShape shape = {.version = 2,
                            .channels = channels,
                            .states = states,
                            .conv_channels = channels + 2 * options.n_groups * states,
                            .conv_width = config.integer_or("conv_kernel", 4, 1, 1 << 16),
                            .heads = heads,
                            .head_dim = head_dim};
  ModelPlan plan = read_mamba(config, options, shape, /*tied_by_default=*/false);
  add_mamba_names(plan, {.conv_bias = config.flag_or("use_conv_bias", true),
                         .proj_bias = config.flag_or("use_bias", false)});
  return plan;
}

}  // namespace isobit::families

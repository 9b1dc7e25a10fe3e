// SPDX-License-Identifier: Apache-2.0
// Rotary frequencies of a block: inv_freq [rope_dim/2] and the factor on cos and sin, with Hugging Face's
// roundings.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isobit/transformer_options.h"

namespace isobit {

struct RopeFrequencies {
  std::vector<float> inv_freq;
  float attention_factor = 1.0f;
  bool operator==(const RopeFrequencies&) const = default;
};

/// Throws ValueError for any rotary option of a TransformerBlock that is not acceptable, frequencies or
/// angles that float32 cannot hold included. rope_dim and head_dim are resolved (no defaults left).
void validate_rope(int64_t head_dim, int64_t rope_dim, double rope_theta,
                   const std::optional<RopeScaling>& scaling, int64_t max_positions);

/// Of options that validate_rope accepts. Real numbers are rounded to float32 first.
RopeFrequencies rope_frequencies(int64_t rope_dim, double rope_theta,
                                 const std::optional<RopeScaling>& scaling, int64_t max_positions);

}  // namespace isobit

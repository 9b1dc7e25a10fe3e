// SPDX-License-Identifier: Apache-2.0
// What the layers of hybrid models have beyond the options of their blocks.
#pragma once

#include <array>
#include <cstdint>

namespace isobit {

/// Of one layer.
struct LayerParts {
  bool mixer = true;  ///< attention or a recurrence; without it the layer is an MLP alone
  bool mlp = true;    ///< of a transformer layer; a Mamba layer has one where it has the weights
  /// A Mamba layer's input goes through attention as well, and both results are added.
  bool attention_beside = false;
  /// A Mamba layer that first adds what a shared transformer block makes of its input and the embedding: the
  /// layer, this or an earlier one, that has the block's weights. -1: none.
  int64_t shared_block = -1;
  bool operator==(const LayerParts&) const = default;
};

/// Factors that some families put between the parts of every layer; 1 changes nothing.
struct Multipliers {
  double residual = 1;  ///< of what is added to the residual
  double attention_in = 1, attention_out = 1, key = 1;
  double ssm_in = 1, ssm_out = 1;
  std::array<double, 5> ssm = {1, 1, 1, 1, 1};  ///< of in_proj's rows z, x, B, C, dt
  double gate = 1, down = 1;
  bool operator==(const Multipliers&) const = default;
};

}  // namespace isobit

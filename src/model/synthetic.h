// SPDX-License-Identifier: Apache-2.0
// Inputs and weights that are the same bits everywhere: an integer hash of (seed, index) instead of a
// generator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isobit/model_plan.h"
#include "isobit/tensor.h"
#include "isobit/transformer_options.h"

namespace isobit::synthetic {

/// 64 well-mixed bits.
uint64_t hash(uint64_t seed, uint64_t index);
/// A multiple of 2^-23 in [-1, 1).
float value(uint64_t seed, uint64_t index);
/// n of them, times a scale.
std::vector<float> values(uint64_t seed, int64_t n, float scale = 1.0f);

/// Weights by name, and the memory their views borrow.
struct Weights {
  Weights() = default;
  Weights(Weights&&) = default;
  Weights& operator=(Weights&&) = default;

  std::vector<std::vector<float>> store;
  WeightMap map;
  /// The values behind a name, to be changed.
  std::vector<float>& at(const std::string& name);
};

/// A block's weights: matrices of about 1/sqrt(inputs), norms around 1 (the offset form: around 0).
Weights block(const TransformerOptions& options, int64_t d_model, int64_t intermediate, uint64_t seed);
/// A model's tensors by checkpoint name; the head only where it is not tied.
Weights model(const ModelPlan& plan, uint64_t seed);

}  // namespace isobit::synthetic

// SPDX-License-Identifier: Apache-2.0
// Small blocks and models that the self-test hashes and the tests compute in every way.
#pragma once

#include <string>
#include <vector>

#include "isobit/transformer_block.h"
#include "model/synthetic.h"

namespace isobit::synthetic {

struct BlockCase {
  std::string name;
  TransformerOptions options;
  int64_t d_model = 24;
  int64_t intermediate = 40;
  uint64_t seed = 1;

  Weights weights() const { return synthetic::block(options, d_model, intermediate, seed); }
  TransformerBlock block() const { return {weights().map, options}; }
  /// [batch, length, d_model], different for every seed.
  std::vector<float> input(int64_t batch, int64_t length, uint64_t input_seed = 7) const {
    return values(input_seed, batch * length * d_model);
  }
};

/// Every option that changes what a block computes, each alone on a plain block, which comes first.
std::vector<BlockCase> option_cases();
/// A scaling with every field that its type reads.
RopeScaling scaling(RopeType type, int64_t rope_dim, int64_t original_max_positions);

/// The model types that family_config knows.
const std::vector<std::string>& families();
constexpr int64_t kVocab = 32;
/// config.json of a model of three layers, with what sets its family apart: windows, biases, head norms,
/// fused tensors.
std::string family_config(const std::string& family);

}  // namespace isobit::synthetic

// SPDX-License-Identifier: Apache-2.0
// Small blocks for tests: each option by itself, and random combinations of all of them.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "isobit/transformer_block.h"
#include "model/synthetic.h"

namespace isobit::testing {

struct BlockCase {
  std::string name;
  TransformerOptions options;
  int64_t d_model = 24;
  int64_t intermediate = 40;
  uint64_t seed = 1;

  synthetic::Weights weights() const { return synthetic::block(options, d_model, intermediate, seed); }
  TransformerBlock block() const { return {weights().map, options}; }
  /// [batch, length, d_model], different for every seed.
  std::vector<float> input(int64_t batch, int64_t length, uint64_t input_seed = 7) const {
    return synthetic::values(input_seed, batch * length * d_model);
  }
};
std::ostream& operator<<(std::ostream& out, const BlockCase& c);

/// Every option that changes what a block computes, each alone on a plain block.
std::vector<BlockCase> option_cases();
/// A valid draw over all options together.
BlockCase random_case(uint64_t seed);

/// forward without state; [batch, length, d_model].
std::vector<float> run(const TransformerBlock& block, const std::vector<float>& x, int64_t batch,
                       int64_t length, TransformerState* state = nullptr,
                       std::span<const int64_t> lengths = {});
/// The same tokens as consecutive calls of these lengths on one state that can hold max_tokens.
std::vector<float> run_split(const TransformerBlock& block, const std::vector<float>& x, int64_t batch,
                             const std::vector<int64_t>& parts, int64_t max_tokens);
/// Columns [begin, end) of [batch, length, d].
std::vector<float> tokens(const std::vector<float>& x, int64_t batch, int64_t length, int64_t begin,
                          int64_t end);

}  // namespace isobit::testing

// SPDX-License-Identifier: Apache-2.0
// Small blocks for tests: each option by itself (model/synthetic_models.h), and random combinations of all.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "isobit/transformer_block.h"
#include "model/synthetic_models.h"

namespace isobit::synthetic {

inline std::ostream& operator<<(std::ostream& out, const BlockCase& c) { return out << c.name; }

}  // namespace isobit::synthetic

namespace isobit::testing {

using synthetic::BlockCase;
using synthetic::option_cases;

/// The plainest case, 8 wide: for long sequences.
BlockCase narrow_case(int64_t window);
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

// SPDX-License-Identifier: Apache-2.0
// A decoder block in binary64, written from its formulas with nothing of the library but the rotary table:
// what the library's results are near.
#pragma once

#include <vector>

#include "isobit/tensor.h"
#include "isobit/transformer_options.h"

namespace isobit::testing {

/// x: [length, d_model] of one sequence; options with defaults filled in.
std::vector<double> float64_block(const TransformerOptions& options, const WeightMap& weights,
                                  const std::vector<float>& x, int64_t length);

}  // namespace isobit::testing

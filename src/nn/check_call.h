// SPDX-License-Identifier: Apache-2.0
// What every call with tokens must satisfy, checked before any work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "state/transformer_state.h"

namespace isobit {

/// Sizes and ragged lengths (1..length each); returns the number of tokens of each row.
std::vector<int64_t> check_tokens(const char* who, int64_t batch, int64_t length,
                                  std::span<const int64_t> lengths);

/// cached[row] + more[row] <= max_positions.
void check_room(const char* who, std::span<const int64_t> more, int64_t max_positions,
                std::span<const int64_t> cached);

/// The state fits the block, was filled under its profile, and has room for more[row] tokens in each row.
void check_state(const char* who, const TransformerState::Impl& state, int64_t kv_heads, int64_t head_dim,
                 int64_t window, NumericProfile profile, std::span<const int64_t> more);

}  // namespace isobit

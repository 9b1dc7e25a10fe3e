// SPDX-License-Identifier: Apache-2.0
// What every call with tokens must satisfy, checked before any work.
#pragma once

#include <cstdint>
#include <span>

#include "state/transformer_state.h"

namespace isobit {

/// Sizes, the rotary limit (`cached` + length <= max_positions) and ragged lengths (1..length each, no
/// state).
void check_tokens(const char* who, int64_t batch, int64_t length, int64_t max_positions, int64_t cached,
                  std::span<const int64_t> lengths, const void* state);

/// The state fits the block and has room for `length` more tokens.
void check_state(const char* who, const TransformerState::Impl& state, int64_t batch, int64_t kv_heads,
                 int64_t head_dim, int64_t window, int64_t length);

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
#include "nn/check_call.h"

#include <string>

#include "core/checked.h"

namespace isobit {

void check_tokens(const char* who, int64_t batch, int64_t length, int64_t max_positions, int64_t cached,
                  std::span<const int64_t> lengths, const void* state) {
  expect(batch >= 1 && length >= 1, who, "input", "at least one row and one token",
         "batch " + std::to_string(batch) + ", length " + std::to_string(length));
  expect(length <= max_positions - cached, who, "length",
         "at most " + std::to_string(max_positions - cached) + " more positions (max_positions = " +
             std::to_string(max_positions) + ", " + std::to_string(cached) + " cached)",
         std::to_string(length));
  if (lengths.empty()) return;
  expect(state == nullptr, who, "lengths", "no state", "a state");
  expect(static_cast<int64_t>(lengths.size()) == batch, who, "lengths", std::to_string(batch) + " integers",
         std::to_string(lengths.size()));
  for (const int64_t n : lengths)
    expect(n >= 1 && n <= length, who, "lengths", "integers in 1.." + std::to_string(length),
           std::to_string(n));
}

void check_state(const char* who, const TransformerState::Impl& state, int64_t batch, int64_t kv_heads,
                 int64_t head_dim, int64_t window, int64_t length) {
  const auto same = [who](const char* what, int64_t wanted, int64_t got) {
    expect(wanted == got, who, std::string("state.") + what, std::to_string(wanted), std::to_string(got));
  };
  same("batch_size", batch, state.cache.batch());
  same("n_kv_heads", kv_heads, state.cache.kv_heads());
  same("head_dim", head_dim, state.cache.head_dim());
  same("window", window, state.window);
  expect(length <= state.max_tokens - state.cached, who, "state",
         "room for " + std::to_string(length) + " more tokens",
         std::to_string(state.cached) + " of max_tokens = " + std::to_string(state.max_tokens) + " cached");
}

}  // namespace isobit

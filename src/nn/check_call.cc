// SPDX-License-Identifier: Apache-2.0
#include "nn/check_call.h"

#include <string>

#include "core/checked.h"

namespace isobit {

std::vector<int64_t> check_tokens(const char* who, int64_t batch, int64_t length,
                                  std::span<const int64_t> lengths) {
  expect(batch >= 1 && length >= 1, who, "input", "at least one row and one token",
         "batch " + std::to_string(batch) + ", length " + std::to_string(length));
  if (lengths.empty()) return std::vector<int64_t>(static_cast<size_t>(batch), length);
  expect(static_cast<int64_t>(lengths.size()) == batch, who, "lengths", std::to_string(batch) + " integers",
         std::to_string(lengths.size()));
  for (const int64_t n : lengths)
    expect(n >= 1 && n <= length, who, "lengths", "integers in 1.." + std::to_string(length),
           std::to_string(n));
  return {lengths.begin(), lengths.end()};
}

void check_room(const char* who, std::span<const int64_t> more, int64_t max_positions,
                std::span<const int64_t> cached) {
  for (size_t row = 0; row < more.size(); ++row)
    expect(more[row] <= max_positions - cached[row], who, "length",
           "at most " + std::to_string(max_positions - cached[row]) + " more positions (max_positions = " +
               std::to_string(max_positions) + ", " + std::to_string(cached[row]) + " cached)",
           std::to_string(more[row]));
}

void check_state(const char* who, const TransformerState::Impl& state, int64_t kv_heads, int64_t head_dim,
                 int64_t window, NumericProfile profile, std::span<const int64_t> more) {
  const auto same = [who](const char* what, int64_t wanted, int64_t got) {
    expect(wanted == got, who, std::string("state.") + what, std::to_string(wanted), std::to_string(got));
  };
  same("batch_size", static_cast<int64_t>(more.size()), state.cache.batch());
  same("n_kv_heads", kv_heads, state.cache.kv_heads());
  same("head_dim", head_dim, state.cache.head_dim());
  same("window", window, state.window);
  expect(state.cached() == 0 || state.numeric_profile == profile, who, "state.numeric_profile",
         to_string(profile), to_string(state.numeric_profile));
  for (size_t row = 0; row < more.size(); ++row)
    expect(more[row] <= state.max_tokens - state.tokens[row], who, "state",
           "room for " + std::to_string(more[row]) + " more tokens",
           std::to_string(state.tokens[row]) + " of max_tokens = " + std::to_string(state.max_tokens) +
               " cached");
}

}  // namespace isobit

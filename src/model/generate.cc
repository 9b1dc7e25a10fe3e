// SPDX-License-Identifier: Apache-2.0
// Greedy continuation: one forward of the prompt, then one step a token.
#include <algorithm>

#include "core/checked.h"
#include "core/fp_env.h"
#include "model/causal_lm_impl.h"

namespace isobit {
namespace {

// The library's environment for the comparison alone: on_token is the host's code and runs in the host's.
int32_t choose(const float* logits, int64_t vocab) {
  const FpEnv environment;
  return static_cast<int32_t>(ops::argmax(logits, vocab));
}

}  // namespace

std::vector<int32_t> CausalLM::generate(
    std::span<const int64_t> ids, int64_t batch, int64_t length, int64_t max_new_tokens,
    const std::function<bool(int64_t, std::span<const int32_t>, std::span<const float>)>& on_token) const {
  constexpr const char* kGenerate = "CausalLM.generate";
  expect(batch >= 1 && length >= 1, kGenerate, "ids", "at least one row and one token",
         "batch " + std::to_string(batch) + ", length " + std::to_string(length));
  expect(static_cast<int64_t>(ids.size()) == checked_mul(batch, length), kGenerate, "ids",
         std::to_string(batch * length) + " ids", std::to_string(ids.size()));
  expect(max_new_tokens >= 0, kGenerate, "max_new_tokens", "an integer >= 0", std::to_string(max_new_tokens));
  expect(length <= max_positions() && max_new_tokens <= max_positions() - length, kGenerate,
         "length + max_new_tokens", "at most max_positions = " + std::to_string(max_positions()),
         std::to_string(length) + " + " + std::to_string(max_new_tokens));
  for (const int64_t id : ids)
    expect(id >= 0 && id < plan().vocab_size, kGenerate, "ids",
           "integers in 0.." + std::to_string(plan().vocab_size - 1), std::to_string(id));

  const int64_t vocab = plan().vocab_size;
  std::vector<std::vector<int32_t>> columns;
  if (max_new_tokens > 0) {
    // The last token is chosen but never fed back.
    CausalLMState state = allocate_state(batch, length + max_new_tokens - 1);
    std::vector<float> logits(static_cast<size_t>(batch * vocab));
    forward(ids, batch, length, logits.data(), &state, /*last_only=*/true);
    for (int64_t step_index = 0;; ++step_index) {
      std::vector<int32_t>& column = columns.emplace_back();
      for (int64_t row = 0; row < batch; ++row) column.push_back(choose(logits.data() + row * vocab, vocab));
      if (on_token && !on_token(step_index, column, logits)) break;
      if (step_index + 1 == max_new_tokens) break;
      const std::vector<int64_t> next(column.begin(), column.end());
      step(next, state, logits.data());
    }
  }

  std::vector<int32_t> out;
  out.reserve(static_cast<size_t>(batch) * (static_cast<size_t>(length) + columns.size()));
  for (int64_t row = 0; row < batch; ++row) {
    for (int64_t i = 0; i < length; ++i)
      out.push_back(static_cast<int32_t>(ids[static_cast<size_t>(row * length + i)]));
    for (const auto& column : columns) out.push_back(column[static_cast<size_t>(row)]);
  }
  return out;
}

}  // namespace isobit

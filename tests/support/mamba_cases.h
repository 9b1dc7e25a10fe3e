// SPDX-License-Identifier: Apache-2.0
// The synthetic Mamba blocks as tests run them.
#pragma once

#include <ostream>
#include <span>
#include <vector>

#include "model/synthetic_mamba.h"

namespace isobit::synthetic {

inline void PrintTo(const MambaCase& c, std::ostream* out) { *out << c.name; }

}  // namespace isobit::synthetic

namespace isobit::testing {

using synthetic::mamba_cases;
using synthetic::MambaCase;

inline std::vector<float> run(const MambaBlock& block, const std::vector<float>& x, int64_t batch,
                              int64_t length, MambaState* state = nullptr,
                              std::span<const int64_t> lengths = {}) {
  std::vector<float> out(x.size());
  block.forward(x.data(), batch, length, out.data(), state, lengths);
  return out;
}

/// Tokens [from, to) of each row of [batch, length, d].
inline std::vector<float> cut(const std::vector<float>& x, int64_t batch, int64_t length, int64_t from,
                              int64_t to) {
  const int64_t d = static_cast<int64_t>(x.size()) / batch / length;
  std::vector<float> out;
  for (int64_t row = 0; row < batch; ++row)
    out.insert(out.end(), x.begin() + (row * length + from) * d, x.begin() + (row * length + to) * d);
  return out;
}

/// Every buffer of a state, one after the other.
inline std::vector<float> contents(MambaState& state) {
  std::vector<float> all;
  for (const std::string& name : state.buffer_names()) {
    const auto buffer = state.buffer(name);
    all.insert(all.end(), buffer->begin(), buffer->end());
  }
  return all;
}

}  // namespace isobit::testing

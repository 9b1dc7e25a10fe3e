// SPDX-License-Identifier: Apache-2.0
// What a layer of a model carries: keys and values, a recurrent state, both side by side, or nothing.
#pragma once

#include <optional>
#include <vector>

#include "state/mamba_state.h"
#include "state/transformer_state.h"

namespace isobit {

struct AnyState {
  std::optional<TransformerState> attention;
  std::optional<MambaState> mamba;

  std::vector<LayerState*> parts() {
    std::vector<LayerState*> found;
    if (attention) found.push_back(&attention->impl());
    if (mamba) found.push_back(&mamba->impl());
    return found;
  }
};

/// The same as a layer works on it; null: not there.
struct LayerStates {
  TransformerState::Impl* attention = nullptr;
  MambaState::Impl* mamba = nullptr;
};

inline LayerStates inside(AnyState& state) {
  return {state.attention ? &state.attention->impl() : nullptr, state.mamba ? &state.mamba->impl() : nullptr};
}

}  // namespace isobit

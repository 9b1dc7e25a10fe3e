// SPDX-License-Identifier: Apache-2.0
// The state of a layer of any kind, as a model keeps it.
#pragma once

#include <variant>

#include "state/mamba_state.h"
#include "state/transformer_state.h"

namespace isobit {

using AnyState = std::variant<TransformerState, MambaState>;

inline LayerState& inside(AnyState& state) {
  return std::visit([](auto& s) -> LayerState& { return s.impl(); }, state);
}

}  // namespace isobit

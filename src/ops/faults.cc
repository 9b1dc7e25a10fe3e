// SPDX-License-Identifier: Apache-2.0
#include "ops/faults.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "isobit/error.h"
#include "kernels/table.h"

namespace isobit {

const char* to_string(Stage stage) {
  static constexpr const char* kNames[] = {"input norm",
                                           "query projection",
                                           "key projection",
                                           "value projection",
                                           "query norm",
                                           "key norm",
                                           "rotary embedding",
                                           "attention scores",
                                           "attention output",
                                           "state-space input projection",
                                           "convolution",
                                           "state-space parameters",
                                           "inner norm",
                                           "time step",
                                           "state",
                                           "gated output",
                                           "output projection",
                                           "attention residual",
                                           "mixer residual",
                                           "post-attention norm",
                                           "gate projection",
                                           "up projection",
                                           "activation",
                                           "down projection",
                                           "mlp residual",
                                           "final norm",
                                           "logits"};
  return kNames[static_cast<int>(stage)];
}

void Faults::record(int64_t row, int64_t position, int64_t layer, Stage stage) {
  if (std::tie(position, layer, stage, row) >= std::tie(position_, layer_, stage_, row_)) return;
  position_ = position;
  layer_ = layer;
  stage_ = stage;
  row_ = row;
}

void Faults::raise_if_any(const char* who, bool with_state) const {
  if (!any()) return;
  throw NonFiniteError("[" + std::string(who) + "] non-finite value at position " +
                           std::to_string(position_) + ", layer " + std::to_string(layer_) + ", stage '" +
                           to_string(stage_) + "' (batch row " + std::to_string(row_) + ")" +
                           (with_state ? "; the state is as before the call" : ""),
                       position_, layer_, to_string(stage_));
}

void Faults::sanitize(const TokenBatch& pass, int64_t layer, Stage stage, float* x, int64_t ld,
                      int64_t width) {
  const auto& table = kernels::active_table();
  for (int64_t t = 0; t < pass.tokens; ++t) {
    float* row = x + t * ld;
    if (table.first_nonfinite(row, width) == width) continue;
    record(pass.segment_of(t).row, pass.position_of(t), layer, stage);
    std::fill_n(row, width, 0.0f);
  }
}

}  // namespace isobit

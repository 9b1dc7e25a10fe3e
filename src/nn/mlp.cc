// SPDX-License-Identifier: Apache-2.0
#include "nn/mlp.h"

#include "core/checked.h"
#include "nn/weight_checker.h"
#include "ops/elementwise.h"

namespace isobit {

void check_mlp(MlpKind kind, bool biases, const std::string& prefix, int64_t d, const WeightMap& weights,
               WeightChecker& check, const char* who) {
  const std::string gate = prefix + "gate_proj", up = prefix + "up_proj", down = prefix + "down_proj";
  const bool gated = is_gated(kind);
  const int64_t width = check.require((gated ? gate : up) + ".weight", 2).shape[0];
  if (gated)
    check.shape(gate + ".weight", {width, d});
  else
    expect(!weights.contains(gate + ".weight"), who, gate + ".weight",
           std::string("no such weight with mlp='") + to_string(kind) + "'", "this weight");
  check.shape(up + ".weight", {width, d});
  check.shape(down + ".weight", {d, width});
  check.optional(biases && gated, gated ? "mlp_bias" : "a gated mlp", gate + ".bias", width);
  check.optional(biases, "mlp_bias", up + ".bias", width);
  check.optional(biases, "mlp_bias", down + ".bias", d);
}

Mlp::Mlp(PlacedWeights& place, const WeightMap& weights, const std::string& prefix, MlpKind kind,
         MatrixForm form, const char* who, const Multipliers& multipliers)
    : kind_(kind),
      gate_multiplier_(static_cast<float>(multipliers.gate)),
      down_multiplier_(static_cast<float>(multipliers.down)) {
  const std::string gate = prefix + "gate_proj", up = prefix + "up_proj", down = prefix + "down_proj";
  if (is_gated(kind))
    place.place_matrix(gate_up_, weights, {gate + ".weight", up + ".weight"}, who, form.format, form.profile);
  else
    place.place_matrix(gate_up_, weights, {up + ".weight"}, who, form.format, form.profile);
  place.place_matrix(down_, weights, {down + ".weight"}, who, form.format, form.profile);
  if (!weights.contains(down + ".bias")) return;
  if (is_gated(kind)) place.place_values(gate_up_bias_, weights, {gate + ".bias"}, who);
  place.place_values(gate_up_bias_, weights, {up + ".bias"}, who);
  place.place_values(down_bias_, weights, {down + ".bias"}, who);
}

void Mlp::project(const float* normed, const TokenBatch& pass, float* gate_up, Faults& faults,
                  int64_t layer) const {
  const float* bias = gate_up_bias_.empty() ? nullptr : gate_up_bias_.data();
  if (ops::linear(normed, gate_up_.k, pass.tokens, gate_up_, bias, gate_up, width())) return;
  const int64_t gate = width() - intermediate();
  faults.sanitize(pass, layer, Stage::kGate, gate_up, width(), gate);
  faults.sanitize(pass, layer, Stage::kUp, gate_up + gate, width(), intermediate());
}

void Mlp::finish(float* gate_up, const TokenBatch& pass, Workspace& w, float* out, Faults& faults,
                 int64_t layer) const {
  const int64_t tokens = pass.tokens, inner = intermediate(), d = down_.n;
  float* activated = w.activated.at_least(tokens * inner);
  ops::scale(gate_up, width(), tokens, width() - inner, gate_multiplier_);
  if (!ops::activation(kind_, gate_up, tokens, inner, activated))
    faults.sanitize(pass, layer, Stage::kActivation, activated, inner, inner);
  const float* bias = down_bias_.empty() ? nullptr : down_bias_.data();
  if (!ops::linear(activated, inner, tokens, down_, bias, out, d))
    faults.sanitize(pass, layer, Stage::kDown, out, d, d);
  ops::scale(out, d, tokens, d, down_multiplier_);
}

void Mlp::forward(const float* normed, const TokenBatch& pass, Workspace& w, float* out, Faults& faults,
                  int64_t layer) const {
  float* gate_up = w.gate_up.at_least(pass.tokens * width());
  project(normed, pass, gate_up, faults, layer);
  finish(gate_up, pass, w, out, faults, layer);
}

}  // namespace isobit

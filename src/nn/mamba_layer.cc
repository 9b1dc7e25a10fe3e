// SPDX-License-Identifier: Apache-2.0
#include "nn/mamba_layer.h"

#include "core/checked.h"
#include "nn/weight_checker.h"

namespace isobit {

void MambaLayer::load_outer(const WeightMap& weights, const std::string& norm, double eps, const char* who) {
  norm_.eps = static_cast<float>(eps);
  place_values(norm_.weight, weights, {norm + ".weight"}, who);
  d_model_ = static_cast<int64_t>(norm_.weight.size());
  place_matrix(in_, weights, {"in_proj.weight"}, who, weight_format_of(options_));
  place_matrix(out_, weights, {"out_proj.weight"}, who, weight_format_of(options_));
  if (weights.contains("in_proj.bias")) place_values(in_bias_, weights, {"in_proj.bias"}, who);
  if (weights.contains("out_proj.bias")) place_values(out_bias_, weights, {"out_proj.bias"}, who);
}

void MambaLayer::forward(float* x, const TokenBatch& pass, LayerState& state, Workspace& w, Faults& faults,
                         int64_t layer) const {
  auto& carried = static_cast<MambaState::Impl&>(state);
  const int64_t tokens = pass.tokens, d = d_model_;
  float* normed = w.normed.at_least(tokens * d);
  float* in = w.mixer_in.at_least(tokens * in_.n);
  float* out = w.projected.at_least(tokens * d);
  const auto bias = [](const std::vector<float>& b) { return b.empty() ? nullptr : b.data(); };

  ops::norm(norm_, x, pass, normed, faults, layer, Stage::kInputNorm);
  if (!ops::linear(normed, d, tokens, in_, bias(in_bias_), in, in_.n))
    faults.sanitize(pass, layer, Stage::kSsmInput, in, in_.n, in_.n);
  const std::vector<ops::RowRun> runs = ops::runs_of(pass);
  const float* mixed = mix(in, pass, runs, carried, w, faults, layer);
  for (const Segment& s : pass.segments) carried.took(s.row, s.count);
  if (!ops::linear(mixed, shape_.channels, tokens, out_, bias(out_bias_), out, d))
    faults.sanitize(pass, layer, Stage::kOutput, out, d, d);
  if (!ops::residual(x, out, tokens * d)) faults.sanitize(pass, layer, Stage::kMixerResidual, x, d, d);
  if (gate_up_.n > 0) run_mlp(x, pass, w, faults, layer);
}

void MambaLayer::load_mlp(const WeightMap& weights, double eps, const char* who) {
  if (!weights.contains("post_attention_layernorm.weight")) return;
  mlp_norm_.eps = static_cast<float>(eps);
  place_values(mlp_norm_.weight, weights, {"post_attention_layernorm.weight"}, who);
  place_matrix(gate_up_, weights, {"gate_proj.weight", "up_proj.weight"}, who, weight_format_of(options_));
  place_matrix(down_, weights, {"down_proj.weight"}, who, weight_format_of(options_));
  if (!weights.contains("down_proj.bias")) return;
  place_values(gate_up_bias_, weights, {"gate_proj.bias", "up_proj.bias"}, who);
  place_values(down_bias_, weights, {"down_proj.bias"}, who);
}

void MambaLayer::run_mlp(float* x, const TokenBatch& pass, Workspace& w, Faults& faults,
                         int64_t layer) const {
  const int64_t tokens = pass.tokens, d = d_model_, width = down_.k;
  float* normed = w.normed.at_least(tokens * d);
  float* gate_up = w.gate_up.at_least(tokens * 2 * width);
  float* activated = w.activated.at_least(tokens * width);
  float* out = w.projected.at_least(tokens * d);
  const auto bias = [](const std::vector<float>& b) { return b.empty() ? nullptr : b.data(); };
  ops::norm(mlp_norm_, x, pass, normed, faults, layer, Stage::kPostNorm);
  if (!ops::linear(normed, d, tokens, gate_up_, bias(gate_up_bias_), gate_up, 2 * width)) {
    faults.sanitize(pass, layer, Stage::kGate, gate_up, 2 * width, width);
    faults.sanitize(pass, layer, Stage::kUp, gate_up + width, 2 * width, width);
  }
  if (!ops::activation(MlpKind::kSwiGlu, gate_up, tokens, width, activated))
    faults.sanitize(pass, layer, Stage::kActivation, activated, width, width);
  if (!ops::linear(activated, width, tokens, down_, bias(down_bias_), out, d))
    faults.sanitize(pass, layer, Stage::kDown, out, d, d);
  if (!ops::residual(x, out, tokens * d)) faults.sanitize(pass, layer, Stage::kMlpResidual, x, d, d);
}

void check_mlp(const WeightMap& weights, WeightChecker& check, int64_t d_model) {
  if (!weights.contains("post_attention_layernorm.weight")) return;
  const int64_t width = check.require("gate_proj.weight", 2).shape[0];
  check.shape("post_attention_layernorm.weight", {d_model});
  check.shape("gate_proj.weight", {width, d_model});
  check.shape("up_proj.weight", {width, d_model});
  check.shape("down_proj.weight", {d_model, width});
  if (!weights.contains("down_proj.bias")) return;
  check.shape("gate_proj.bias", {width});
  check.shape("up_proj.bias", {width});
  check.shape("down_proj.bias", {d_model});
}

AnyState MambaLayer::allocate_state(int64_t batch_size, int64_t /*max_tokens*/) const {
  return MambaState(shape_, batch_size);
}

void MambaLayer::check_state(const char* who, const LayerState& state, int64_t batch,
                             int64_t /*length*/) const {
  expect(batch == state.batch_size(), who, "state.batch_size", std::to_string(batch),
         std::to_string(state.batch_size()));
  expect(static_cast<const MambaState::Impl&>(state).shape == shape_, who, "state",
         "a state with the sizes of this block", "other sizes");
}

std::shared_ptr<const MambaLayer> make_mamba_layer(const WeightMap& weights, const MambaOptions& options,
                                                   const char* who) {
  if (const auto* o = std::get_if<Mamba1Options>(&options)) return make_mamba1(weights, *o, who);
  if (const auto* o = std::get_if<Mamba2Options>(&options)) return make_mamba2(weights, *o, who);
  return make_mamba3(weights, std::get<Mamba3Options>(options), who);
}

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
#include "nn/mamba_layer.h"

#include "core/checked.h"

namespace isobit {

void MambaLayer::load_outer(const WeightMap& weights, const std::string& norm, double eps, const char* who) {
  norm_.eps = static_cast<float>(eps);
  place_values(norm_.weight, weights, {norm + ".weight"}, who);
  d_model_ = static_cast<int64_t>(norm_.weight.size());
  place_matrix(in_, weights, {"in_proj.weight"}, who);
  place_matrix(out_, weights, {"out_proj.weight"}, who);
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

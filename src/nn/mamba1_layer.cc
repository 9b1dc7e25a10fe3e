// SPDX-License-Identifier: Apache-2.0
// Mamba 1 (contract 7b.2):
//   [x, z] = in_proj n              u = silu(conv(x))
//   [dt, B, C] = x_proj u           [each divided by its root mean square, where inner_norm is set]
//   dt = softplus(dt_proj dt + b)   S = fma(exp(dt*A), S, (dt*B)*u)   y = fma(D, u, DOT(C, S))
//   out_proj(silu(z) * y)
#include "core/checked.h"
#include "kernels/table.h"
#include "nn/mamba_layer.h"
#include "nn/weight_checker.h"

namespace isobit {
namespace {

class Mamba1Layer final : public MambaLayer {
 public:
  Mamba1Layer(const WeightMap& weights, const Mamba1Options& o, const MambaShape& shape, const char* who);

 private:
  float* mix(float* in, const TokenBatch& pass, const std::vector<ops::RowRun>& runs, MambaState::Impl& state,
             Workspace& workspace, Faults& faults, int64_t layer) const override;
  void inner_norm(float* parameters, const TokenBatch& pass, Faults& faults, int64_t layer) const;

  bool inner_norm_ = false;
  float inner_eps_ = 0.0f;
  std::vector<float> ones_;
  PackedMatrix parameters_, step_;
  std::vector<float> step_bias_;
  ops::ConvWeights conv_;
  ops::SelectiveWeights scan_;
  ops::GatedNorm gate_;
};

Mamba1Layer::Mamba1Layer(const WeightMap& weights, const Mamba1Options& o, const MambaShape& shape,
                         const char* who)
    : MambaLayer(o), inner_norm_(o.inner_norm), inner_eps_(static_cast<float>(o.inner_norm_eps)) {
  shape_ = shape;
  load_outer(weights, "norm", o.norm_eps, who);
  place_matrix(parameters_, weights, {"x_proj.weight"}, who, o.weight_format);
  place_matrix(step_, weights, {"dt_proj.weight"}, who, o.weight_format);
  place_values(step_bias_, weights, {"dt_proj.bias"}, who);
  const std::vector<float>& taps = keep(weights, "conv1d.weight", who);
  const std::vector<float> no_bias;
  const std::vector<float>& bias =
      weights.contains("conv1d.bias") ? keep(weights, "conv1d.bias", who) : no_bias;
  conv_ = ops::make_conv(taps, bias, shape.channels, shape.conv_width);
  scan_ = {shape.channels, shape.states, (shape.channels + 15) / 16 * 16, {}, {}};
  place_values(scan_.d, weights, {"D"}, who);
  const std::vector<float>& a_log = keep(weights, "A_log", who);
  std::vector<float> a(a_log.size());
  kernels::active_table().unary(kernels::Unary::kExp, a_log.data(), static_cast<int64_t>(a.size()), a.data());
  scan_.a.assign(static_cast<size_t>(shape.states * scan_.ld), 0.0f);
  for (int64_t e = 0; e < shape.channels; ++e)
    for (int64_t n = 0; n < shape.states; ++n)
      scan_.a[static_cast<size_t>(n * scan_.ld + e)] = -a[static_cast<size_t>(e * shape.states + n)];
  const int64_t size = static_cast<int64_t>(scan_.a.size());
  expect(kernels::active_table().first_nonfinite(scan_.a.data(), size) == size, who, "A_log",
         "values with a finite exponential", "a larger one");
  ones_.assign(static_cast<size_t>(std::max(step_.k, shape.states)), 1.0f);
  gate_.norm = false;
}

void Mamba1Layer::inner_norm(float* parameters, const TokenBatch& pass, Faults& faults, int64_t layer) const {
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t width = parameters_.n;
  for (int64_t t = 0; t < pass.tokens; ++t) {
    float* row = parameters + t * width;
    bool finite = true;
    for (int64_t at = 0; at < width;) {
      const int64_t n = at == 0 ? step_.k : shape_.states;
      finite = table.rms_norm(row + at, n, 1, n, ones_.data(), inner_eps_, false, row + at, n) == 1 && finite;
      at += n;
    }
    if (finite) continue;
    faults.record(pass.segment_of(t).row, pass.position_of(t), layer, Stage::kInnerNorm);
    std::fill_n(row, width, 0.0f);
  }
}

float* Mamba1Layer::mix(float* in, const TokenBatch& pass, const std::vector<ops::RowRun>& runs,
                        MambaState::Impl& state, Workspace& w, Faults& faults, int64_t layer) const {
  const int64_t tokens = pass.tokens, channels = shape_.channels, width = parameters_.n;
  float* u = w.convolved.at_least(tokens * channels);
  float* parameters = w.parameters.at_least(tokens * width);
  float* dt = w.steps.at_least(tokens * channels);
  float* y = w.mixed.at_least(tokens * channels);

  ops::causal_conv(conv_, in, 2 * channels, runs, state, u, channels);
  ops::require_finite(pass, u, channels, channels, faults, layer, Stage::kConvolution);
  if (!ops::linear(u, channels, tokens, parameters_, nullptr, parameters, width))
    faults.sanitize(pass, layer, Stage::kSsmParameters, parameters, width, width);
  if (inner_norm_) inner_norm(parameters, pass, faults, layer);
  if (!ops::linear(parameters, width, tokens, step_, step_bias_.data(), dt, channels))
    faults.sanitize(pass, layer, Stage::kTimeStep, dt, channels, channels);
  ops::over_tokens(tokens, channels, [&](int64_t first, int64_t count) {
    float* at = dt + first * channels;
    kernels::active_table().unary(kernels::Unary::kSoftplus, at, count * channels, at);
  });
  ops::selective_scan(scan_, dt, u, parameters, width, step_.k, runs, state, y);
  ops::require_finite(pass, y, channels, channels, faults, layer, Stage::kScan);
  ops::gate(gate_, in + channels, 2 * channels, channels, pass, y, faults, layer);
  return y;
}

}  // namespace

MambaShape check_mamba1(const WeightMap& weights, const Mamba1Options& o, const char* who) {
  WeightChecker check(weights, who);
  check.finite_positive("norm_eps", o.norm_eps);
  check.finite_positive("inner_norm_eps", o.inner_norm_eps);
  const int64_t d = check.require("norm.weight", 1).shape[0];
  const std::vector<int64_t> a = check.require("A_log", 2).shape;
  const int64_t channels = a[0], states = a[1];
  const int64_t width = check.conv("conv1d.weight", channels);
  const int64_t rank = check.require("dt_proj.weight", 2).shape[1];
  expect(states <= kernels::kMaxStates, who, "A_log",
         "at most " + std::to_string(kernels::kMaxStates) + " states", std::to_string(states));
  check.shape("norm.weight", {d});
  check.shape("in_proj.weight", {checked_mul(2, channels), d});
  check.if_there("in_proj.bias", {2 * channels});
  check.if_there("conv1d.bias", {channels});
  check.shape("x_proj.weight", {rank + 2 * states, channels});
  check.shape("dt_proj.weight", {channels, rank});
  check.shape("dt_proj.bias", {channels});
  check.shape("A_log", {channels, states});
  check.shape("D", {channels});
  check.shape("out_proj.weight", {d, channels});
  check.if_there("out_proj.bias", {d});
  check.no_others();
  return {
      .version = 1, .channels = channels, .states = states, .conv_channels = channels, .conv_width = width};
}

std::shared_ptr<const MambaLayer> make_mamba1(const WeightMap& weights, const Mamba1Options& o,
                                              const char* who) {
  return std::make_shared<const Mamba1Layer>(weights, o, check_mamba1(weights, o, who), who);
}

}  // namespace isobit

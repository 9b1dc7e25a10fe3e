// SPDX-License-Identifier: Apache-2.0
// Mamba 2 (contract 7b.3); head k reads group k / (heads / groups) of B and C:
//   [z, xBC, dt] = in_proj n        [x, B, C] = silu(conv(xBC))
//   dt = softplus(dt + dt_bias) limited to dt_min..dt_max       decay = exp(dt*A)
//   S = fma(decay, S, (x*dt)*B)     y = fma(D, x, DOT(C, S))
//   out_proj(gated norm of y and z)
#include "core/checked.h"
#include "kernels/table.h"
#include "nn/mamba_layer.h"
#include "nn/weight_checker.h"

namespace isobit {
namespace {

class Mamba2Layer final : public MambaLayer {
 public:
  Mamba2Layer(const WeightMap& weights, const Mamba2Options& o, const MambaShape& shape,
              const MambaExtras& extras, const char* who);

 private:
  float* mix(float* in, const TokenBatch& pass, const std::vector<ops::RowRun>& runs, MambaState::Impl& state,
             Workspace& workspace, Faults& faults, int64_t layer) const override;

  ops::ConvWeights conv_;
  ops::HeadWeights scan_;
  ops::GatedNorm gate_;
};

Mamba2Layer::Mamba2Layer(const WeightMap& weights, const Mamba2Options& o, const MambaShape& shape,
                         const MambaExtras& extras, const char* who)
    : MambaLayer(o) {
  shape_ = shape;
  load_outer(weights, "block_norm", o.norm_eps, who);
  load_extras(weights, o.norm_eps, extras, who);
  const std::vector<float>& taps = keep(weights, "conv1d.weight", who);
  const std::vector<float> no_bias;
  const std::vector<float>& bias =
      weights.contains("conv1d.bias") ? keep(weights, "conv1d.bias", who) : no_bias;
  conv_ = ops::make_conv(taps, bias, shape.conv_channels, shape.conv_width);
  scan_.heads = shape.heads;
  scan_.head_dim = shape.head_dim;
  scan_.states = shape.states;
  scan_.groups = o.n_groups;
  scan_.dt_min = static_cast<float>(o.dt_min);
  scan_.dt_max = static_cast<float>(o.dt_max);
  place_values(scan_.dt_bias, weights, {"dt_bias"}, who);
  place_values(scan_.d, weights, {"D"}, who);
  scan_.a = keep(weights, "A_log", who);
  const kernels::KernelTable& table = kernels::active_table();
  table.unary(kernels::Unary::kExp, scan_.a.data(), shape.heads, scan_.a.data());
  for (float& a : scan_.a) a = -a;
  expect(table.first_nonfinite(scan_.a.data(), shape.heads) == shape.heads, who, "A_log",
         "values with a finite exponential", "a larger one");
  gate_.norm = weights.contains("norm.weight");
  gate_.before_gate = o.norm_before_gate;
  gate_.groups = o.grouped_norm ? o.n_groups : 1;
  gate_.eps = static_cast<float>(o.gated_norm_eps);
  if (gate_.norm) place_values(gate_.weight, weights, {"norm.weight"}, who);
}

float* Mamba2Layer::mix(float* in, const TokenBatch& pass, const std::vector<ops::RowRun>& runs,
                        MambaState::Impl& state, Workspace& w, Faults& faults, int64_t layer) const {
  const int64_t tokens = pass.tokens, channels = shape_.channels, conv = shape_.conv_channels, width = in_.n;
  float* x = w.convolved.at_least(tokens * conv);
  float* steps = w.steps.at_least(tokens * 2 * shape_.heads);
  float* y = w.mixed.at_least(tokens * channels);

  ops::causal_conv(conv_, in + channels, width, runs, state, x, conv);
  ops::require_finite(pass, x, conv, conv, faults, layer, Stage::kConvolution);
  ops::head_steps(scan_, in + channels + conv, width, tokens, steps);
  ops::require_finite(pass, steps, 2 * shape_.heads, 2 * shape_.heads, faults, layer, Stage::kTimeStep);
  ops::head_scan(scan_, x, conv, steps, runs, state, y);
  ops::require_finite(pass, y, channels, channels, faults, layer, Stage::kScan);
  ops::gate(gate_, in, width, channels, pass, y, faults, layer);
  return y;
}

}  // namespace

MambaShape check_mamba2(const WeightMap& weights, const Mamba2Options& o, const char* who,
                        MambaExtras& extras) {
  WeightChecker check(weights, who);
  check.finite_positive("norm_eps", o.norm_eps);
  check.finite_positive("gated_norm_eps", o.gated_norm_eps);
  check.positive("n_groups", o.n_groups);
  expect(o.dt_min >= 0 && std::isfinite(static_cast<float>(o.dt_min)) && o.dt_max >= o.dt_min, who,
         "dt_limit", "0 <= lower <= upper, the lower one finite",
         number_text(o.dt_min) + ", " + number_text(o.dt_max));
  const int64_t d = check.require("block_norm.weight", 1).shape[0];
  const int64_t heads = check.require("A_log", 1).shape[0];
  const int64_t channels = check.require("out_proj.weight", 2).shape[1];
  const int64_t conv =
      check
          .require("conv1d.weight",
                   weights.contains("conv1d.weight") && weights.at("conv1d.weight").shape.size() == 2 ? 2 : 3)
          .shape[0];
  expect(channels % heads == 0, who, "out_proj.weight",
         "a multiple of the " + std::to_string(heads) + " heads as columns", std::to_string(channels));
  expect(heads % o.n_groups == 0, who, "n_groups", "a divisor of the " + std::to_string(heads) + " heads",
         std::to_string(o.n_groups));
  const int64_t both = checked_mul(2, o.n_groups);
  expect(conv > channels && (conv - channels) % both == 0, who, "conv1d.weight",
         "channels (" + std::to_string(channels) + ") + 2 * n_groups * states rows", std::to_string(conv));
  const int64_t states = (conv - channels) / both;
  expect(states <= kernels::kMaxStates, who, "conv1d.weight",
         "at most " + std::to_string(kernels::kMaxStates) + " states", std::to_string(states));
  const int64_t width = check.conv("conv1d.weight", conv);
  check.shape("block_norm.weight", {d});
  check.shape("in_proj.weight", {channels + conv + heads, d});
  check.if_there("in_proj.bias", {channels + conv + heads});
  check.if_there("conv1d.bias", {conv});
  check.shape("dt_bias", {heads});
  check.shape("A_log", {heads});
  check.shape("D", {heads});
  check.if_there("norm.weight", {channels});
  check.shape("out_proj.weight", {d, channels});
  check.if_there("out_proj.bias", {d});
  check_extras(extras, weights, check, d, who);
  check.no_others();
  return {.version = 2,
          .channels = channels,
          .states = states,
          .conv_channels = conv,
          .conv_width = width,
          .heads = heads,
          .head_dim = channels / heads};
}

std::shared_ptr<const MambaLayer> make_mamba2(const WeightMap& weights, const Mamba2Options& o,
                                              const char* who, MambaExtras extras) {
  const MambaShape shape = check_mamba2(weights, o, who, extras);
  return std::make_shared<const Mamba2Layer>(weights, o, shape, extras, who);
}

}  // namespace isobit

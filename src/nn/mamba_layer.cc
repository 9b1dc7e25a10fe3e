// SPDX-License-Identifier: Apache-2.0
#include "nn/mamba_layer.h"

#include <algorithm>

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

void MambaLayer::load_extras(const WeightMap& weights, double eps, const MambaExtras& extras,
                             const char* who) {
  multipliers_ = extras.multipliers;
  if (extras.parts.attention_beside)
    beside_.emplace(*this, weights, "", extras.attention, who, multipliers_.key);
  if (extras.parts.shared_block >= 0) {
    shared_ = extras.shared ? extras.shared
                            : std::make_shared<const SharedBlock>(*this, weights, extras.attention, who);
    load_shared_use(shared_use_, *this, weights, extras.attention.weight_format, who);
  }
  if (!weights.contains("post_attention_layernorm.weight")) return;
  mlp_norm_.eps = static_cast<float>(eps);
  place_values(mlp_norm_.weight, weights, {"post_attention_layernorm.weight"}, who);
  mlp_.emplace(*this, weights, "", MlpKind::kSwiGlu, MatrixForm{weight_format_of(options_)}, who,
               multipliers_);
}

void MambaLayer::forward(float* x, const TokenBatch& pass, const LayerStates& state, Workspace& w,
                         Faults& faults, int64_t layer) const {
  const int64_t tokens = pass.tokens, d = d_model_;
  float* normed = w.normed.at_least(tokens * d);
  float* in = w.mixer_in.at_least(tokens * in_.n);
  float* out = w.projected.at_least(tokens * d);
  const auto bias = [](const std::vector<float>& b) { return b.empty() ? nullptr : b.data(); };
  const auto factor = [](double m) { return static_cast<float>(m); };

  const float* input = x;
  if (shared_) {
    shared_->forward(x, shared_use_, pass, *state.attention, w, out, faults, layer);
    if (!ops::residual(out, x, tokens * d))
      faults.sanitize(pass, layer, Stage::kAttentionResidual, out, d, d);
    input = out;
  }
  ops::norm(norm_, input, pass, normed, faults, layer, Stage::kInputNorm);
  float* beside = nullptr;
  if (beside_) {
    beside = w.beside.at_least(tokens * d);
    run_attention(normed, pass, state, w, beside, faults, layer);
  }
  ops::scale(normed, d, tokens, d, factor(multipliers_.ssm_in));
  if (!ops::linear(normed, d, tokens, in_, bias(in_bias_), in, in_.n))
    faults.sanitize(pass, layer, Stage::kSsmInput, in, in_.n, in_.n);
  scale_input(in, tokens);
  const std::vector<ops::RowRun> runs = ops::runs_of(pass);
  const float* mixed = mix(in, pass, runs, *state.mamba, w, faults, layer);
  for (const Segment& s : pass.segments) state.mamba->took(s.row, s.count);
  if (!ops::linear(mixed, shape_.channels, tokens, out_, bias(out_bias_), out, d))
    faults.sanitize(pass, layer, Stage::kOutput, out, d, d);
  ops::scale(out, d, tokens, d, factor(multipliers_.ssm_out));
  if (beside && !ops::residual(out, beside, tokens * d))
    faults.sanitize(pass, layer, Stage::kOutput, out, d, d);
  ops::scale(out, d, tokens, d, factor(multipliers_.residual));
  if (!ops::residual(x, out, tokens * d)) faults.sanitize(pass, layer, Stage::kMixerResidual, x, d, d);
  if (!mlp_) return;
  ops::norm(mlp_norm_, x, pass, normed, faults, layer, Stage::kPostNorm);
  mlp_->forward(normed, pass, w, out, faults, layer);
  ops::scale(out, d, tokens, d, factor(multipliers_.residual));
  if (!ops::residual(x, out, tokens * d)) faults.sanitize(pass, layer, Stage::kMlpResidual, x, d, d);
}

void MambaLayer::run_attention(const float* normed, const TokenBatch& pass, const LayerStates& state,
                               Workspace& w, float* out, Faults& faults, int64_t layer) const {
  const int64_t tokens = pass.tokens, d = d_model_;
  if (multipliers_.attention_in != 1) {
    float* scaled = w.scaled.at_least(tokens * d);
    std::copy_n(normed, tokens * d, scaled);
    ops::scale(scaled, d, tokens, d, static_cast<float>(multipliers_.attention_in));
    normed = scaled;
  }
  beside_->forward(normed, pass, *state.attention, w, out, faults, layer);
  ops::scale(out, d, tokens, d, static_cast<float>(multipliers_.attention_out));
}

// in: [tokens] rows z | x | B | C | dt.
void MambaLayer::scale_input(float* in, int64_t tokens) const {
  const int64_t group = (shape_.conv_channels - shape_.channels) / 2;
  const int64_t widths[] = {shape_.channels, shape_.channels, group, group, shape_.heads};
  for (size_t i = 0; i < multipliers_.ssm.size(); in += widths[i++])
    ops::scale(in, in_.n, tokens, widths[i], static_cast<float>(multipliers_.ssm[i]));
}

void check_extras(MambaExtras& extras, const WeightMap& weights, WeightChecker& check, int64_t d_model,
                  const char* who) {
  if (extras.parts.attention_beside) check_attention(extras.attention, "", d_model, d_model, check, who);
  if (extras.parts.shared_block >= 0)
    check_shared_block(extras.attention, extras.shared == nullptr, weights, d_model, check, who);
  if (!weights.contains("post_attention_layernorm.weight")) return;
  check.shape("post_attention_layernorm.weight", {d_model});
  check_mlp(MlpKind::kSwiGlu, weights.contains("down_proj.bias"), "", d_model, weights, check, who);
}

AnyState MambaLayer::allocate_state(int64_t batch_size, int64_t max_tokens) const {
  AnyState state;
  state.mamba = MambaState(shape_, batch_size);
  if (attention()) state.attention = attention()->allocate_state(batch_size, max_tokens);
  return state;
}

void MambaLayer::check_state(const char* who, const LayerStates& state, std::span<const int64_t> more) const {
  const auto batch = static_cast<int64_t>(more.size());
  expect(batch == state.mamba->batch_size(), who, "state.batch_size", std::to_string(batch),
         std::to_string(state.mamba->batch_size()));
  expect(state.mamba->shape == shape_, who, "state", "a state with the sizes of this block", "other sizes");
  if (attention()) attention()->check_state(who, state, more);
}

std::shared_ptr<const MambaLayer> make_mamba_layer(const WeightMap& weights, const MambaOptions& options,
                                                   const char* who, const MambaExtras& extras) {
  if (const auto* o = std::get_if<Mamba1Options>(&options)) return make_mamba1(weights, *o, who);
  if (const auto* o = std::get_if<Mamba2Options>(&options)) return make_mamba2(weights, *o, who, extras);
  return make_mamba3(weights, std::get<Mamba3Options>(options), who);
}

}  // namespace isobit

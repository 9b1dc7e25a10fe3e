// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer_layer.h"

namespace isobit {

TransformerLayer::TransformerLayer(const WeightMap& weights, const TransformerOptions& options,
                                   const char* who, const LayerParts& parts, const Multipliers& multipliers)
    : options_(options), residual_multiplier_(static_cast<float>(multipliers.residual)) {
  const auto load_norm = [&](ops::NormWeights& norm, const std::string& name) {
    norm.kind = options.norm;
    norm.eps = static_cast<float>(options.norm_eps);
    place_values(norm.weight, weights, {name + ".weight"}, who);
    if (options.norm_bias) place_values(norm.bias, weights, {name + ".bias"}, who);
    d_model_ = static_cast<int64_t>(norm.weight.size());
  };
  if (parts.mixer) load_norm(input_norm_, "input_layernorm");
  if (parts.mlp) load_norm(post_norm_, "post_attention_layernorm");
  if (parts.mixer) attention_.emplace(*this, weights, "", options, who, multipliers.key);
  if (parts.mlp)
    mlp_.emplace(*this, weights, "", options.mlp, MatrixForm{options.weight_format, options.numeric_profile},
                 who, multipliers);
}

void TransformerLayer::forward(float* x, const TokenBatch& pass, const LayerStates& state, Workspace& w,
                               Faults& faults, int64_t layer) const {
  const int64_t tokens = pass.tokens, d = d_model_;
  float* normed = w.normed.at_least(tokens * d);
  float* projected = w.projected.at_least(tokens * d);
  const auto add_to_x = [&](Stage stage) {
    ops::scale(projected, d, tokens, d, residual_multiplier_);
    if (!ops::residual(x, projected, tokens * d)) faults.sanitize(pass, layer, stage, x, d, d);
  };
  if (attention_) {
    ops::norm(input_norm_, x, pass, normed, faults, layer, Stage::kInputNorm);
    attention_->forward(normed, pass, *state.attention, w, projected, faults, layer);
    add_to_x(Stage::kAttentionResidual);
  }
  if (mlp_) {
    ops::norm(post_norm_, x, pass, normed, faults, layer, Stage::kPostNorm);
    mlp_->forward(normed, pass, w, projected, faults, layer);
    add_to_x(Stage::kMlpResidual);
  }
}

AnyState TransformerLayer::allocate_state(int64_t batch_size, int64_t max_tokens) const {
  AnyState state;
  if (attention_) state.attention = attention_->allocate_state(batch_size, max_tokens);
  return state;
}

void TransformerLayer::check_state(const char* who, const LayerStates& state,
                                   std::span<const int64_t> more) const {
  if (attention_) attention_->check_state(who, state, more);
}

}  // namespace isobit

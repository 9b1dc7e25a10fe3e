// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer_layer.h"

#include <algorithm>
#include <cmath>

#include "nn/check_call.h"

namespace isobit {

TransformerLayer::TransformerLayer(const WeightMap& weights, const TransformerOptions& options,
                                   const char* who)
    : options_(options) {
  d_model_ = weights.at("input_layernorm.weight").shape[0];
  intermediate_ = weights.at("up_proj.weight").shape[0];
  heads_ = {options.n_heads, *options.n_kv_heads, *options.head_dim};
  const float eps = static_cast<float>(options.norm_eps);
  const auto load_norm = [&](ops::NormWeights& norm, const std::string& name) {
    norm.kind = options.norm;
    norm.eps = eps;
    place_values(norm.weight, weights, {name + ".weight"}, who);
    if (options.norm_bias) place_values(norm.bias, weights, {name + ".bias"}, who);
  };
  load_norm(input_norm_, "input_layernorm");
  load_norm(post_norm_, "post_attention_layernorm");
  place_matrix(qkv_, weights, {"q_proj.weight", "k_proj.weight", "v_proj.weight"}, who,
               options.weight_format);
  place_matrix(output_, weights, {"o_proj.weight"}, who, options.weight_format);
  if (options.qkv_bias) place_values(qkv_bias_, weights, {"q_proj.bias", "k_proj.bias", "v_proj.bias"}, who);
  if (options.o_bias) place_values(output_bias_, weights, {"o_proj.bias"}, who);
  if (is_gated(options.mlp))
    place_matrix(gate_up_, weights, {"gate_proj.weight", "up_proj.weight"}, who, options.weight_format);
  else
    place_matrix(gate_up_, weights, {"up_proj.weight"}, who, options.weight_format);
  place_matrix(down_, weights, {"down_proj.weight"}, who, options.weight_format);
  if (options.mlp_bias) {
    if (is_gated(options.mlp)) place_values(gate_up_bias_, weights, {"gate_proj.bias"}, who);
    place_values(gate_up_bias_, weights, {"up_proj.bias"}, who);
    place_values(down_bias_, weights, {"down_proj.bias"}, who);
  }
  head_norm_.eps = eps;
  head_norm_.offset = options.norm == NormKind::kRmsNormOffset;
  if (options.qk_norm) {
    place_values(head_norm_.query, weights, {"q_norm.weight"}, who);
    place_values(head_norm_.key, weights, {"k_norm.weight"}, who);
  }
  // 1/sqrt(head_dim) in binary64, then one rounding; the binary64 root and division are correctly rounded
  // everywhere.
  attention_ = {options.window, static_cast<float>(1.0 / std::sqrt(static_cast<double>(heads_.head_dim))),
                static_cast<float>(options.attn_softcap.value_or(0.0))};
  rope_ =
      RopeTable::shared(*options.rope_dim, options.rope_theta, options.rope_scaling, options.max_positions);
}

void TransformerLayer::forward(float* x, const TokenBatch& pass, LayerState& state, Workspace& w,
                               Faults& faults, int64_t layer) const {
  KvCache& cache = static_cast<TransformerState::Impl&>(state).cache;
  const int64_t tokens = pass.tokens, d = d_model_;
  const int64_t q_width = heads_.heads * heads_.head_dim, kv_width = heads_.kv_heads * heads_.head_dim;
  float* normed = w.normed.at_least(tokens * d);
  float* qkv = w.qkv.at_least(tokens * heads_.width());
  float* attended = w.attended.at_least(tokens * q_width);
  float* projected = w.projected.at_least(tokens * d);
  float* gate_up = w.gate_up.at_least(tokens * gate_up_.n);
  float* activated = w.activated.at_least(tokens * intermediate_);
  const auto bias = [](const std::vector<float>& b) { return b.empty() ? nullptr : b.data(); };

  ops::norm(input_norm_, x, pass, normed, faults, layer, Stage::kInputNorm);
  if (!ops::linear(normed, d, tokens, qkv_, bias(qkv_bias_), qkv, heads_.width())) {
    faults.sanitize(pass, layer, Stage::kQuery, qkv, heads_.width(), q_width);
    faults.sanitize(pass, layer, Stage::kKey, qkv + q_width, heads_.width(), kv_width);
    faults.sanitize(pass, layer, Stage::kValue, qkv + q_width + kv_width, heads_.width(), kv_width);
  }
  ops::rotate_and_cache(heads_, head_norm_, *rope_, qkv, pass, cache, faults, layer);
  ops::attention(heads_, attention_, qkv, pass, cache, attended, faults, layer);
  if (!ops::linear(attended, q_width, tokens, output_, bias(output_bias_), projected, d))
    faults.sanitize(pass, layer, Stage::kOutput, projected, d, d);
  if (!ops::residual(x, projected, tokens * d))
    faults.sanitize(pass, layer, Stage::kAttentionResidual, x, d, d);

  ops::norm(post_norm_, x, pass, normed, faults, layer, Stage::kPostNorm);
  if (!ops::linear(normed, d, tokens, gate_up_, bias(gate_up_bias_), gate_up, gate_up_.n)) {
    const int64_t gate = gate_up_.n - intermediate_;
    faults.sanitize(pass, layer, Stage::kGate, gate_up, gate_up_.n, gate);
    faults.sanitize(pass, layer, Stage::kUp, gate_up + gate, gate_up_.n, intermediate_);
  }
  if (!ops::activation(options_.mlp, gate_up, tokens, intermediate_, activated))
    faults.sanitize(pass, layer, Stage::kActivation, activated, intermediate_, intermediate_);
  if (!ops::linear(activated, intermediate_, tokens, down_, bias(down_bias_), projected, d))
    faults.sanitize(pass, layer, Stage::kDown, projected, d, d);
  if (!ops::residual(x, projected, tokens * d)) faults.sanitize(pass, layer, Stage::kMlpResidual, x, d, d);
}

AnyState TransformerLayer::allocate_state(int64_t batch_size, int64_t max_tokens) const {
  return TransformerState(batch_size, heads_.kv_heads, heads_.head_dim, max_tokens, options_.window);
}

void TransformerLayer::check_state(const char* who, const LayerState& state, int64_t batch,
                                   int64_t length) const {
  isobit::check_state(who, static_cast<const TransformerState::Impl&>(state), batch, heads_.kv_heads,
                      heads_.head_dim, options_.window, length);
}

}  // namespace isobit

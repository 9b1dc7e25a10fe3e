// SPDX-License-Identifier: Apache-2.0
#include "nn/attention.h"

#include <cmath>

#include "core/checked.h"
#include "nn/check_call.h"
#include "nn/weight_checker.h"
#include "ops/elementwise.h"

namespace isobit {
namespace {

constexpr int64_t kMaxHeadDim = 512;  // the score tile joins at most two 256-blocks

const float* data_or_null(const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); }

}  // namespace

void check_attention(TransformerOptions& o, const std::string& prefix, int64_t d_in, int64_t d_out,
                     WeightChecker& check, const char* who) {
  check.positive("n_heads", o.n_heads);
  if (!o.n_kv_heads) o.n_kv_heads = o.n_heads;
  check.positive("n_kv_heads", *o.n_kv_heads);
  expect(o.n_heads % *o.n_kv_heads == 0, who, "n_kv_heads",
         "a divisor of n_heads = " + std::to_string(o.n_heads), std::to_string(*o.n_kv_heads));
  if (!o.head_dim) {
    expect(d_in % o.n_heads == 0, who, "head_dim",
           "to be given where d_model = " + std::to_string(d_in) + " is no multiple of n_heads", "None");
    o.head_dim = d_in / o.n_heads;
  }
  check.positive("head_dim", *o.head_dim);
  expect(*o.head_dim % 2 == 0, who, "head_dim", "an even number", std::to_string(*o.head_dim));
  expect(*o.head_dim <= kMaxHeadDim, who, "head_dim", "at most " + std::to_string(kMaxHeadDim),
         std::to_string(*o.head_dim));
  expect(o.window >= 0, who, "window", "an integer >= 0", std::to_string(o.window));
  check.positive("max_positions", o.max_positions);
  if (!o.rope_dim) o.rope_dim = o.head_dim;
  check.finite_positive("norm_eps", o.norm_eps);
  if (o.attn_softcap) check.finite_positive("attn_softcap", *o.attn_softcap);
  if (o.attn_scale) check.finite_positive("attn_scale", *o.attn_scale);
  if (*o.rope_dim != 0)
    validate_rope(*o.head_dim, *o.rope_dim, o.rope_theta, o.rope_scaling, o.max_positions);

  const int64_t q = checked_mul(o.n_heads, *o.head_dim), kv = checked_mul(*o.n_kv_heads, *o.head_dim);
  check.shape(prefix + "q_proj.weight", {q, d_in});
  check.shape(prefix + "k_proj.weight", {kv, d_in});
  check.shape(prefix + "v_proj.weight", {kv, d_in});
  check.shape(prefix + "o_proj.weight", {d_out, q});
  check.optional(o.qkv_bias, "qkv_bias", prefix + "q_proj.bias", q);
  check.optional(o.qkv_bias, "qkv_bias", prefix + "k_proj.bias", kv);
  check.optional(o.qkv_bias, "qkv_bias", prefix + "v_proj.bias", kv);
  check.optional(o.o_bias, "o_bias", prefix + "o_proj.bias", d_out);
  check.optional(o.qk_norm, "qk_norm", prefix + "q_norm.weight", *o.head_dim);
  check.optional(o.qk_norm, "qk_norm", prefix + "k_norm.weight", *o.head_dim);
}

Attention::Attention(PlacedWeights& place, const WeightMap& weights, const std::string& prefix,
                     const TransformerOptions& options, const char* who, double key_multiplier)
    : heads_{options.n_heads, *options.n_kv_heads, *options.head_dim},
      numeric_profile_(options.numeric_profile),
      key_multiplier_(static_cast<float>(key_multiplier)) {
  const std::string q = prefix + "q_proj", k = prefix + "k_proj", v = prefix + "v_proj";
  place.place_matrix(qkv_, weights, {q + ".weight", k + ".weight", v + ".weight"}, who, options.weight_format,
                     options.numeric_profile);
  place.place_matrix(output_, weights, {prefix + "o_proj.weight"}, who, options.weight_format,
                     options.numeric_profile);
  if (options.qkv_bias) place.place_values(qkv_bias_, weights, {q + ".bias", k + ".bias", v + ".bias"}, who);
  if (options.o_bias) place.place_values(output_bias_, weights, {prefix + "o_proj.bias"}, who);
  head_norm_.eps = static_cast<float>(options.norm_eps);
  head_norm_.offset = options.norm == NormKind::kRmsNormOffset;
  if (options.qk_norm) {
    place.place_values(head_norm_.query, weights, {prefix + "q_norm.weight"}, who);
    place.place_values(head_norm_.key, weights, {prefix + "k_norm.weight"}, who);
  }
  // 1/sqrt(head_dim) in binary64, then one rounding; the binary64 root and division are correctly rounded
  // everywhere.
  const double scale = options.attn_scale.value_or(1.0 / std::sqrt(static_cast<double>(heads_.head_dim)));
  attention_ = {options.window, static_cast<float>(scale),
                static_cast<float>(options.attn_softcap.value_or(0.0)),
                options.numeric_profile == NumericProfile::kFixed15V1};
  if (*options.rope_dim != 0)
    rope_ =
        RopeTable::shared(*options.rope_dim, options.rope_theta, options.rope_scaling, options.max_positions);
}

void Attention::project(const float* normed, const TokenBatch& pass, float* qkv, Faults& faults,
                        int64_t layer) const {
  const int64_t q_width = heads_.heads * heads_.head_dim, kv_width = heads_.kv_heads * heads_.head_dim;
  if (!ops::linear(normed, qkv_.k, pass.tokens, qkv_, data_or_null(qkv_bias_), qkv, width())) {
    faults.sanitize(pass, layer, Stage::kQuery, qkv, width(), q_width);
    faults.sanitize(pass, layer, Stage::kKey, qkv + q_width, width(), kv_width);
    faults.sanitize(pass, layer, Stage::kValue, qkv + q_width + kv_width, width(), kv_width);
  }
  ops::scale(qkv + q_width, width(), pass.tokens, kv_width, key_multiplier_);
}

void Attention::attend(float* qkv, const TokenBatch& pass, TransformerState::Impl& state, Workspace& w,
                       float* out, Faults& faults, int64_t layer) const {
  state.numeric_profile = numeric_profile_;
  float* attended = w.attended.at_least(pass.tokens * output_.k);
  if (attention_.int15_scores) state.cache.keep_key_codes(state.cached());
  ops::rotate_and_cache(heads_, head_norm_, rope_.get(), qkv, pass, state.cache, faults, layer);
  ops::attention(heads_, attention_, qkv, pass, state.cache, attended, faults, layer);
  if (!ops::linear(attended, output_.k, pass.tokens, output_, data_or_null(output_bias_), out, output_.n))
    faults.sanitize(pass, layer, Stage::kOutput, out, output_.n, output_.n);
}

void Attention::forward(const float* normed, const TokenBatch& pass, TransformerState::Impl& state,
                        Workspace& w, float* out, Faults& faults, int64_t layer) const {
  float* qkv = w.qkv.at_least(pass.tokens * width());
  project(normed, pass, qkv, faults, layer);
  attend(qkv, pass, state, w, out, faults, layer);
}

TransformerState Attention::allocate_state(int64_t batch_size, int64_t max_tokens) const {
  return {batch_size, heads_.kv_heads, heads_.head_dim, max_tokens, attention_.window, numeric_profile_};
}

void Attention::check_state(const char* who, const LayerStates& state, std::span<const int64_t> more) const {
  isobit::check_state(who, *state.attention, heads_.kv_heads, heads_.head_dim, attention_.window,
                      numeric_profile_, more);
}

void Attention::reserve_positions(int64_t positions) const {
  if (rope_) rope_->reserve(positions);
}

}  // namespace isobit

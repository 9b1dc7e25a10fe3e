// SPDX-License-Identifier: Apache-2.0
// The rules a decoder block's options and weights must keep, all checked before any work.
#include <string>

#include "core/checked.h"
#include "nn/rope_table.h"
#include "nn/transformer_layer.h"
#include "nn/weight_checker.h"

namespace isobit {
namespace {

constexpr int64_t kMaxHeadDim = 512;  // the score tile joins at most two 256-blocks

}  // namespace

TransformerOptions resolve_options(const TransformerOptions& given, const WeightMap& weights,
                                   const char* who) {
  TransformerOptions o = given;
  WeightChecker check(weights, who);
  const int64_t d = check.require("input_layernorm.weight", 1).shape[0];

  check.positive("n_heads", o.n_heads);
  if (!o.n_kv_heads) o.n_kv_heads = o.n_heads;
  check.positive("n_kv_heads", *o.n_kv_heads);
  expect(o.n_heads % *o.n_kv_heads == 0, who, "n_kv_heads",
         "a divisor of n_heads = " + std::to_string(o.n_heads), std::to_string(*o.n_kv_heads));
  if (!o.head_dim) {
    expect(d % o.n_heads == 0, who, "head_dim",
           "to be given where d_model = " + std::to_string(d) + " is no multiple of n_heads", "None");
    o.head_dim = d / o.n_heads;
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
  validate_rope(*o.head_dim, *o.rope_dim, o.rope_theta, o.rope_scaling, o.max_positions);
  expect(!o.norm_bias || o.norm == NormKind::kLayerNorm, who, "norm_bias", "norm='layernorm'",
         std::string("norm='") + to_string(o.norm) + "'");
  expect(!o.qk_norm || o.norm != NormKind::kLayerNorm, who, "qk_norm", "norm='rmsnorm' or 'rmsnorm_offset'",
         "norm='layernorm'");

  const int64_t q = checked_mul(o.n_heads, *o.head_dim), kv = checked_mul(*o.n_kv_heads, *o.head_dim);
  check.shape("input_layernorm.weight", {d});
  check.shape("post_attention_layernorm.weight", {d});
  check.shape("q_proj.weight", {q, d});
  check.shape("k_proj.weight", {kv, d});
  check.shape("v_proj.weight", {kv, d});
  check.shape("o_proj.weight", {d, q});
  const bool gated = is_gated(o.mlp);
  const int64_t width = check.require(gated ? "gate_proj.weight" : "up_proj.weight", 2).shape[0];
  if (gated)
    check.shape("gate_proj.weight", {width, d});
  else
    expect(!weights.contains("gate_proj.weight"), who, "gate_proj.weight",
           std::string("no such weight with mlp='") + to_string(o.mlp) + "'", "this weight");
  check.shape("up_proj.weight", {width, d});
  check.shape("down_proj.weight", {d, width});
  check.optional(o.qkv_bias, "qkv_bias", "q_proj.bias", q);
  check.optional(o.qkv_bias, "qkv_bias", "k_proj.bias", kv);
  check.optional(o.qkv_bias, "qkv_bias", "v_proj.bias", kv);
  check.optional(o.o_bias, "o_bias", "o_proj.bias", d);
  check.optional(o.norm_bias, "norm_bias", "input_layernorm.bias", d);
  check.optional(o.norm_bias, "norm_bias", "post_attention_layernorm.bias", d);
  check.optional(o.mlp_bias && gated, gated ? "mlp_bias" : "a gated mlp", "gate_proj.bias", width);
  check.optional(o.mlp_bias, "mlp_bias", "up_proj.bias", width);
  check.optional(o.mlp_bias, "mlp_bias", "down_proj.bias", d);
  check.optional(o.qk_norm, "qk_norm", "q_norm.weight", *o.head_dim);
  check.optional(o.qk_norm, "qk_norm", "k_norm.weight", *o.head_dim);
  check.no_others();
  return o;
}

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// The rules a decoder block's options and weights must keep, all checked before any work.
#include <string>

#include "core/checked.h"
#include "nn/transformer_layer.h"
#include "nn/weight_checker.h"

namespace isobit {

TransformerOptions resolve_options(const TransformerOptions& given, const WeightMap& weights, const char* who,
                                   const LayerParts& parts) {
  TransformerOptions o = given;
  WeightChecker check(weights, who);
  const char* first = parts.mixer ? "input_layernorm.weight" : "post_attention_layernorm.weight";
  const int64_t d = check.require(first, 1).shape[0];
  expect(!o.norm_bias || o.norm == NormKind::kLayerNorm, who, "norm_bias", "norm='layernorm'",
         std::string("norm='") + to_string(o.norm) + "'");
  expect(!o.qk_norm || o.norm != NormKind::kLayerNorm, who, "qk_norm", "norm='rmsnorm' or 'rmsnorm_offset'",
         "norm='layernorm'");
  const auto check_norm = [&](const std::string& name) {
    check.shape(name + ".weight", {d});
    check.optional(o.norm_bias, "norm_bias", name + ".bias", d);
  };
  if (parts.mixer) {
    check_norm("input_layernorm");
    check_attention(o, "", d, d, check, who);
  }
  if (parts.mlp) {
    check_norm("post_attention_layernorm");
    check_mlp(o.mlp, o.mlp_bias, "", d, weights, check, who);
  }
  check.no_others();
  return o;
}

}  // namespace isobit

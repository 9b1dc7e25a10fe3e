// SPDX-License-Identifier: Apache-2.0
#include "nn/shared_block.h"

#include <cstring>

#include "core/checked.h"
#include "kernels/table.h"
#include "nn/weight_checker.h"
#include "ops/state_space.h"

namespace isobit {
namespace {

constexpr const char* kQkv[] = {"q", "k", "v"};

// Adds an adapter's part of [tokens, adapter.up.n] columns of y.
void adapt(const Adapter& a, const float* x, const TokenBatch& pass, float* y, int64_t ldy, Workspace& w,
           Faults& faults, int64_t layer, Stage stage) {
  if (a.up.n == 0) return;
  const int64_t rank = a.down.n, width = a.up.n;
  float* inner = w.adapter.at_least(pass.tokens * rank);
  float* added = w.adapted.at_least(pass.tokens * width);
  if (!ops::linear(x, a.down.k, pass.tokens, a.down, nullptr, inner, rank))
    faults.sanitize(pass, layer, stage, inner, rank, rank);
  ops::linear(inner, rank, pass.tokens, a.up, nullptr, added, width);
  ops::over_tokens(pass.tokens, width, [&](int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t)
      kernels::active_table().add(y + t * ldy, added + t * width, width, y + t * ldy);
  });
  ops::require_finite(pass, y, ldy, width, faults, layer, stage);
}

}  // namespace

SharedBlock::SharedBlock(PlacedWeights& place, const WeightMap& weights, const TransformerOptions& options,
                         const char* who)
    : attention_(place, weights, "shared.", options, who),
      mlp_(place, weights, "shared.", options.mlp, MatrixForm{options.weight_format}, who) {
  input_norm_.eps = post_norm_.eps = static_cast<float>(options.norm_eps);
  place.place_values(input_norm_.weight, weights, {"shared.input_layernorm.weight"}, who);
  place.place_values(post_norm_.weight, weights, {"shared.post_attention_layernorm.weight"}, who);
}

void SharedBlock::forward(const float* x, const SharedUse& use, const TokenBatch& pass,
                          TransformerState::Impl& state, Workspace& w, float* out, Faults& faults,
                          int64_t layer) const {
  const int64_t tokens = pass.tokens, d = use.linear.k, width = attention_.width();
  float* both = w.shared.at_least(tokens * 2 * d);
  float* normed = w.scaled.at_least(tokens * 2 * d);
  float* qkv = w.qkv.at_least(tokens * width);
  float* attended = w.beside.at_least(tokens * d);
  float* gate_up = w.gate_up.at_least(tokens * mlp_.width());
  const size_t row_bytes = static_cast<size_t>(d) * sizeof(float);
  for (int64_t t = 0; t < tokens; ++t) {
    std::memcpy(both + t * 2 * d, x + t * d, row_bytes);
    std::memcpy(both + t * 2 * d + d, w.embedded.data() + t * d, row_bytes);
  }
  ops::norm(input_norm_, both, pass, normed, faults, layer, Stage::kInputNorm);
  attention_.project(normed, pass, qkv, faults, layer);
  int64_t column = 0;
  for (size_t i = 0; i < use.qkv.size(); ++i) {
    constexpr Stage kStages[] = {Stage::kQuery, Stage::kKey, Stage::kValue};
    adapt(use.qkv[i], normed, pass, qkv + column, width, w, faults, layer, kStages[i]);
    column += use.qkv[i].up.n;
  }
  attention_.attend(qkv, pass, state, w, attended, faults, layer);
  ops::norm(post_norm_, attended, pass, normed, faults, layer, Stage::kPostNorm);
  mlp_.project(normed, pass, gate_up, faults, layer);
  adapt(use.gate_up, normed, pass, gate_up, mlp_.width(), w, faults, layer, Stage::kGate);
  mlp_.finish(gate_up, pass, w, attended, faults, layer);
  if (!ops::linear(attended, d, tokens, use.linear, nullptr, out, d))
    faults.sanitize(pass, layer, Stage::kOutput, out, d, d);
}

void check_shared_block(TransformerOptions& o, bool has_block, const WeightMap& weights, int64_t d,
                        WeightChecker& check, const char* who) {
  const int64_t inner = check.require("adapter.gate_up.up", 2).shape[0];
  if (has_block) {
    check.shape("shared.input_layernorm.weight", {2 * d});
    check_attention(o, "shared.", 2 * d, d, check, who);
    check.shape("shared.post_attention_layernorm.weight", {d});
    check_mlp(o.mlp, o.mlp_bias, "shared.", d, weights, check, who);
    const int64_t width = weights.at("shared.gate_proj.weight").shape[0];
    expect(inner == 2 * width, who, "adapter.gate_up.up", std::to_string(2 * width) + " rows",
           std::to_string(inner));
  }
  const auto check_adapter = [&](const std::string& name, int64_t in, int64_t out) {
    const int64_t rank = check.require(name + ".down", 2).shape[0];
    check.shape(name + ".down", {rank, in});
    check.shape(name + ".up", {out, rank});
  };
  check_adapter("adapter.gate_up", d, inner);
  for (const char* name : kQkv)
    if (weights.contains("adapter.q.down"))
      check_adapter(std::string("adapter.") + name, 2 * d,
                    (name[0] == 'q' ? o.n_heads : *o.n_kv_heads) * *o.head_dim);
  check.shape("linear.weight", {d, d});
}

void load_shared_use(SharedUse& use, PlacedWeights& place, const WeightMap& weights, WeightFormat format,
                     const char* who) {
  const auto load = [&](Adapter& a, const std::string& name) {
    place.place_matrix(a.down, weights, {name + ".down"}, who, format);
    place.place_matrix(a.up, weights, {name + ".up"}, who, format);
  };
  load(use.gate_up, "adapter.gate_up");
  for (size_t i = 0; i < use.qkv.size(); ++i)
    if (weights.contains("adapter.q.down")) load(use.qkv[i], std::string("adapter.") + kQkv[i]);
  place.place_matrix(use.linear, weights, {"linear.weight"}, who, format);
}

}  // namespace isobit

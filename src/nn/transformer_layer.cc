// SPDX-License-Identifier: Apache-2.0
#include "nn/transformer_layer.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "isobit/safetensors.h"
#include "kernels/table.h"

namespace isobit {

WorkspacePool::Lease::Lease(WorkspacePool& pool) : pool_(pool) {
  const std::lock_guard lock(pool_.mutex_);
  if (pool_.free_.empty()) {
    workspace_ = std::make_unique<Workspace>();
  } else {
    workspace_ = std::move(pool_.free_.back());
    pool_.free_.pop_back();
  }
}

WorkspacePool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  pool_.free_.push_back(std::move(workspace_));
}

void TransformerLayer::place_matrix(PackedMatrix& w, const WeightMap& weights, std::vector<std::string> names,
                                    const char* who) {
  std::vector<TensorView> parts;
  int64_t row = 0;
  for (const std::string& name : names) {
    parts.push_back(weights.at(name));
    const int64_t rows = parts.back().shape[0];
    places_.emplace_back(name, Place{.matrix = &w, .begin = row, .end = row + rows});
    row += rows;
  }
  w = ops::pack(parts, names, who, options_.weight_format);
}

void TransformerLayer::place_vector(std::vector<float>& v, const WeightMap& weights,
                                    const std::vector<std::string>& names, const char* who) {
  for (const std::string& name : names) {
    const TensorView& t = weights.at(name);
    const int64_t begin = static_cast<int64_t>(v.size()), n = t.shape[0];
    v.resize(static_cast<size_t>(begin + n));
    widen_to_f32(t, v.data() + begin);
    expect(kernels::active_table().first_nonfinite(v.data() + begin, n) == n, who, name, "finite values",
           "NaN or infinity");
    places_.emplace_back(name, Place{.vector = &v, .begin = begin, .end = begin + n});
  }
}

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
    place_vector(norm.weight, weights, {name + ".weight"}, who);
    if (options.norm_bias) place_vector(norm.bias, weights, {name + ".bias"}, who);
  };
  load_norm(input_norm_, "input_layernorm");
  load_norm(post_norm_, "post_attention_layernorm");
  place_matrix(qkv_, weights, {"q_proj.weight", "k_proj.weight", "v_proj.weight"}, who);
  place_matrix(output_, weights, {"o_proj.weight"}, who);
  if (options.qkv_bias) place_vector(qkv_bias_, weights, {"q_proj.bias", "k_proj.bias", "v_proj.bias"}, who);
  if (options.o_bias) place_vector(output_bias_, weights, {"o_proj.bias"}, who);
  if (is_gated(options.mlp))
    place_matrix(gate_up_, weights, {"gate_proj.weight", "up_proj.weight"}, who);
  else
    place_matrix(gate_up_, weights, {"up_proj.weight"}, who);
  place_matrix(down_, weights, {"down_proj.weight"}, who);
  if (options.mlp_bias) {
    if (is_gated(options.mlp)) place_vector(gate_up_bias_, weights, {"gate_proj.bias"}, who);
    place_vector(gate_up_bias_, weights, {"up_proj.bias"}, who);
    place_vector(down_bias_, weights, {"down_proj.bias"}, who);
  }
  head_norm_.eps = eps;
  head_norm_.offset = options.norm == NormKind::kRmsNormOffset;
  if (options.qk_norm) {
    place_vector(head_norm_.query, weights, {"q_norm.weight"}, who);
    place_vector(head_norm_.key, weights, {"k_norm.weight"}, who);
  }
  // 1/sqrt(head_dim) in binary64, then one rounding; the binary64 root and division are correctly rounded
  // everywhere.
  attention_ = {options.window, static_cast<float>(1.0 / std::sqrt(static_cast<double>(heads_.head_dim))),
                static_cast<float>(options.attn_softcap.value_or(0.0))};
  rope_ =
      RopeTable::shared(*options.rope_dim, options.rope_theta, options.rope_scaling, options.max_positions);
}

void TransformerLayer::forward(float* x, const TokenBatch& pass, KvCache& cache, Workspace& w, Faults& faults,
                               int64_t layer) const {
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

std::vector<std::string> TransformerLayer::weight_names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : places_) names.push_back(name);
  return names;
}

const TransformerLayer::Place& TransformerLayer::place(const std::string& name) const {
  for (const auto& [known, place] : places_)
    if (known == name) return place;
  throw ValueError("[TransformerBlock] no weight named '" + name + "'");
}

std::vector<int64_t> TransformerLayer::weight_shape(const std::string& name) const {
  const Place& p = place(name);
  if (p.vector) return {p.end - p.begin};
  return {p.end - p.begin, p.matrix->k};
}

std::vector<float> TransformerLayer::weight(const std::string& name) const {
  const Place& p = place(name);
  if (p.vector) return {p.vector->begin() + p.begin, p.vector->begin() + p.end};
  std::vector<float> out(static_cast<size_t>((p.end - p.begin) * p.matrix->k));
  ops::unpack_rows(*p.matrix, p.begin, p.end, out.data());
  return out;
}

}  // namespace isobit

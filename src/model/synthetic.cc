// SPDX-License-Identifier: Apache-2.0
#include "model/synthetic.h"

#include <algorithm>
#include <map>
#include <utility>

#include "isobit/error.h"

namespace isobit::synthetic {
namespace {

using Shape = std::vector<int64_t>;

struct Sizes {
  int64_t d_model, intermediate, q, kv, head_dim;
};

Sizes sizes_of(const TransformerOptions& o, int64_t d_model, int64_t intermediate) {
  const int64_t head_dim = o.head_dim.value_or(d_model / std::max<int64_t>(1, o.n_heads));
  return {d_model, intermediate, o.n_heads * head_dim, o.n_kv_heads.value_or(o.n_heads) * head_dim, head_dim};
}

// The shape of a weight of a Mamba layer; empty for a name that such a layer shares with transformer layers.
Shape mamba_shape_of(const std::string& key, const MambaShape& m, int64_t d_model) {
  constexpr int64_t kStepRank = 3;
  const int64_t angles = m.version == 3 ? m.angles : 0;
  const int64_t in_rows = m.version == 1   ? 2 * m.channels
                          : m.version == 2 ? m.channels + m.conv_channels + m.heads
                                           : 2 * m.channels + 2 * m.rank * m.states + 3 * m.heads + angles;
  const std::map<std::string, Shape> shapes = {
      {"norm.weight", {m.version == 1 ? d_model : m.channels}},
      {"in_proj.weight", {in_rows, d_model}},
      {"in_proj.bias", {in_rows}},
      {"out_proj.weight", {d_model, m.channels}},
      {"conv1d.weight", {m.conv_channels, 1, m.conv_width}},
      {"conv1d.bias", {m.conv_channels}},
      {"x_proj.weight", {kStepRank + 2 * m.states, m.channels}},
      {"dt_proj.weight", {m.channels, kStepRank}},
      {"dt_proj.bias", {m.channels}},
      {"dt_bias", {m.heads}},
      {"A_log", m.version == 1 ? Shape{m.channels, m.states} : Shape{m.heads}},
      {"D", {m.version == 1 ? m.channels : m.heads}},
      {"B_norm.weight", {m.states}},
      {"C_norm.weight", {m.states}},
      {"B_bias", {m.heads, m.states}},
      {"C_bias", {m.heads, m.states}}};
  const auto found = shapes.find(key);
  return found == shapes.end() ? Shape{} : found->second;
}

// Of a shared transformer block (2 d_model wide at its input) and of the adapters to it.
Shape shared_shape_of(const std::string& key, const Sizes& s) {
  constexpr int64_t kRank = 4;
  if (key == "linear.weight") return {s.d_model, s.d_model};
  if (key.ends_with(".down")) return {kRank, key == "adapter.gate_up.down" ? s.d_model : 2 * s.d_model};
  if (key.ends_with(".up"))
    return {key == "adapter.gate_up.up" ? 2 * s.intermediate : key == "adapter.q.up" ? s.q : s.kv, kRank};
  if (key == "shared.input_layernorm.weight") return {2 * s.d_model};
  for (const char* name : {"shared.q_proj", "shared.k_proj", "shared.v_proj"})
    if (key.starts_with(name)) return {key[7] == 'q' ? s.q : s.kv, 2 * s.d_model};
  return {};
}

// The shape of a block's weight, by its documented name.
Shape shape_of(const std::string& whole_key, const Sizes& s) {
  if (const Shape shape = shared_shape_of(whole_key, s); !shape.empty()) return shape;
  const std::string key = whole_key.starts_with("shared.") ? whole_key.substr(7) : whole_key;
  const std::string part = key.substr(0, key.find('.'));
  const bool matrix = part.ends_with("_proj") && key.ends_with(".weight");
  const auto rows_by = [matrix](int64_t rows, int64_t columns) {
    return matrix ? Shape{rows, columns} : Shape{rows};
  };
  if (part == "q_proj") return rows_by(s.q, s.d_model);
  if (part == "k_proj" || part == "v_proj") return rows_by(s.kv, s.d_model);
  if (part == "o_proj") return rows_by(s.d_model, s.q);
  if (part == "gate_proj" || part == "up_proj") return rows_by(s.intermediate, s.d_model);
  if (part == "down_proj") return rows_by(s.d_model, s.intermediate);
  if (part == "q_norm" || part == "k_norm") return {s.head_dim};
  return {s.d_model};
}

std::vector<std::string> names_of(const TransformerOptions& o) {
  std::vector<std::string> names = {"input_layernorm.weight", "post_attention_layernorm.weight",
                                    "q_proj.weight",          "k_proj.weight",
                                    "v_proj.weight",          "o_proj.weight",
                                    "up_proj.weight",         "down_proj.weight"};
  const auto add = [&names](bool on, std::initializer_list<const char*> more) {
    if (on) names.insert(names.end(), more.begin(), more.end());
  };
  add(is_gated(o.mlp), {"gate_proj.weight"});
  add(o.qkv_bias, {"q_proj.bias", "k_proj.bias", "v_proj.bias"});
  add(o.o_bias, {"o_proj.bias"});
  add(o.norm_bias, {"input_layernorm.bias", "post_attention_layernorm.bias"});
  add(o.mlp_bias, {"up_proj.bias", "down_proj.bias"});
  add(o.mlp_bias && is_gated(o.mlp), {"gate_proj.bias"});
  add(o.qk_norm, {"q_norm.weight", "k_norm.weight"});
  return names;
}

uint64_t seed_of(const std::string& name, uint64_t seed) {
  for (const char c : name) seed = hash(seed, static_cast<unsigned char>(c));
  return seed;
}

// The power of two below 1/sqrt(inputs), so that scaling is exact.
float matrix_scale(int64_t inputs) {
  float scale = 1.0f;
  for (int64_t n = 1; n < inputs; n *= 4) scale = scale * 0.5f;
  return scale;
}

void add(Weights& w, const std::string& name, const Shape& shape, uint64_t seed, bool offset_norm) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  const bool norm = shape.size() == 1 && name.ends_with(".weight");
  const float vector_scale = norm && offset_norm ? 0.5f : 0.25f;
  std::vector<float> x =
      values(seed_of(name, seed), n, shape.size() == 2 ? 2.0f * matrix_scale(shape[1]) : vector_scale);
  if (norm && !offset_norm)
    for (float& v : x) v = 1.0f + v;
  w.store.push_back(std::move(x));
  w.map[name] = {DType::F32, shape, reinterpret_cast<const std::byte*>(w.store.back().data())};
}

}  // namespace

uint64_t hash(uint64_t seed, uint64_t index) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + index + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 32);
}

float value(uint64_t seed, uint64_t index) {
  const int64_t n = static_cast<int64_t>(hash(seed, index) >> 40) - (int64_t{1} << 23);
  return static_cast<float>(n) * 0x1p-23f;
}

std::vector<float> values(uint64_t seed, int64_t n, float scale) {
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = value(seed, i) * scale;
  return x;
}

std::vector<float>& Weights::at(const std::string& name) {
  const auto* data = reinterpret_cast<const float*>(map.at(name).data);
  for (std::vector<float>& x : store)
    if (x.data() == data) return x;
  throw ValueError("[synthetic] name: expected a weight of this store, got '" + name + "'");
}

Weights block(const TransformerOptions& options, int64_t d_model, int64_t intermediate, uint64_t seed) {
  Weights w;
  const Sizes sizes = sizes_of(options, d_model, intermediate);
  for (const std::string& name : names_of(options))
    add(w, name, shape_of(name, sizes), seed, options.norm == NormKind::kRmsNormOffset);
  return w;
}

Weights model(const ModelPlan& plan, uint64_t seed) {
  std::map<std::string, Shape> shapes;
  shapes[plan.embed_name] = {plan.vocab_size, plan.d_model};
  shapes[plan.norm_name] = {plan.d_model};
  if (!plan.tie_embeddings) shapes[plan.head_name] = {plan.vocab_size, plan.d_model};
  for (size_t i = 0; i < plan.layer_weights.size(); ++i)
    for (const WeightSource& source : plan.layer_weights[i]) {
      Shape shape;
      if (plan.is_mamba(static_cast<int64_t>(i)))
        shape = mamba_shape_of(source.block_key, plan.mamba_shape, plan.d_model);
      if (shape.empty()) {
        const TransformerOptions options = plan.layers.empty() ? TransformerOptions{} : plan.layers[i];
        shape = shape_of(source.block_key, sizes_of(options, plan.d_model, plan.intermediate));
      }
      Shape& known = shapes[source.checkpoint_name];
      if (source.row_end >= 0 && !known.empty()) shape[0] = std::max(known[0], source.row_end);
      known = shape;
    }
  Weights w;
  for (const auto& [name, shape] : shapes) add(w, name, shape, seed, false);
  return w;
}

}  // namespace isobit::synthetic

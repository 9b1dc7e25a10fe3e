// SPDX-License-Identifier: Apache-2.0
#include "support/float64_block.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "nn/rope_table.h"

namespace isobit::testing {
namespace {

using Vector = std::vector<double>;

class Block {
 public:
  Block(const TransformerOptions& options, const WeightMap& weights) : o_(options), weights_(weights) {}

  Vector run(const std::vector<float>& input, int64_t length) const {
    const int64_t hd = *o_.head_dim, group = o_.n_heads / *o_.n_kv_heads;
    const auto d = static_cast<int64_t>(input.size()) / length;
    const RopeTable rope(*o_.rope_dim, o_.rope_theta, o_.rope_scaling, o_.max_positions);
    std::vector<Vector> keys, values;
    Vector out;
    for (int64_t p = 0; p < length; ++p) {
      Vector x(input.begin() + p * d, input.begin() + (p + 1) * d);
      const Vector n = norm(x, "input_layernorm");
      Vector q = project(n, "q_proj", o_.qkv_bias), k = project(n, "k_proj", o_.qkv_bias);
      rotate(q, "q_norm", rope, p);
      rotate(k, "k_norm", rope, p);
      keys.push_back(k);
      values.push_back(project(n, "v_proj", o_.qkv_bias));
      Vector attended;
      for (int64_t h = 0; h < o_.n_heads; ++h) {
        const Vector c = attend({q.begin() + h * hd, q.begin() + (h + 1) * hd}, h / group, keys, values);
        attended.insert(attended.end(), c.begin(), c.end());
      }
      add(x, project(attended, "o_proj", o_.o_bias));
      const Vector m = norm(x, "post_attention_layernorm");
      Vector a = project(m, is_gated(o_.mlp) ? "gate_proj" : "up_proj", o_.mlp_bias);
      for (double& v : a) v = activation(v);
      if (is_gated(o_.mlp)) {
        const Vector up = project(m, "up_proj", o_.mlp_bias);
        for (size_t i = 0; i < a.size(); ++i) a[i] *= up[i];
      }
      add(x, project(a, "down_proj", o_.mlp_bias));
      out.insert(out.end(), x.begin(), x.end());
    }
    return out;
  }

 private:
  Vector weight(const std::string& name) const {
    const TensorView& t = weights_.at(name);
    const auto* data = reinterpret_cast<const float*>(t.data);
    return {data, data + t.size()};
  }

  static void add(Vector& x, const Vector& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  Vector project(const Vector& x, const std::string& name, bool bias) const {
    const Vector w = weight(name + ".weight");
    Vector y(w.size() / x.size());
    for (size_t r = 0; r < y.size(); ++r)
      for (size_t i = 0; i < x.size(); ++i) y[r] += w[r * x.size() + i] * x[i];
    if (bias) add(y, weight(name + ".bias"));
    return y;
  }

  Vector rms(const Vector& x, const std::string& name) const {
    const Vector w = weight(name);
    double squares = 0.0;
    for (const double v : x) squares += v * v;
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + o_.norm_eps);
    Vector y(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = x[i] * r * (o_.norm == NormKind::kRmsNormOffset ? 1.0 + w[i] : w[i]);
    return y;
  }

  Vector norm(const Vector& x, const std::string& name) const {
    if (o_.norm != NormKind::kLayerNorm) return rms(x, name + ".weight");
    const Vector w = weight(name + ".weight");
    const auto n = static_cast<double>(x.size());
    double mean = 0.0, variance = 0.0;
    for (const double v : x) mean += v / n;
    for (const double v : x) variance += (v - mean) * (v - mean) / n;
    Vector y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = (x[i] - mean) / std::sqrt(variance + o_.norm_eps) * w[i];
    if (o_.norm_bias) add(y, weight(name + ".bias"));
    return y;
  }

  void rotate(Vector& x, const std::string& norm_name, const RopeTable& rope, int64_t position) const {
    const auto hd = static_cast<size_t>(*o_.head_dim), half = static_cast<size_t>(rope.half());
    for (size_t at = 0; at < x.size(); at += hd) {
      Vector head(x.begin() + static_cast<int64_t>(at), x.begin() + static_cast<int64_t>(at + hd));
      if (o_.qk_norm) head = rms(head, norm_name + ".weight");
      for (size_t i = 0; i < half; ++i) {
        const double c = rope.cos_row(position)[i], s = rope.sin_row(position)[i];
        const double u = head[i], v = head[half + i];
        head[i] = u * c - v * s;
        head[half + i] = v * c + u * s;
      }
      std::copy(head.begin(), head.end(), x.begin() + static_cast<int64_t>(at));
    }
  }

  // The newest token's query over all keys so far.
  Vector attend(const Vector& q, int64_t kv_head, const std::vector<Vector>& keys,
                const std::vector<Vector>& values) const {
    const size_t first = o_.window > 0 && keys.size() > static_cast<size_t>(o_.window)
                             ? keys.size() - static_cast<size_t>(o_.window)
                             : 0;
    const size_t offset = static_cast<size_t>(kv_head) * q.size();
    Vector scores;
    for (size_t j = first; j < keys.size(); ++j) {
      double s = 0.0;
      for (size_t i = 0; i < q.size(); ++i) s += q[i] * keys[j][offset + i];
      s /= std::sqrt(static_cast<double>(q.size()));
      if (o_.attn_softcap) s = *o_.attn_softcap * std::tanh(s / *o_.attn_softcap);
      scores.push_back(s);
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0.0;
    for (double& s : scores) sum += s = std::exp(s - top);
    Vector c(q.size());
    for (size_t j = first; j < keys.size(); ++j)
      for (size_t i = 0; i < c.size(); ++i) c[i] += scores[j - first] / sum * values[j][offset + i];
    return c;
  }

  double activation(double x) const {
    switch (o_.mlp) {
      case MlpKind::kSwiGlu:
        return x / (1.0 + std::exp(-x));
      case MlpKind::kGelu:
      case MlpKind::kGeGlu:
        return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
      case MlpKind::kGeluTanh:
      case MlpKind::kGeGluTanh:
        return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
      case MlpKind::kRelu2:
        return x > 0 ? x * x : 0.0;
    }
    return x;
  }

  const TransformerOptions& o_;
  const WeightMap& weights_;
};

}  // namespace

std::vector<double> float64_block(const TransformerOptions& options, const WeightMap& weights,
                                  const std::vector<float>& x, int64_t length) {
  return Block(options, weights).run(x, length);
}

}  // namespace isobit::testing

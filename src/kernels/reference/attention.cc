// SPDX-License-Identifier: Apache-2.0
// Contract 4 as written, one query row at a time.
#include "kernels/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/elementary.h"
#include "kernels/reference/integer.h"
#include "kernels/reference/tree.h"

namespace isobit::kernels::reference {
namespace {

struct Node {
  float m;
  float den;
  std::vector<float> num;
};

Node join(const Node& left, const Node& right) {
  Node n;
  n.m = std::max(left.m, right.m);
  const float fl = exp_ref(left.m - n.m), fr = exp_ref(right.m - n.m);
  n.den = scalar_fma(left.den, fl, right.den * fr);
  for (size_t d = 0; d < left.num.size(); ++d)
    n.num.push_back(scalar_fma(left.num[d], fl, right.num[d] * fr));
  return n;
}

// Contract 7c.1: both rows as 15-bit codes.
float int15_score(const AttentionArgs& a, const float* q, int64_t slot) {
  std::vector<int16_t> codes(static_cast<size_t>(a.head_dim));
  int32_t exponent = 0;
  quantize_int15(q, a.head_dim, 1, a.head_dim, codes.data(), a.head_dim, &exponent);
  const int64_t pairs = (a.head_dim + 1) / 2;
  const int16_t* key = a.key_codes + slot / kKeyPanel * kKeyPanel * 2 * pairs + slot % kKeyPanel * 2;
  int64_t sum = 0;
  for (int64_t d = 0; d < a.head_dim; ++d)
    sum += int64_t{codes[static_cast<size_t>(d)]} * key[d / 2 * 2 * kKeyPanel + d % 2];
  return int15_value(sum, exponent + a.key_exponents[slot]);
}

constexpr float kNegInf = -std::numeric_limits<float>::infinity();

// The node of positions first..last, within one block, for query q at position p.
Node block_node(const AttentionArgs& a, const float* q, int64_t first, int64_t last, bool& finite) {
  const int64_t hd = a.head_dim, v_stride = (hd + 15) / 16 * 16;
  Node node{kNegInf, 0.0f, std::vector<float>(static_cast<size_t>(hd))};
  std::vector<float> s;
  for (int64_t j = first; j <= last; ++j) {
    const int64_t slot = j % a.slots;
    const float* key = a.k + slot / kKeyPanel * kKeyPanel * hd + slot % kKeyPanel;
    float x = (a.key_codes ? int15_score(a, q, slot) : dot(q, key, hd, kKeyPanel)) * a.scale;
    if (!std::isfinite(x)) finite = false;
    if (a.softcap > 0) x = a.softcap * tanh_ref(x / a.softcap);
    node.m = std::max(node.m, x);
    s.push_back(x);
  }
  Lanes den;
  for (int64_t j = first; j <= last; ++j) {
    const float e = exp_ref(s[static_cast<size_t>(j - first)] - node.m);
    den.lane[j % 16] = den.lane[j % 16] + e;
    const float* v = a.v + j % a.slots * v_stride;
    for (int64_t d = 0; d < hd; ++d) {
      float& acc = node.num[static_cast<size_t>(d)];
      acc = scalar_fma(e, v[d], acc);
    }
  }
  node.den = den.halved();
  return node;
}

void write_output(const AttentionArgs& a, int64_t row, std::vector<std::pair<int64_t, Node>> blocks) {
  const Node all = tree(std::move(blocks), join);
  float* out = a.out + row / a.group * a.ldo + row % a.group * a.head_dim;
  for (int64_t d = 0; d < a.head_dim; ++d) out[d] = (all.num[static_cast<size_t>(d)] + 0.0f) / all.den;
}

}  // namespace

int64_t attention(const AttentionArgs& a) {
  int64_t bad = INT64_MAX;
  for (int64_t row = 0; row < a.n_pos * a.group; ++row) {
    const float* q = a.q + row / a.group * a.ldq + row % a.group * a.head_dim;
    const int64_t p = a.pos0 + row / a.group;
    const int64_t low = a.window > 0 ? std::max<int64_t>(0, p - a.window + 1) : 0;
    bool finite = true;
    const auto node = [&](int64_t b) {
      return block_node(a, q, std::max(low, b * kBlock), std::min(p, b * kBlock + kBlock - 1), finite);
    };
    if (a.nodes != nullptr) {
      const Node one = node(a.block);
      float* to = a.nodes + row * attention_node_floats(a.head_dim);
      to[0] = one.m, to[1] = one.den;
      std::copy(one.num.begin(), one.num.end(), to + 16);
    } else {
      std::vector<std::pair<int64_t, Node>> blocks;
      for (int64_t b = low / kBlock; b <= p / kBlock; ++b) blocks.emplace_back(b, node(b));
      write_output(a, row, std::move(blocks));
    }
    if (!finite) bad = std::min(bad, p);
  }
  return bad;
}

void attention_join(const AttentionArgs& a, int64_t blocks) {
  const int64_t rows = a.n_pos * a.group;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<std::pair<int64_t, Node>> seen;
    for (int64_t i = 0; i < blocks; ++i) {
      const float* from = a.nodes + (i * rows + row) * attention_node_floats(a.head_dim);
      if (from[0] == kNegInf) continue;  // the row sees nothing of the block
      seen.emplace_back(a.block + i, Node{from[0], from[1], {from + 16, from + 16 + a.head_dim}});
    }
    write_output(a, row, std::move(seen));
  }
}

}  // namespace isobit::kernels::reference

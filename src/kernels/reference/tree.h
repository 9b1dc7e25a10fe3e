// SPDX-License-Identifier: Apache-2.0
// Contract 2 and 3 as written: blocks of 256, one binary tree over the absolute block index, DOT and SUM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/scalar_fma.h"
#include "kernels/table.h"

namespace isobit::kernels::reference {

/// Level by level: node i = join(node 2i, node 2i+1); where a sibling does not exist, the other moves up
/// unchanged. blocks: (absolute block index, node), ascending, not empty.
template <typename Node, typename Join>
Node tree(std::vector<std::pair<int64_t, Node>> blocks, Join join) {
  while (blocks.size() > 1 || blocks.front().first != 0) {
    std::vector<std::pair<int64_t, Node>> above;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const int64_t parent = blocks[i].first / 2;
      const bool pair = i + 1 < blocks.size() && blocks[i + 1].first / 2 == parent;
      above.emplace_back(parent, pair ? join(blocks[i].second, blocks[i + 1].second) : blocks[i].second);
      if (pair) ++i;
    }
    blocks = std::move(above);
  }
  return blocks.front().second;
}

/// DOT of a[0..k) and b[0], b[stride], ...
inline float dot(const float* a, const float* b, int64_t k, int64_t stride = 1) {
  if (k == 0) return 0.0f;
  std::vector<std::pair<int64_t, float>> blocks;
  for (int64_t begin = 0; begin < k; begin += kBlock) {
    float acc = 0.0f;
    for (int64_t i = begin; i < k && i < begin + kBlock; ++i) acc = scalar_fma(a[i], b[i * stride], acc);
    blocks.emplace_back(begin / kBlock, acc);
  }
  return tree(std::move(blocks), [](float l, float r) { return l + r; }) + 0.0f;
}

/// 16 lanes of one block, or of the whole.
struct Lanes {
  float lane[16] = {};
  /// l += l+8, +4, +2, +1.
  float halved() const {
    Lanes x = *this;
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) x.lane[i] = x.lane[i] + x.lane[i + half];
    return x.lane[0];
  }
};

/// SUM with lane = add(i, lane) for every i in [0, n): element i goes to lane i mod 16.
template <typename Add>
float sum(int64_t n, Add add) {
  std::vector<std::pair<int64_t, Lanes>> blocks;
  for (int64_t begin = 0; begin == 0 || begin < n; begin += kBlock) {
    Lanes lanes;
    for (int64_t i = begin; i < n && i < begin + kBlock; ++i) lanes.lane[i % 16] = add(i, lanes.lane[i % 16]);
    blocks.emplace_back(begin / kBlock, lanes);
  }
  const Lanes total = tree(std::move(blocks), [](Lanes l, const Lanes& r) {
    for (int i = 0; i < 16; ++i) l.lane[i] = l.lane[i] + r.lane[i];
    return l;
  });
  return total.halved() + 0.0f;
}

}  // namespace isobit::kernels::reference

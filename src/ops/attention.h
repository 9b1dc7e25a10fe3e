// SPDX-License-Identifier: Apache-2.0
// From projected q, k, v to the attention output: norm and rotation of heads, the cache, softmax(q K^T) V.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/rope_table.h"
#include "ops/faults.h"
#include "state/kv_cache.h"

namespace isobit::ops {

struct HeadShape {
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t width() const { return (heads + 2 * kv_heads) * head_dim; }  ///< of a row [q | k | v]
};

/// RMSNorm over each head before the rotation; empty weights: none.
struct HeadNorm {
  std::vector<float> query, key;
  float eps = 1e-6f;
  bool offset = false;
};

/// qkv: [tokens, width()], changed in place (head norm, rotation; null: none); keys and values go into the
/// cache.
void rotate_and_cache(const HeadShape& shape, const HeadNorm& norm, const RopeTable* rope, float* qkv,
                      const TokenBatch& pass, KvCache& cache, Faults& faults, int64_t layer);

struct AttentionOptions {
  int64_t window = 0;
  float scale = 1.0f;
  float softcap = 0.0f;       ///< 0: none
  bool int15_scores = false;  ///< of 15-bit codes (contract 7c.1); the cache keeps the keys'
};

/// out: [tokens, heads * head_dim]. The pass's own keys and values must be in the cache.
void attention(const HeadShape& shape, const AttentionOptions& options, const float* qkv,
               const TokenBatch& pass, const KvCache& cache, float* out, Faults& faults, int64_t layer);

}  // namespace isobit::ops

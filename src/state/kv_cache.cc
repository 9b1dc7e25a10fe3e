// SPDX-License-Identifier: Apache-2.0
#include "state/kv_cache.h"

#include <algorithm>
#include <limits>

#include "core/checked.h"
#include "kernels/table.h"

namespace isobit {
namespace {

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

}  // namespace

KvCache::KvCache(int64_t batch, int64_t kv_heads, int64_t head_dim, int64_t max_tokens, int64_t window)
    : batch_(batch), kv_heads_(kv_heads), head_dim_(head_dim), v_stride_(round_up(head_dim, 16)) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 2;  // no memory holds that many
  const int64_t all = round_up(std::min(max_tokens, kMost), kernels::kKeyPanel);
  const int64_t ring = window > 0 ? round_up(std::min(window, kMost) + kMaxAppend, kernels::kBlock) : all;
  wraps_ = ring < all;
  slots_ = wraps_ ? ring : all;
  const int64_t heads = checked_mul(checked_mul(batch, kv_heads), slots_);
  static SlabPool pool;
  keys_ = pool.take(checked_mul(heads, head_dim_));
  values_ = pool.take(checked_mul(heads, v_stride_));
}

void KvCache::write(int64_t row, int64_t head, int64_t position, const float* key, const float* value) {
  const int64_t slot = position % slots_;
  const int64_t lane = slot % kernels::kKeyPanel;
  float* k = keys_.data() + ((row * kv_heads_ + head) * slots_ + slot - lane) * head_dim_ + lane;
  for (int64_t d = 0; d < head_dim_; ++d) k[d * kernels::kKeyPanel] = key[d];
  float* v = values_.data() + ((row * kv_heads_ + head) * slots_ + slot) * v_stride_;
  std::copy_n(value, head_dim_, v);
}

void KvCache::read(int64_t row, int64_t head, int64_t position, float* key, float* value) const {
  const int64_t slot = position % slots_;
  const int64_t lane = slot % kernels::kKeyPanel;
  const float* k = keys(row, head) + (slot - lane) * head_dim_ + lane;
  for (int64_t d = 0; d < head_dim_; ++d) key[d] = k[d * kernels::kKeyPanel];
  std::copy_n(values(row, head) + slot * v_stride_, head_dim_, value);
}

KvCache KvCache::copy() const {
  KvCache c(batch_, kv_heads_, head_dim_, 0, 0);
  c.slots_ = slots_;
  c.wraps_ = wraps_;
  c.keys_ = AlignedBuffer(keys_.size());
  c.values_ = AlignedBuffer(values_.size());
  std::copy_n(keys_.data(), keys_.size(), c.keys_.data());
  std::copy_n(values_.data(), values_.size(), c.values_.data());
  return c;
}

}  // namespace isobit

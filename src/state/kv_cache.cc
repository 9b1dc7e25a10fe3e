// SPDX-License-Identifier: Apache-2.0
#include "state/kv_cache.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/checked.h"
#include "kernels/table.h"

namespace isobit {
namespace {

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

AlignedBuffer copy_of(const AlignedBuffer& from) {
  AlignedBuffer to(from.size());
  std::copy_n(from.data(), from.size(), to.data());
  return to;
}

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
  if (key_codes_.size() > 0) write_codes(row, head, slot, key);
}

void KvCache::write_codes(int64_t row, int64_t head, int64_t slot, const float* key) {
  thread_local AlignedBuffer buffer;
  const int64_t stride = kernels::int15_stride(head_dim_);
  auto* own = reinterpret_cast<int16_t*>(buffer.at_least(stride / 2));
  auto* exponents = reinterpret_cast<int32_t*>(key_exponents_.data());
  kernels::active_table().quantize_int15(key, head_dim_, 1, head_dim_, own, stride,
                                         exponents + (row * kv_heads_ + head) * slots_ + slot);
  const int64_t lane = slot % kernels::kKeyPanel;
  int16_t* to = reinterpret_cast<int16_t*>(key_codes_.data()) +
                ((row * kv_heads_ + head) * slots_ + slot - lane) * 2 * pairs() + 2 * lane;
  for (int64_t d = 0; d < 2 * pairs(); ++d) to[d / 2 * 2 * kernels::kKeyPanel + d % 2] = own[d];
}

void KvCache::keep_key_codes(int64_t positions) {
  if (key_codes_.size() > 0) return;
  const int64_t heads = batch_ * kv_heads_;
  AlignedBuffer exponents(heads * slots_);
  key_codes_ = AlignedBuffer(checked_mul(heads * slots_, pairs()));
  key_exponents_ = std::move(exponents);
  std::vector<float> key(static_cast<size_t>(head_dim_)), value(key.size());
  for (int64_t row = 0; row < batch_; ++row)
    for (int64_t head = 0; head < kv_heads_; ++head)
      for (int64_t slot = 0; slot < std::min(positions, slots_); ++slot) {
        read(row, head, slot, key.data(), value.data());
        write_codes(row, head, slot, key.data());
      }
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
  c.keys_ = copy_of(keys_);
  c.values_ = copy_of(values_);
  c.key_codes_ = copy_of(key_codes_);
  c.key_exponents_ = copy_of(key_exponents_);
  return c;
}

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Keys and values of one layer in the layout that attention reads.
//
// Per (batch row, kv head): keys in panels of 16 positions [slots/16][head_dim][16], values as rows
// [slots][v_stride] with v_stride = head_dim rounded up to 16. Position p lies in slot p % slots. With a
// window shorter than the tokens to come the slots are a ring of a multiple of 256 slots >= window +
// kMaxAppend, so that a pass of kMaxAppend tokens overwrites nothing that its own queries see and no
// 256-block wraps. Everything in a cache is finite, at all times.
//
// For scores of 15-bit codes the cache also keeps those of its keys, [slots/16][ceil(head_dim/2)][16][2], and
// an exponent a slot; they are a function of the keys alone and always up to date.
#pragma once

#include <cstdint>

#include "core/aligned_buffer.h"

namespace isobit {

class KvCache {
 public:
  static constexpr int64_t kMaxAppend = 512;  ///< tokens of one row that one pass may append

  KvCache(int64_t batch, int64_t kv_heads, int64_t head_dim, int64_t max_tokens, int64_t window);

  int64_t batch() const { return batch_; }
  int64_t kv_heads() const { return kv_heads_; }
  int64_t head_dim() const { return head_dim_; }
  int64_t v_stride() const { return v_stride_; }
  int64_t slots() const { return slots_; }
  /// Whether positions share slots, so that appending can overwrite older ones.
  bool wraps() const { return wraps_; }

  const float* keys(int64_t row, int64_t head) const {
    return keys_.data() + (row * kv_heads_ + head) * slots_ * head_dim_;
  }
  const float* values(int64_t row, int64_t head) const {
    return values_.data() + (row * kv_heads_ + head) * slots_ * v_stride_;
  }
  /// Makes the codes of the keys of the first `positions` and keeps all from now on, if that is not so
  /// already.
  void keep_key_codes(int64_t positions);
  const int16_t* key_codes(int64_t row, int64_t head) const {
    return codes() + (row * kv_heads_ + head) * slots_ * 2 * pairs();
  }
  const int32_t* key_exponents(int64_t row, int64_t head) const {
    return reinterpret_cast<const int32_t*>(key_exponents_.data()) + (row * kv_heads_ + head) * slots_;
  }
  /// One position of one head from and to [head_dim] vectors.
  void write(int64_t row, int64_t head, int64_t position, const float* key, const float* value);
  void read(int64_t row, int64_t head, int64_t position, float* key, float* value) const;

  KvCache copy() const;

 private:
  int64_t pairs() const { return (head_dim_ + 1) / 2; }
  const int16_t* codes() const { return reinterpret_cast<const int16_t*>(key_codes_.data()); }
  void write_codes(int64_t row, int64_t head, int64_t slot, const float* key);

  int64_t batch_, kv_heads_, head_dim_, v_stride_, slots_;
  bool wraps_;
  AlignedBuffer keys_, values_;
  AlignedBuffer key_codes_, key_exponents_;  // empty unless kept
};

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// The key/value cache of one TransformerBlock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "isobit/numeric_profile.h"

namespace isobit {

class KvCache;  // native layout, src/state

/// Documented layout (float32, flat, batch_size * n_kv_heads * capacity * head_dim elements; capacity =
/// window or max_tokens): window == 0: the used part is packed as [batch, kv head, cached_tokens, head_dim];
/// window > 0: a ring of `window` slots per (batch, kv head), the key of position p in slot p % window.
/// Between calls the state keeps the kernels' own layout; k_cache()/v_cache() build the documented one on
/// request, and a caller who keeps what they return may edit it: the next call reads the edits and updates it
/// in place.
///
/// What a block computes with depends on the numeric profile that filled the state, so a state that holds
/// tokens is refused by blocks of another one. An empty state takes the profile of the block that fills it.
class TransformerState {
 public:
  TransformerState(int64_t batch_size, int64_t n_kv_heads, int64_t head_dim, int64_t max_tokens,
                   int64_t window = 0, NumericProfile numeric_profile = NumericProfile::kFp32V1);
  /// From documented buffers (copied). Throws ValueError on a wrong length, cached_tokens out of range or
  /// non-finite values.
  TransformerState(int64_t batch_size, int64_t n_kv_heads, int64_t head_dim, int64_t max_tokens,
                   const float* k_cache, const float* v_cache, int64_t buffer_size, int64_t cached_tokens,
                   int64_t window, NumericProfile numeric_profile = NumericProfile::kFp32V1);
  ~TransformerState();
  TransformerState(TransformerState&&) noexcept;
  TransformerState& operator=(TransformerState&&) noexcept;

  int64_t batch_size() const;
  int64_t n_kv_heads() const;
  int64_t head_dim() const;
  int64_t max_tokens() const;
  int64_t window() const;
  int64_t capacity() const;       ///< window if > 0, else max_tokens
  int64_t cached_tokens() const;  ///< of the row that is furthest
  NumericProfile numeric_profile() const;
  /// Of one row: rows differ after a ragged call of a model. A shorter row's part of the documented buffers
  /// is filled up with zeros.
  int64_t tokens(int64_t row) const;
  /// Fewer than now forgets each row's newest. ValueError for more, and where a window's older keys are gone
  /// already (0 is always possible).
  void set_cached_tokens(int64_t n);
  /// Back to zero tokens.
  void reset();
  /// Another state with the same contents.
  TransformerState copy();

  std::shared_ptr<std::vector<float>> k_cache();
  std::shared_ptr<std::vector<float>> v_cache();
  /// Copies; ValueError for a wrong size or non-finite values in the used part, and nothing has changed.
  void set_k_cache(std::span<const float> values);
  void set_v_cache(std::span<const float> values);
  /// [batch, kv head, min(cached_tokens, capacity), head_dim], chronological.
  std::vector<float> keys();
  std::vector<float> values();

  struct Impl;
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit

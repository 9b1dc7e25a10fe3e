// SPDX-License-Identifier: Apache-2.0
// The inside of TransformerState: the native cache, and the documented buffers while somebody looks at them.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "isobit/transformer_state.h"
#include "state/kv_cache.h"
#include "state/layer_state.h"

namespace isobit {

struct TransformerState::Impl : LayerState {
  Impl(int64_t batch, int64_t kv_heads, int64_t head_dim, int64_t max_tokens, int64_t window,
       NumericProfile numeric_profile)
      : max_tokens(max_tokens),
        window(window),
        numeric_profile(numeric_profile),
        tokens(static_cast<size_t>(batch), 0),
        held_from(static_cast<size_t>(batch), 0),
        cache(batch, kv_heads, head_dim, max_tokens, window) {}

  int64_t batch_size() const override { return cache.batch(); }
  int64_t tokens_of(int64_t row) const override { return tokens[static_cast<size_t>(row)]; }
  void reset() override;
  std::unique_ptr<Transaction> begin(std::span<const int64_t> appended) override;

  int64_t max_tokens;
  int64_t window;
  NumericProfile numeric_profile;  // of what filled it; an empty state's is replaced by the next call's
  std::vector<int64_t> tokens;     // cached, by row
  // By row the oldest position whose slot has not been given to another, or was never filled.
  std::vector<int64_t> held_from;
  KvCache cache;
  std::shared_ptr<std::vector<float>> documented[2];  // keys, values; null unless somebody asked

  int64_t capacity() const { return window > 0 ? window : max_tokens; }
  int64_t buffer_size() const { return cache.batch() * cache.kv_heads() * capacity() * cache.head_dim(); }
  /// Where position p of (row, head) lies in a documented buffer.
  int64_t documented_index(int64_t row, int64_t head, int64_t position) const;
  /// Of the row that is furthest.
  int64_t cached() const { return *std::max_element(tokens.begin(), tokens.end()); }
  /// First position of a row that the documented layout holds.
  int64_t oldest(int64_t row) const { return window > 0 ? std::max<int64_t>(0, tokens_of(row) - window) : 0; }

  void export_to(int which, std::vector<float>& buffer) const;
  /// Reads the used part; ValueError when a value is not finite (the cache is as before).
  void import_from(const float* keys, const float* values);
  /// The used part of the keys (0) or values (1) from a documented buffer, as import_from.
  void set_documented(int which, std::span<const float> values);
  /// The documented buffer, made when nobody has asked for it yet.
  std::shared_ptr<std::vector<float>> show_documented(int which);
  /// Before a call: takes over what the holders of the documented buffers wrote; drops buffers nobody holds.
  void begin_call();
  /// After a successful call: shows its result in the documented buffers that are still held.
  void end_call();
};

/// Keeps a state as it was unless commit() is called: the rows' tokens move only then, the profile comes
/// back, and where the call overwrites slots of a ring that the window still needs, so do they.
class StateTransaction : public LayerState::Transaction {
 public:
  StateTransaction(TransformerState::Impl& state, std::span<const int64_t> appended);
  ~StateTransaction() override;
  void commit() override;

 private:
  TransformerState::Impl& state_;
  std::vector<int64_t> appended_;
  std::vector<int64_t> held_from_;
  NumericProfile numeric_profile_;
  bool committed_ = false;
  std::optional<KvCache> saved_;
};

}  // namespace isobit

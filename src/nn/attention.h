// SPDX-License-Identifier: Apache-2.0
// The attention of a decoder layer over packed weights, from the normed input to the output projection:
//
//   q, k, v = n Wq^T, n Wk^T, n Wv^T (+ biases)     q, k = rotate(head_norm(q, k))
//   a = softmax(q K^T) V over the cache             out = a Wo^T (+ bo)
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nn/layer.h"
#include "nn/rope_table.h"
#include "ops/attention.h"

namespace isobit {

class WeightChecker;

/// Fills in the defaults of attention's options and checks them with the weights <prefix>q_proj.weight, ...
void check_attention(TransformerOptions& o, const std::string& prefix, int64_t d_in, int64_t d_out,
                     WeightChecker& check, const char* who);

class Attention {
 public:
  /// options as from check_attention.
  Attention(PlacedWeights& place, const WeightMap& weights, const std::string& prefix,
            const TransformerOptions& options, const char* who, double key_multiplier = 1);
  Attention(const Attention&) = delete;

  int64_t width() const { return heads_.width(); }
  /// qkv: [tokens, width()].
  void project(const float* normed, const TokenBatch& pass, float* qkv, Faults& faults, int64_t layer) const;
  /// From qkv, which it changes, to out: [tokens, d_out].
  void attend(float* qkv, const TokenBatch& pass, TransformerState::Impl& state, Workspace& workspace,
              float* out, Faults& faults, int64_t layer) const;
  /// Both.
  void forward(const float* normed, const TokenBatch& pass, TransformerState::Impl& state,
               Workspace& workspace, float* out, Faults& faults, int64_t layer) const;

  TransformerState allocate_state(int64_t batch_size, int64_t max_tokens) const;
  void check_state(const char* who, const LayerStates& state, std::span<const int64_t> more) const;
  void reserve_positions(int64_t positions) const;

 private:
  ops::HeadShape heads_{};
  ops::HeadNorm head_norm_;
  ops::AttentionOptions attention_;
  NumericProfile numeric_profile_;
  float key_multiplier_;
  std::shared_ptr<const RopeTable> rope_;  // null: no rotation
  PackedMatrix qkv_, output_;
  std::vector<float> qkv_bias_, output_bias_;
};

}  // namespace isobit

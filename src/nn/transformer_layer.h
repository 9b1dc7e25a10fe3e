// SPDX-License-Identifier: Apache-2.0
// The data flow of a pre-norm decoder layer over packed weights; what TransformerBlock and CausalLM share.
//
//   n = norm(x)                      q, k, v = n Wq^T, n Wk^T, n Wv^T (+ biases)
//   q, k = rotate(head_norm(q, k))   a = softmax(q K^T) V over the cache
//   x = x + (a Wo^T + bo)            n = norm(x)
//   x = x + (Wd act(n) + bd)         act = f(n Wg^T) * (n Wu^T), or f(n Wu^T)
#pragma once

#include <memory>
#include <vector>

#include "isobit/tensor.h"
#include "isobit/transformer_options.h"
#include "nn/layer.h"
#include "nn/rope_table.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace isobit {

/// Fills in defaults from the weights' shapes and checks everything: names, shapes, dtypes, options
/// (interface rules). Throws ValueError or TypeError that begins with "[who]".
TransformerOptions resolve_options(const TransformerOptions& options, const WeightMap& weights,
                                   const char* who);

class TransformerLayer : public Layer {
 public:
  /// options as from resolve_options. Refuses non-finite weights.
  TransformerLayer(const WeightMap& weights, const TransformerOptions& options, const char* who);

  void forward(float* x, const TokenBatch& pass, LayerState& state, Workspace& workspace, Faults& faults,
               int64_t layer) const override;
  AnyState allocate_state(int64_t batch_size, int64_t max_tokens) const override;
  void check_state(const char* who, const LayerState& state, int64_t batch, int64_t length) const override;

  const TransformerOptions& options() const { return options_; }
  int64_t d_model() const override { return d_model_; }
  int64_t intermediate() const { return intermediate_; }
  /// Computes the rotary rows of [0, positions).
  void reserve_positions(int64_t positions) const override { rope_->reserve(positions); }

 private:
  TransformerOptions options_;
  int64_t d_model_ = 0, intermediate_ = 0;
  ops::HeadShape heads_{};
  ops::HeadNorm head_norm_;
  ops::AttentionOptions attention_;
  std::shared_ptr<const RopeTable> rope_;
  ops::NormWeights input_norm_, post_norm_;
  PackedMatrix qkv_, output_, gate_up_, down_;
  std::vector<float> qkv_bias_, output_bias_, gate_up_bias_, down_bias_;
};

}  // namespace isobit

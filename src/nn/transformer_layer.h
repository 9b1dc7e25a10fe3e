// SPDX-License-Identifier: Apache-2.0
// The data flow of a pre-norm decoder layer over packed weights; what TransformerBlock and CausalLM share.
//
//   n = norm(x)    x = x + attention(n)
//   n = norm(x)    x = x + mlp(n)
//
// A hybrid's layer may have one of the two halves alone, and a multiplier of what is added.
#pragma once

#include <optional>

#include "isobit/layer_parts.h"
#include "isobit/tensor.h"
#include "isobit/transformer_options.h"
#include "nn/attention.h"
#include "nn/layer.h"
#include "nn/mlp.h"
#include "ops/elementwise.h"

namespace isobit {

/// Fills in defaults from the weights' shapes and checks everything: names, shapes, dtypes, options
/// (interface rules). Throws ValueError or TypeError that begins with "[who]".
TransformerOptions resolve_options(const TransformerOptions& options, const WeightMap& weights,
                                   const char* who, const LayerParts& parts = {});

class TransformerLayer : public Layer {
 public:
  /// options as from resolve_options. Refuses non-finite weights.
  TransformerLayer(const WeightMap& weights, const TransformerOptions& options, const char* who,
                   const LayerParts& parts = {}, const Multipliers& multipliers = {});

  void forward(float* x, const TokenBatch& pass, const LayerStates& state, Workspace& workspace,
               Faults& faults, int64_t layer) const override;
  AnyState allocate_state(int64_t batch_size, int64_t max_tokens) const override;
  void check_state(const char* who, const LayerStates& state, std::span<const int64_t> more) const override;

  const TransformerOptions& options() const { return options_; }
  int64_t d_model() const override { return d_model_; }
  int64_t intermediate() const { return mlp_ ? mlp_->intermediate() : 0; }
  void reserve_positions(int64_t positions) const override {
    if (attention_) attention_->reserve_positions(positions);
  }

 private:
  TransformerOptions options_;
  int64_t d_model_ = 0;
  float residual_multiplier_;
  ops::NormWeights input_norm_, post_norm_;
  std::optional<Attention> attention_;
  std::optional<Mlp> mlp_;
};

}  // namespace isobit

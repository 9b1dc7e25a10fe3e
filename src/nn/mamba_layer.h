// SPDX-License-Identifier: Apache-2.0
// The data flow of Mamba blocks over packed weights; what MambaBlock and CausalLM share.
//
//   n = norm(x)     m = in_proj n     y = mix(m)     x = x + out_proj y
//
// and, in layers of hybrids, the MLP of a transformer layer behind it:
//
//   n = mlp_norm(x)     x = x + Wd (silu(Wg n) * (Wu n))
//
// mix is the version's own: convolution, recurrence and gate, one file each.
#pragma once

#include <memory>

#include "isobit/mamba_options.h"
#include "nn/layer.h"
#include "ops/elementwise.h"
#include "ops/state_space.h"

namespace isobit {

class MambaLayer : public Layer {
 public:
  void forward(float* x, const TokenBatch& pass, LayerState& state, Workspace& workspace, Faults& faults,
               int64_t layer) const override;
  AnyState allocate_state(int64_t batch_size, int64_t max_tokens) const override;
  void check_state(const char* who, const LayerState& state, int64_t batch, int64_t length) const override;
  int64_t d_model() const override { return d_model_; }

  const MambaOptions& options() const { return options_; }
  const MambaShape& shape() const { return shape_; }

 protected:
  explicit MambaLayer(const MambaOptions& options) : options_(options) {}
  /// in: rows of in_proj's outputs. Returns [tokens, channels] inside the workspace.
  virtual float* mix(float* in, const TokenBatch& pass, const std::vector<ops::RowRun>& runs,
                     MambaState::Impl& state, Workspace& workspace, Faults& faults, int64_t layer) const = 0;
  /// The outer parts: `norm`.weight, in_proj and out_proj with their biases where the weights have them.
  void load_outer(const WeightMap& weights, const std::string& norm, double eps, const char* who);

  /// The MLP, where the weights have post_attention_layernorm.weight; biases where they have them.
  void load_mlp(const WeightMap& weights, double eps, const char* who);

  MambaOptions options_;
  MambaShape shape_;
  int64_t d_model_ = 0;
  ops::NormWeights norm_;
  PackedMatrix in_, out_;
  std::vector<float> in_bias_, out_bias_;

 private:
  void run_mlp(float* x, const TokenBatch& pass, Workspace& workspace, Faults& faults, int64_t layer) const;

  ops::NormWeights mlp_norm_;
  PackedMatrix gate_up_, down_;  // empty: no MLP
  std::vector<float> gate_up_bias_, down_bias_;
};

/// The MLP's names and shapes, where there is one.
class WeightChecker;
void check_mlp(const WeightMap& weights, WeightChecker& check, int64_t d_model);

/// Checks names, shapes, dtypes and options, then packs. Throws ValueError or TypeError that begins with
/// "[who]".
std::shared_ptr<const MambaLayer> make_mamba_layer(const WeightMap& weights, const MambaOptions& options,
                                                   const char* who);
std::shared_ptr<const MambaLayer> make_mamba1(const WeightMap& weights, const Mamba1Options& o,
                                              const char* who);
std::shared_ptr<const MambaLayer> make_mamba2(const WeightMap& weights, const Mamba2Options& o,
                                              const char* who);
std::shared_ptr<const MambaLayer> make_mamba3(const WeightMap& weights, const Mamba3Options& o,
                                              const char* who);

}  // namespace isobit

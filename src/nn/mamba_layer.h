// SPDX-License-Identifier: Apache-2.0
// The data flow of Mamba blocks over packed weights; what MambaBlock and CausalLM share.
//
//   n = norm(x)     m = in_proj n     y = mix(m)     x = x + out_proj y
//
// mix is the version's own: convolution, recurrence and gate, one file each. In layers of hybrids there can
// be attention beside it, on the same n, whose result is added to the mixer's; a transformer block in front
// of it, shared with other layers, whose result is added to what is normed; and an MLP with a norm behind it.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "isobit/layer_parts.h"
#include "isobit/mamba_options.h"
#include "nn/attention.h"
#include "nn/layer.h"
#include "nn/mlp.h"
#include "nn/shared_block.h"
#include "ops/elementwise.h"
#include "ops/state_space.h"

namespace isobit {

/// What a plan gives a layer beside its mixer. An MLP is there where the weights have one.
struct MambaExtras {
  LayerParts parts;
  TransformerOptions attention;   ///< of the attention beside, or of the shared block
  bool shared_elsewhere = false;  ///< whether an earlier layer has the shared block, not the weights
  std::shared_ptr<const SharedBlock> shared;  ///< the earlier layer's; not needed for checks
  Multipliers multipliers;
};

class MambaLayer : public Layer {
 public:
  void forward(float* x, const TokenBatch& pass, const LayerStates& state, Workspace& workspace,
               Faults& faults, int64_t layer) const override;
  AnyState allocate_state(int64_t batch_size, int64_t max_tokens) const override;
  void check_state(const char* who, const LayerStates& state, std::span<const int64_t> more) const override;
  void reserve_positions(int64_t positions) const override {
    if (attention()) attention()->reserve_positions(positions);
  }
  const std::shared_ptr<const SharedBlock>& shared_block() const { return shared_; }
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

  /// What the layer has beside its mixer; after shape_ is set.
  void load_extras(const WeightMap& weights, double eps, const MambaExtras& extras, const char* who);

  MambaOptions options_;
  MambaShape shape_;
  int64_t d_model_ = 0;
  ops::NormWeights norm_;
  PackedMatrix in_, out_;
  std::vector<float> in_bias_, out_bias_;

 private:
  // The one whose keys and values the layer keeps; null: none.
  const Attention* attention() const {
    return beside_ ? &*beside_ : shared_ ? &shared_->attention() : nullptr;
  }
  void run_attention(const float* normed, const TokenBatch& pass, const LayerStates& state,
                     Workspace& workspace, float* out, Faults& faults, int64_t layer) const;
  void scale_input(float* in, int64_t tokens) const;

  std::optional<Attention> beside_;
  std::shared_ptr<const SharedBlock> shared_;
  SharedUse shared_use_;
  ops::NormWeights mlp_norm_;
  std::optional<Mlp> mlp_;
  Multipliers multipliers_;
};

/// The extras' names and shapes, and the defaults of their options.
void check_extras(MambaExtras& extras, const WeightMap& weights, WeightChecker& check, int64_t d_model,
                  const char* who);

/// Checks names, shapes, dtypes and options and reads no value. Throws ValueError or TypeError that begins
/// with "[who]".
MambaShape check_mamba_layer(const WeightMap& weights, const MambaOptions& options, const char* who,
                             const MambaExtras& extras = {});
MambaShape check_mamba1(const WeightMap& weights, const Mamba1Options& o, const char* who);
MambaShape check_mamba2(const WeightMap& weights, const Mamba2Options& o, const char* who,
                        MambaExtras& extras);
MambaShape check_mamba3(const WeightMap& weights, const Mamba3Options& o, const char* who);

/// As check_mamba_layer, then packs. Only version 2 has extras.
std::shared_ptr<const MambaLayer> make_mamba_layer(const WeightMap& weights, const MambaOptions& options,
                                                   const char* who, const MambaExtras& extras = {});
std::shared_ptr<const MambaLayer> make_mamba1(const WeightMap& weights, const Mamba1Options& o,
                                              const char* who);
std::shared_ptr<const MambaLayer> make_mamba2(const WeightMap& weights, const Mamba2Options& o,
                                              const char* who, MambaExtras extras);
std::shared_ptr<const MambaLayer> make_mamba3(const WeightMap& weights, const Mamba3Options& o,
                                              const char* who);

}  // namespace isobit

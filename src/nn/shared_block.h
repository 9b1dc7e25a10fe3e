// SPDX-License-Identifier: Apache-2.0
// Zamba 2's transformer block, whose weights several layers share, while each layer has adapters and an
// output projection of its own. From the layer's input x and the tokens' embedding e, both d wide:
//
//   n = norm([x | e])     q, k, v = n W^T + (n A^T) B^T       a = attention(q, k, v) Wo^T
//   n = norm(a)           g = n W^T + (n A^T) B^T             out = (Wd (gelu(g first half) * g second half))
//   Wl^T
#pragma once

#include <array>
#include <string>

#include "isobit/transformer_options.h"
#include "nn/attention.h"
#include "nn/layer.h"
#include "nn/mlp.h"
#include "ops/elementwise.h"

namespace isobit {

/// y = y + (x down^T) up^T; empty: none.
struct Adapter {
  PackedMatrix down, up;
};

/// What a layer has of its own.
struct SharedUse {
  std::array<Adapter, 3> qkv;
  Adapter gate_up;
  PackedMatrix linear;
};

class SharedBlock {
 public:
  /// Checks and reads the weights shared.*; options as from check_shared_block.
  SharedBlock(PlacedWeights& place, const WeightMap& weights, const TransformerOptions& options,
              const char* who);

  /// e is in workspace.embedded; out: [tokens, d].
  void forward(const float* x, const SharedUse& use, const TokenBatch& pass, TransformerState::Impl& state,
               Workspace& workspace, float* out, Faults& faults, int64_t layer) const;
  const Attention& attention() const { return attention_; }

 private:
  ops::NormWeights input_norm_, post_norm_;
  Attention attention_;
  Mlp mlp_;
};

/// The weights shared.* where a layer has them, and those of its own use: adapter.q.down, ..., linear.weight.
void check_shared_block(TransformerOptions& o, bool has_block, const WeightMap& weights, int64_t d,
                        WeightChecker& check, const char* who);
void load_shared_use(SharedUse& use, PlacedWeights& place, const WeightMap& weights, WeightFormat format,
                     const char* who);

}  // namespace isobit

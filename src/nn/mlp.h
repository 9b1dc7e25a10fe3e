// SPDX-License-Identifier: Apache-2.0
// The MLP of a decoder layer over packed weights, from the normed input to its output:
//
//   out = Wd act(n) + bd      act = f(n Wg^T + bg) * (n Wu^T + bu), or f(n Wu^T + bu)
#pragma once

#include <string>
#include <vector>

#include "isobit/layer_parts.h"
#include "isobit/transformer_options.h"
#include "nn/layer.h"

namespace isobit {

class WeightChecker;

/// Checks <prefix>gate_proj.weight (where gated), up_proj.weight, down_proj.weight; with `biases` also their
/// biases.
void check_mlp(MlpKind kind, bool biases, const std::string& prefix, int64_t d, const WeightMap& weights,
               WeightChecker& check, const char* who);

class Mlp {
 public:
  /// Biases where the weights have them.
  Mlp(PlacedWeights& place, const WeightMap& weights, const std::string& prefix, MlpKind kind,
      MatrixForm form, const char* who, const Multipliers& multipliers = {});
  Mlp(const Mlp&) = delete;

  int64_t intermediate() const { return down_.k; }
  /// Of a row of gate_up.
  int64_t width() const { return gate_up_.n; }
  void project(const float* normed, const TokenBatch& pass, float* gate_up, Faults& faults,
               int64_t layer) const;
  void finish(float* gate_up, const TokenBatch& pass, Workspace& workspace, float* out, Faults& faults,
              int64_t layer) const;
  /// Both.
  void forward(const float* normed, const TokenBatch& pass, Workspace& workspace, float* out, Faults& faults,
               int64_t layer) const;

 private:
  MlpKind kind_;
  float gate_multiplier_, down_multiplier_;
  PackedMatrix gate_up_, down_;
  std::vector<float> gate_up_bias_, down_bias_;
};

}  // namespace isobit

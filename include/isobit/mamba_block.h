// SPDX-License-Identifier: Apache-2.0
// One Mamba block: out = x + mixer(norm(x)), of version 1, 2 or 3, defined by its recurrence over single
// tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isobit/mamba_options.h"
#include "isobit/mamba_state.h"
#include "isobit/tensor.h"

namespace isobit {

class MambaLayer;  // packed weights, src/nn

/// Weights by name, with D = d_model, E = channels, N = states, H = heads, P = E / H:
///   Mamba 1: norm.weight (D), in_proj.weight (2E, D), conv1d.weight (E, 1, K) or (E, K), x_proj.weight (R +
///   2N, E),
///     dt_proj.weight (E, R), dt_proj.bias (E), A_log (E, N), D (E), out_proj.weight (D, E); optional:
///     conv1d.bias (E), in_proj.bias, out_proj.bias.
///   Mamba 2, G = n_groups, C = E + 2GN: block_norm.weight (D), in_proj.weight (E + C + H, D) rows z | x B C
///   | dt,
///     conv1d.weight (C, 1, K) or (C, K), dt_bias (H), A_log (H), D (H), out_proj.weight (D, E); optional:
///     norm.weight (E) (absent: no gated norm), conv1d.bias (C), in_proj.bias, out_proj.bias.
///   Mamba 3, rank R, S angles: block_norm.weight (D), in_proj.weight (2E + 2RGN + 3H + S, D) rows z | x | B
///   | C |
///     dt | A | trap | angles, dt_bias (H), B_norm.weight (N), C_norm.weight (N), B_bias and C_bias (H, N) or
///     (H, R, N), D (H), out_proj.weight (D, E); optional: norm.weight (E) (output norm before the gate);
///     mimo_x, mimo_z, mimo_o (H, R, P) (MIMO).
class MambaBlock {
 public:
  /// Weights are packed (copied; from a file's views as by CausalLM::load). Throws ValueError or TypeError
  /// naming the weight or option.
  MambaBlock(const WeightMap& weights, const MambaOptions& options);
  ~MambaBlock();
  MambaBlock(MambaBlock&&) noexcept;

  /// x, out: [batch, length, d_model]. With a state, the tokens continue it. lengths (batch entries in
  /// 1..length): tokens past a row's length are not computed, their outputs are +0, and the row's state ends
  /// at its own length; all else equals the row alone, bit for bit. On any throw out is unspecified, the
  /// state unchanged.
  void forward(const float* x, int64_t batch, int64_t length, float* out, MambaState* state = nullptr,
               std::span<const int64_t> lengths = {}) const;

  MambaState allocate_state(int64_t batch_size) const;

  int version() const;  ///< 1, 2 or 3
  const MambaOptions& options() const;
  const MambaShape& shape() const;
  int64_t d_model() const;
  /// The weights by name, float32: exactly the values given, or what their stored form widens to.
  std::vector<std::string> weight_names() const;
  std::vector<int64_t> weight_shape(const std::string& name) const;
  std::vector<float> weight(const std::string& name) const;

 private:
  friend class CausalLM;
  struct Impl;
  explicit MambaBlock(std::shared_ptr<const MambaLayer> layer);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// The options of Mamba blocks. Sizes are not among them: the weights have them.
#pragma once

#include <cstdint>
#include <limits>
#include <variant>

#include "isobit/weight_format.h"

namespace isobit {

struct Mamba1Options {
  double norm_eps = 1e-5;
  /// Normalise dt, B and C without weights behind x_proj (Falcon Mamba).
  bool inner_norm = false;
  double inner_norm_eps = 1e-6;
  WeightFormat weight_format = WeightFormat::kFloat32;  ///< in which the projections are kept
};

struct Mamba2Options {
  double norm_eps = 1e-5;        ///< of the block's norm
  double gated_norm_eps = 1e-5;  ///< of the gated norm
  int64_t n_groups = 1;          ///< of B and C; a divisor of the heads
  double dt_min = 0.0;           ///< limits of the step, in prefill and decode alike
  double dt_max = std::numeric_limits<double>::infinity();
  bool norm_before_gate = false;
  /// The gated norm runs over each group's channels, as checkpoints were trained; false: over all at once.
  bool grouped_norm = true;
  WeightFormat weight_format = WeightFormat::kFloat32;
};

struct Mamba3Options {
  double norm_eps = 1e-5;  ///< of the block's norm, of B and C, and of the output norm
  double rope_fraction = 0.5;
  /// A = -(1 + x), x >= 0, or -1/(1 - x); false: A = -softplus(x), as in code before June 2026.
  bool heavy_tail = true;
  double a_floor = 1e-4;
  WeightFormat weight_format = WeightFormat::kFloat32;
};

using MambaOptions = std::variant<Mamba1Options, Mamba2Options, Mamba3Options>;

inline WeightFormat weight_format_of(const MambaOptions& options) {
  return std::visit([](const auto& o) { return o.weight_format; }, options);
}
inline void set_weight_format(MambaOptions& options, WeightFormat format) {
  std::visit([format](auto& o) { o.weight_format = format; }, options);
}

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// What the configs of Mamba models have in common.
#pragma once

#include "checkpoint/config_fields.h"
#include "isobit/model_plan.h"

namespace isobit::families {

/// Sizes of the model, the final norm and the embedding of a Hugging Face config; every layer gets `options`.
/// Names of the layers' weights are not read yet. n_layers matrices of the shape must be sane, or it refuses.
ModelPlan read_mamba(const ConfigFields& config, const MambaOptions& options, const MambaShape& shape,
                     bool tied_by_default);
/// int(expand * d_model), at most 2^31.
int64_t read_channels(const ConfigFields& config, int64_t d_model);
/// "backbone.layers.3."
std::string mamba_prefix(int64_t layer);
/// The weights of each layer under the names that both formats share: norm (the block's key for it is `norm`)
/// and mixer.*; the optional ones where asked for.
struct MambaNames {
  bool conv_bias = true;
  bool proj_bias = false;
  bool gated_norm = true;  ///< Mamba 2
  bool mimo = false;       ///< Mamba 3
  bool output_norm = false;
};
void add_mamba_names(ModelPlan& plan, const MambaNames& names);

}  // namespace isobit::families

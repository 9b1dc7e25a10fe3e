// SPDX-License-Identifier: Apache-2.0
// What the configs of pre-norm decoders have in common: sizes, norm, rope, windows and the usual tensor
// names.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/config_fields.h"
#include "isobit/model_plan.h"

namespace isobit::families {

constexpr int64_t kMaxHeadDim = 512;  ///< as attention; every head_dim of a plan is even

/// What the config class of transformers assumes where a key is absent.
struct ClassDefaults {
  int64_t n_kv_heads = 0;  ///< 0: n_heads
  int64_t head_dim = 0;    ///< 0: hidden_size / n_heads
  double norm_eps = 1e-6;
  int64_t max_position_embeddings = 0;
  const char* eps_field = "rms_norm_eps";
  const char* activation = "silu";
  bool tied = false;
  int64_t intermediate = 0;  ///< 0: the field must be there
  int64_t n_layers = 0;      ///< instead of num_hidden_layers; 0: the field must be there
  bool own_experts = false;  ///< the family looks for experts itself
};

/// Checks what no decoder here supports (experts, quantized weights, other activations, ...), then reads the
/// sizes, the norm and the name-independent options. Every layer gets the same options; rope and names are
/// not read yet.
ModelPlan read_decoder(const ConfigFields& config, const ClassDefaults& defaults);

/// How a family reads the rope block.
struct RopeRules {
  double default_theta = 10000.0;
  /// Whether the default type rotates only partial_rotary_factor of each head; the others ignore the field
  /// there and have no meaning for it in the scaled types.
  bool partial = false;
  /// The share of each head that rotates whatever the config says; 0: the config says.
  double fixed_share = 0;
  /// Phi-3: "yarn" is a legacy spelling of longrope, and there is no other scaled type.
  bool only_longrope = false;
  /// original_max_position_embeddings of the config class, which beats the one in the rope block; 0: none.
  int64_t default_original_max = 0;
};

/// rope_parameters (transformers 5) or rope_scaling with rope_theta (before), into every layer. After
/// read_decoder.
void read_rope(const ConfigFields& config, const RopeRules& rules, ModelPlan& plan);

/// Every layer with a window: the field sliding_window, with null or 0 for none.
void read_uniform_window(const ConfigFields& config, int64_t if_absent, ModelPlan& plan);
/// The rule of Qwen 2 and 3: use_sliding_window, then layer_types, or max_window_layers and above.
void read_qwen_windows(const ConfigFields& config, ModelPlan& plan);

/// "model.layers.3."
std::string layer_prefix(int64_t layer);
/// Embedding, final norm and head, and for each layer the names of the Llama checkpoints, with the biases and
/// norms that its options ask for.
void add_llama_names(ModelPlan& plan);
/// The same without the layers.
void add_outer_names(ModelPlan& plan);

}  // namespace isobit::families

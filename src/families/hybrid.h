// SPDX-License-Identifier: Apache-2.0
// What the configs of models with Mamba 2 and attention layers have in common.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "checkpoint/config_fields.h"
#include "isobit/model_plan.h"

namespace isobit::families {

/// How a family calls the sizes of its mixers, and what its config class assumes where they are absent.
struct MixerFields {
  const char* heads = "mamba_n_heads";
  int64_t default_heads = 128;
  const char* head_dim = "mamba_d_head";  ///< absent or "auto": channels / heads
  const char* groups = "mamba_n_groups";
  int64_t default_groups = 1;
  const char* states = "mamba_d_state";
  int64_t default_states = 256;
  const char* width = "mamba_d_conv";
};

/// Sizes of the Mamba 2 mixers into plan.mamba_shape; their options with norms of plan.norm_eps and
/// time_step_limit. Makes the plan a hybrid.
Mamba2Options read_mixer(const ConfigFields& config, const MixerFields& fields, int64_t channels,
                         ModelPlan& plan);
/// mamba_expand * hidden_size.
int64_t read_expanded(const ConfigFields& config, const char* field, int64_t d_model);

/// Which optional tensors a mixer has.
struct MixerTensors {
  bool in_bias = false;
  bool out_bias = false;
  bool conv_bias = true;
  bool gated_norm = true;
};

/// Collects where the weights of one layer lie.
class LayerNames {
 public:
  LayerNames(ModelPlan& plan, int64_t layer, std::string prefix)
      : weights_(plan.layer_weights[static_cast<size_t>(layer)]), prefix_(std::move(prefix)) {}

  /// The weight `key` of the block is the tensor prefix + name.
  void one(const std::string& key, const std::string& name) { weights_.push_back({key, prefix_ + name}); }
  void rows(const std::string& key, const std::string& name, int64_t begin, int64_t end) {
    weights_.push_back({key, prefix_ + name, begin, end});
  }
  /// Weights whose tensors are called prefix + group + key.
  void each(const std::string& group, std::initializer_list<const char*> keys, bool there = true);
  void mixer(const std::string& group, const MixerTensors& tensors);
  void attention(const std::string& group, bool bias);
  /// The gated MLP with its norm, which is called prefix + norm.
  void mlp(const std::string& norm, const std::string& group, bool bias);

 private:
  std::vector<WeightSource>& weights_;
  std::string prefix_;
};

}  // namespace isobit::families

// SPDX-License-Identifier: Apache-2.0
// The options of a decoder block. Every combination is valid unless validate() says why not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "isobit/numeric_profile.h"
#include "isobit/weight_format.h"

namespace isobit {

enum class NormKind { kRmsNorm, kLayerNorm, kRmsNormOffset };
enum class MlpKind { kSwiGlu, kGelu, kGeluTanh, kGeGlu, kGeGluTanh, kRelu2 };
enum class RopeType { kLinear, kLlama3, kYarn, kLongRope, kDynamic };

/// Rotary scaling. Which fields a type reads: linear: factor; llama3: factor, low_freq_factor,
/// high_freq_factor, original_max_position_embeddings; yarn: factor, original_max_position_embeddings,
/// beta_fast, beta_slow, truncate, mscale, mscale_all_dim, attention_factor; longrope: short_factor,
/// long_factor, original_max_position_embeddings, factor, attention_factor; dynamic: factor,
/// original_max_position_embeddings (positions beyond it are refused).
struct RopeScaling {
  RopeType type = RopeType::kLinear;
  std::optional<double> factor;
  std::optional<double> low_freq_factor;
  std::optional<double> high_freq_factor;
  std::optional<double> attention_factor;
  std::optional<double> beta_fast;
  std::optional<double> beta_slow;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  bool truncate = true;
  std::vector<double> short_factor;
  std::vector<double> long_factor;
  int64_t original_max_position_embeddings = 0;
};

/// Constructor options of TransformerBlock, with the documented names and defaults.
struct TransformerOptions {
  int64_t n_heads = 0;
  std::optional<int64_t> n_kv_heads;  ///< default: n_heads
  std::optional<int64_t> head_dim;    ///< default: d_model / n_heads
  int64_t window = 0;                 ///< 0: all earlier keys are visible
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling;
  std::optional<int64_t> rope_dim;  ///< default: head_dim; a model's plan can say 0: no rotation
  int64_t max_positions = 8192;
  bool qkv_bias = false;
  bool o_bias = false;
  NormKind norm = NormKind::kRmsNorm;
  double norm_eps = 1e-6;
  bool norm_bias = false;
  MlpKind mlp = MlpKind::kSwiGlu;
  bool mlp_bias = false;
  bool qk_norm = false;
  std::optional<double> attn_softcap;
  std::optional<double> attn_scale;                     ///< of the scores; default: 1 / sqrt(head_dim)
  WeightFormat weight_format = WeightFormat::kFloat32;  ///< in which the projection matrices are kept
  NumericProfile numeric_profile = NumericProfile::kFp32V1;
};

/// The strings of the interface: "rmsnorm", "swiglu", "llama3", ... The readers throw ValueError naming the
/// choices.
const char* to_string(NormKind kind);
const char* to_string(MlpKind kind);
const char* to_string(RopeType type);
NormKind parse_norm(const std::string& name);
MlpKind parse_mlp(const std::string& name);
RopeType parse_rope_type(const std::string& name);  ///< also "su" for longrope

/// True where the MLP multiplies a gate: swiglu, geglu, geglu_tanh.
bool is_gated(MlpKind kind);

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Fields that change what a model computes, and the families that read each. In any other family a value
// that would change something is refused: a plan that ignores it would be of another model.
//
// Not here: pretraining_tp, which splits sums and nothing else, and a partial_rotary_factor beside an
// unscaled rope, which llama and its kin leave aside as transformers does.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "families/registry.h"

namespace isobit::families {
namespace {

/// When a value changes nothing. Null never does.
enum class Neutral { kNull, kFalse, kOne };

struct Field {
  const char* name;
  Neutral neutral;
  std::array<std::string_view, 2> readers = {};
};

constexpr std::string_view kFalcon = "falcon_h1", kGranite = "granitemoehybrid";

bool changes_nothing(const ConfigFields& config, const Field& field) {
  if (!config.has_value(field.name)) return true;
  if (field.neutral == Neutral::kOne) return config.is(field.name, 1);
  return field.neutral == Neutral::kFalse && config.shown(field.name) == "false";
}

/// A window is none where it is 0, switched off, or holds every position.
bool window_is_none(const ConfigFields& config) {
  constexpr const char* kField = "sliding_window";
  if (!config.has_value(kField) || config.is(kField, 0)) return true;
  constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;
  const int64_t window = config.integer(kField, 1, kMaxExtent);
  if (config.has_value("use_sliding_window") && !config.flag_or("use_sliding_window", false)) return true;
  return config.has_value("max_position_embeddings") &&
         window >= config.integer("max_position_embeddings", 1, kMaxExtent);
}

constexpr std::array<std::string_view, 4> kWindowed = {"mistral", "phi3", "qwen2", "qwen3"};

bool is_one_of(std::string_view type, std::span<const std::string_view> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

}  // namespace

void refuse_foreign_fields(const ConfigFields& config, std::string_view model_type) {
  const Field fields[] = {
      // Soft caps, scales and clips.
      {"attn_logit_softcapping", Neutral::kNull},
      {"final_logit_softcapping", Neutral::kNull},
      {"query_pre_attn_scalar", Neutral::kNull},
      {"clip_qkv", Neutral::kNull},
      {"logit_scale", Neutral::kOne},
      {"scale_emb", Neutral::kOne},
      {"attention_multiplier", Neutral::kNull, {kGranite}},
      {"logits_scaling", Neutral::kOne, {kGranite}},
      {"residual_multiplier", Neutral::kOne, {kGranite}},
      {"embedding_multiplier", Neutral::kOne, {kGranite, kFalcon}},
      {"lm_head_multiplier", Neutral::kOne, {kFalcon}},
      {"key_multiplier", Neutral::kOne, {kFalcon}},
      {"attention_in_multiplier", Neutral::kOne, {kFalcon}},
      {"attention_out_multiplier", Neutral::kOne, {kFalcon}},
      {"ssm_in_multiplier", Neutral::kOne, {kFalcon}},
      {"ssm_out_multiplier", Neutral::kOne, {kFalcon}},
      {"ssm_multipliers", Neutral::kNull, {kFalcon}},
      {"mlp_multipliers", Neutral::kNull, {kFalcon}},
      // Another data flow, mask or position.
      {"qk_layernorm", Neutral::kFalse},
      {"use_qk_norm", Neutral::kFalse},
      {"use_parallel_residual", Neutral::kFalse},
      {"parallel_attn", Neutral::kFalse},
      {"alibi", Neutral::kFalse},
      {"use_bidirectional_attention", Neutral::kFalse},
      {"is_encoder_decoder", Neutral::kFalse},
      {"add_cross_attention", Neutral::kFalse},
      {"attention_chunk_size", Neutral::kNull},
      {"no_rope_layers", Neutral::kNull},
      {"rope_local_base_freq", Neutral::kNull},
      {"rope_interleave", Neutral::kFalse},
      {"rotary_pct", Neutral::kOne},
      {"rope_ratio", Neutral::kOne},
      {"kv_lora_rank", Neutral::kNull},
  };
  const std::string known(model_type);
  for (const Field& field : fields) {
    if (is_one_of(model_type, field.readers) || changes_nothing(config, field)) continue;
    const std::string none = field.neutral == Neutral::kNull    ? "null"
                             : field.neutral == Neutral::kFalse ? "false or null"
                                                                : "1 or null";
    config.refuse(field.name, none + ", for " + known + " does not use it");
  }
  if (!is_one_of(model_type, kWindowed) && !window_is_none(config))
    config.refuse("sliding_window",
                  "null, 0 or at least max_position_embeddings, for " + known + " does not use it");
}

}  // namespace isobit::families

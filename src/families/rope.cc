// SPDX-License-Identifier: Apache-2.0
// The rotary embedding of a config: rope_parameters (transformers 5) or rope_scaling and rope_theta (before),
// in every spelling that published files use.
#include <algorithm>
#include <optional>

#include "families/decoder.h"
#include "isobit/error.h"

namespace isobit::families {
namespace {

constexpr int64_t kMaxPositions = (int64_t{1} << 31) - 1;

/// A field of the rope block that may be absent or null.
std::optional<double> optional_positive(const ConfigFields& block, const char* field) {
  if (!block.has_value(field)) return std::nullopt;
  return block.positive(field);
}

/// As above, and 0 also means absent: transformers tests these fields for truth.
std::optional<double> optional_nonzero(const ConfigFields& block, const char* field) {
  return block.is(field, 0) ? std::nullopt : optional_positive(block, field);
}

int64_t read_rope_dim(const ConfigFields& config, const ConfigFields& block, const RopeRules& rules,
                      bool scaled, int64_t head_dim) {
  constexpr const char* kField = "partial_rotary_factor";
  if (rules.fixed_share > 0) {
    const int64_t rope_dim = static_cast<int64_t>(static_cast<double>(head_dim) * rules.fixed_share);
    if (rope_dim < 2 || rope_dim % 2 != 0)
      config.refuse("num_attention_heads", "heads whose rotated share, " + std::to_string(rope_dim) + " of " +
                                               std::to_string(head_dim) + " dimensions, is even");
    return rope_dim;
  }
  const ConfigFields& source = block.has_value(kField) ? block : config;
  if (!source.has_value(kField)) return head_dim;
  const double factor = source.positive(kField);
  if (config.has_value(kField) && config.positive(kField) != factor)
    block.refuse(kField, "the value outside the rope block, " + config.shown(kField));
  if (!rules.partial && scaled && factor != 1) source.refuse(kField, "1 for this family");
  if (!rules.partial) return head_dim;
  if (factor > 1) source.refuse(kField, "at most 1");
  const int64_t rope_dim = static_cast<int64_t>(static_cast<double>(head_dim) * factor);
  if (rope_dim < 2 || rope_dim % 2 != 0)
    source.refuse(kField,
                  "an even, positive number of rotated dimensions of head_dim = " + std::to_string(head_dim));
  return rope_dim;
}

/// "default" or the name of a scaled type. "type" is the older spelling of "rope_type".
std::string read_type(const ConfigFields& block, const RopeRules& rules) {
  const char* field = block.has("rope_type") ? "rope_type" : "type";
  if (block.has_value("rope_type") && block.has_value("type")) {
    const auto plain = [&](const char* key) {
      const std::string name = block.string_or(key, "");
      return name == "su" || (rules.only_longrope && name == "yarn") ? "longrope" : name;
    };
    if (plain("rope_type") != plain("type"))
      block.refuse("type", "what rope_type says, " + block.shown("rope_type"));
  }
  const std::string name = block.string_or(field, "default");
  const bool is_longrope = name == "longrope" || name == "su";
  if (rules.only_longrope) {
    if (is_longrope || name == "yarn") return "longrope";
    if (name != "default") block.refuse(field, "\"default\" or \"longrope\"");
    return name;
  }
  if (is_longrope) return "longrope";
  for (const char* known : {"default", "linear", "llama3", "yarn", "dynamic"})
    if (name == known) return name;
  block.refuse(field, "one of default, linear, llama3, yarn, longrope, dynamic");
}

int64_t read_original_max(const ConfigFields& config, const ConfigFields& block, const RopeRules& rules,
                          int64_t max_positions) {
  constexpr const char* kField = "original_max_position_embeddings";
  if (config.has_value(kField)) return config.integer(kField, 1, kMaxPositions);
  if (rules.default_original_max > 0) return rules.default_original_max;
  return block.has_value(kField) ? block.integer(kField, 1, kMaxPositions) : max_positions;
}

RopeScaling read_scaling(const ConfigFields& config, const ConfigFields& block, const RopeRules& rules,
                         const std::string& type, int64_t max_positions, int64_t rope_dim) {
  RopeScaling scaling;
  scaling.type = parse_rope_type(type);
  if (scaling.type == RopeType::kDynamic) {
    scaling.original_max_position_embeddings = max_positions;
  } else if (scaling.type != RopeType::kLinear) {
    scaling.original_max_position_embeddings = read_original_max(config, block, rules, max_positions);
  }
  const double ratio = static_cast<double>(max_positions) /
                       static_cast<double>(std::max<int64_t>(scaling.original_max_position_embeddings, 1));
  switch (scaling.type) {
    case RopeType::kLinear:
    case RopeType::kDynamic:
      scaling.factor = block.positive("factor");
      break;
    case RopeType::kLlama3:
      scaling.factor = block.positive("factor");
      scaling.low_freq_factor = block.positive("low_freq_factor");
      scaling.high_freq_factor = block.positive("high_freq_factor");
      if (*scaling.high_freq_factor <= *scaling.low_freq_factor)
        block.refuse("high_freq_factor", "more than low_freq_factor = " + block.shown("low_freq_factor"));
      break;
    case RopeType::kYarn:
      scaling.factor = optional_positive(block, "factor").value_or(ratio);
      scaling.attention_factor = optional_positive(block, "attention_factor");
      scaling.beta_fast = optional_nonzero(block, "beta_fast").value_or(32);
      scaling.beta_slow = optional_nonzero(block, "beta_slow").value_or(1);
      scaling.mscale = optional_nonzero(block, "mscale");
      scaling.mscale_all_dim = optional_nonzero(block, "mscale_all_dim");
      scaling.truncate = block.flag_or("truncate", true);
      break;
    case RopeType::kLongRope:
      scaling.factor = optional_positive(block, "factor").value_or(ratio);
      scaling.attention_factor = optional_positive(block, "attention_factor");
      scaling.short_factor = block.positives("short_factor", rope_dim / 2);
      scaling.long_factor = block.positives("long_factor", rope_dim / 2);
      break;
  }
  return scaling;
}

}  // namespace

void read_rope(const ConfigFields& config, const RopeRules& rules, ModelPlan& plan) {
  // A rope_scaling that says anything replaces rope_parameters.
  std::optional<ConfigFields> in_config = config.object("rope_scaling");
  if (!in_config) in_config = config.object("rope_parameters");
  if (in_config && in_config->has_object_value())
    config.refuse(config.object("rope_scaling") ? "rope_scaling" : "rope_parameters",
                  "one rope for all layers");
  // Without a block, every field of it is looked for where older files have it: in the config itself. A
  // "type" or "factor" out there means something else, so scaling needs the block.
  const ConfigFields& block = in_config ? *in_config : config;
  const std::string type = in_config ? read_type(block, rules) : "default";
  const bool scaled = type != "default";

  const ConfigFields& theta_source = block.has_value("rope_theta") ? block : config;
  const double theta =
      theta_source.has_value("rope_theta") ? theta_source.positive("rope_theta") : rules.default_theta;
  const int64_t rope_dim = read_rope_dim(config, block, rules, scaled, plan.head_dim);
  std::optional<RopeScaling> scaling;
  if (scaled) scaling = read_scaling(config, block, rules, type, plan.max_position_embeddings, rope_dim);
  for (TransformerOptions& layer : plan.layers) {
    layer.rope_theta = theta;
    layer.rope_dim = rope_dim;
    layer.rope_scaling = scaling;
  }
}

}  // namespace isobit::families

// SPDX-License-Identifier: Apache-2.0
// model_type -> the family that reads its config. The list is explicit: nothing registers itself.
#include "families/registry.h"

#include <algorithm>
#include <set>

#include "core/fp_env.h"
#include "isobit/error.h"

namespace isobit {
namespace {

struct Family {
  const char* model_type;
  ModelPlan (*plan)(const ConfigFields& config);
};

/// Sorted by model type.
constexpr Family kFamilies[] = {
    {"bamba", families::plan_bamba},
    {"falcon_h1", families::plan_falcon_h1},
    {"falcon_mamba", families::plan_falcon_mamba},
    {"granitemoehybrid", families::plan_granitemoehybrid},
    {"llama", families::plan_llama},
    {"mamba", families::plan_mamba},
    {"mamba2", families::plan_mamba2},
    {"mamba_ssm", families::plan_mamba_ssm},
    {"mistral", families::plan_mistral},
    {"nemotron_h", families::plan_nemotron_h},
    {"phi3", families::plan_phi3},
    {"qwen2", families::plan_qwen2},
    {"qwen3", families::plan_qwen3},
    {"samba", families::plan_samba},
    {"smollm", families::plan_llama},
    {"zamba2", families::plan_zamba2},
};

}  // namespace

std::vector<std::string> known_model_types() {
  std::vector<std::string> out;
  for (const Family& family : kFamilies) out.push_back(family.model_type);
  return out;
}

ModelPlan plan_for(const HFConfig& config) {
  const FpEnv environment;
  const ConfigFields fields(config);
  for (const Family& family : kFamilies) {
    if (config.model_type() != family.model_type) continue;
    ModelPlan plan = family.plan(fields);
    families::refuse_foreign_fields(fields, family.model_type);
    plan.model_type = config.model_type();
    return plan;
  }
  std::string known;
  for (const Family& family : kFamilies)
    known += (known.empty() ? "one of " : ", ") + std::string(family.model_type);
  if (fields.has_value("text_config")) known += " (a multimodal config with a text_config is not read)";
  fields.refuse("model_type", known);
}

std::vector<std::string> ModelPlan::checkpoint_names() const {
  std::vector<std::string> out;
  std::set<std::string> seen;
  const auto add = [&](const std::string& name) {
    if (seen.insert(name).second) out.push_back(name);
  };
  add(embed_name);
  for (const auto& weights : layer_weights)
    for (const WeightSource& weight : weights) add(weight.checkpoint_name);
  add(norm_name);
  add(head_name);
  return out;
}

}  // namespace isobit

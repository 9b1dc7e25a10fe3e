// SPDX-License-Identifier: Apache-2.0
// The model types that the library knows. To add one: write its file, declare it here, list it in
// registry.cc.
#pragma once

#include <string_view>

#include "checkpoint/config_fields.h"
#include "isobit/model_plan.h"

namespace isobit::families {

ModelPlan plan_bamba(const ConfigFields& config);
ModelPlan plan_falcon_h1(const ConfigFields& config);
ModelPlan plan_falcon_mamba(const ConfigFields& config);
ModelPlan plan_granitemoehybrid(const ConfigFields& config);
ModelPlan plan_llama(const ConfigFields& config);
ModelPlan plan_mamba(const ConfigFields& config);
ModelPlan plan_mamba2(const ConfigFields& config);
ModelPlan plan_mamba_ssm(const ConfigFields& config);
ModelPlan plan_mistral(const ConfigFields& config);
ModelPlan plan_nemotron_h(const ConfigFields& config);
ModelPlan plan_phi3(const ConfigFields& config);
ModelPlan plan_qwen2(const ConfigFields& config);
ModelPlan plan_qwen3(const ConfigFields& config);
ModelPlan plan_samba(const ConfigFields& config);
ModelPlan plan_zamba2(const ConfigFields& config);

/// Refuses what the config says and the family of `model_type` would not do.
void refuse_foreign_fields(const ConfigFields& config, std::string_view model_type);

}  // namespace isobit::families

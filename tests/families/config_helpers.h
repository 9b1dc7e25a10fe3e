// SPDX-License-Identifier: Apache-2.0
// Small configs with some fields replaced: what the tests of the families start from.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "isobit/model_plan.h"

namespace isobit::testing {

/// Field -> value as JSON text; an empty text removes the field.
using Fields = std::map<std::string, std::string>;

/// A config of 4 layers, d_model 64, 8 heads of 8 over 2 key-value heads, with some fields replaced.
inline HFConfig small_config(const std::string& model_type, const Fields& changes = {}) {
  Fields fields = {{"model_type", '"' + model_type + '"'},
                   {"hidden_size", "64"},
                   {"intermediate_size", "96"},
                   {"num_hidden_layers", "4"},
                   {"num_attention_heads", "8"},
                   {"num_key_value_heads", "2"},
                   {"vocab_size", "100"},
                   {"max_position_embeddings", "512"}};
  for (const auto& [field, value] : changes) fields[field] = value;
  std::string text;
  for (const auto& [field, value] : fields)
    if (!value.empty()) text += (text.empty() ? "{\"" : ",\"") + field + "\":" + value;
  return HFConfig::from_text(text + "}");
}

inline ModelPlan small_plan(const std::string& model_type, const Fields& changes = {}) {
  return plan_for(small_config(model_type, changes));
}

/// Whether a tensor is among those that a plan reads.
inline bool reads(const ModelPlan& plan, const std::string& name) {
  const std::vector<std::string> names = plan.checkpoint_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace isobit::testing

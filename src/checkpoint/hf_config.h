// SPDX-License-Identifier: Apache-2.0
// What an HFConfig holds. Private to src/checkpoint.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "isobit/model_plan.h"

namespace isobit {

struct HFConfig::Json {
  nlohmann::json root;  ///< an object with a string "model_type"
  std::string model_type;
  std::string text;
  std::filesystem::path path;
};

}  // namespace isobit

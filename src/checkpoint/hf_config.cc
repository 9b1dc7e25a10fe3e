// SPDX-License-Identifier: Apache-2.0
// Reading config.json.
#include "checkpoint/hf_config.h"

#include "checkpoint/file_io.h"
#include "checkpoint/json.h"
#include "core/fp_env.h"
#include "isobit/error.h"

namespace isobit {
namespace {

/// Real files have a few KiB; a list of layer types or rotary factors does not come near this.
constexpr size_t kMaxConfigBytes = size_t{16} << 20;

std::string hint(const nlohmann::json& root) {
  if (root.contains("model_type")) return "got " + show(root["model_type"]);
  if (root.contains("text_config"))
    return "got none (the text_config inside a multimodal config is not read)";
  if (root.contains("architectures")) return "got only architectures " + show(root["architectures"]);
  return "got none";
}

}  // namespace

HFConfig HFConfig::from_text(const std::string& text, std::filesystem::path path) {
  const FpEnv environment;  // reading a decimal rounds
  const std::string where = "[HFConfig] " + (path.empty() ? "text" : path.string());
  if (text.size() > kMaxConfigBytes)
    throw ValueError(where + ": expected at most " + std::to_string(kMaxConfigBytes) + " bytes, got " +
                     std::to_string(text.size()));
  const auto json = std::make_shared<Json>();
  json->root = parse_json(text, where);
  if (!json->root.is_object()) throw ValueError(where + ": expected a JSON object, got " + show(json->root));
  // The format of the mamba_ssm package names no type; its fields do.
  if (!json->root.contains("model_type") && json->root.contains("ssm_cfg") && json->root.contains("d_model"))
    json->root["model_type"] = "mamba_ssm";
  const auto model_type = json->root.find("model_type");
  if (model_type == json->root.end() || !model_type->is_string())
    throw ValueError(where + ": model_type: expected a string, " + hint(json->root));
  json->model_type = *model_type;
  json->text = text;
  json->path = std::move(path);
  HFConfig config;
  config.json_ = json;
  return config;
}

HFConfig HFConfig::from_json(const std::filesystem::path& path) {
  const bool is_directory = file_type_at(path, "HFConfig") == std::filesystem::file_type::directory;
  const std::filesystem::path file_path = is_directory ? path / "config.json" : path;
  const MappedFile file(file_path, "HFConfig", kMaxConfigBytes);
  return from_text(std::string(file.text()), file_path);
}

const std::string& HFConfig::model_type() const { return json_->model_type; }
const std::filesystem::path& HFConfig::path() const { return json_->path; }
std::string HFConfig::text() const { return json_->text; }

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// The readers behind config_fields.h.
#include "checkpoint/config_fields.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/hf_config.h"
#include "checkpoint/json.h"
#include "isobit/error.h"

namespace isobit {

using nlohmann::json;

ConfigFields::ConfigFields(const HFConfig& config) : object_(&config.json().root) {}

const json* ConfigFields::find(const std::string& field) const {
  const auto found = object_->find(field);
  return found == object_->end() ? nullptr : &*found;
}

bool ConfigFields::has(const std::string& field) const { return find(field) != nullptr; }

bool ConfigFields::has_value(const std::string& field) const {
  const json* value = find(field);
  return value != nullptr && !value->is_null();
}

bool ConfigFields::is(const std::string& field, double number) const {
  const json* value = find(field);
  return value != nullptr && value->is_number() && value->get<double>() == number;
}

std::string ConfigFields::shown(const std::string& field) const {
  const json* value = find(field);
  return value == nullptr ? "nothing" : show(*value);
}

void ConfigFields::refuse(const std::string& field, const std::string& expected) const {
  throw UnsupportedModel("[plan_for] " + prefix_ + field + ": expected " + expected + ", got " +
                         shown(field));
}

int64_t ConfigFields::integer(const std::string& field, int64_t low, int64_t high) const {
  const json* value = find(field);
  std::optional<int64_t> number;
  if (value != nullptr && value->is_number_unsigned()) {
    const auto wide = value->get<uint64_t>();
    if (wide <= static_cast<uint64_t>(INT64_MAX)) number = static_cast<int64_t>(wide);
  } else if (value != nullptr && value->is_number_integer()) {
    number = value->get<int64_t>();
  } else if (value != nullptr && value->is_number_float()) {
    const double wide = value->get<double>();
    if (std::trunc(wide) == wide && std::fabs(wide) < 0x1p62) number = static_cast<int64_t>(wide);
  }
  if (!number || *number < low || *number > high)
    refuse(field, "an integer in " + std::to_string(low) + ".." + std::to_string(high));
  return *number;
}

double ConfigFields::positive_value(const std::string& field, const json& value) const {
  const double number = value.is_number() ? value.get<double>() : 0;
  const float rounded = static_cast<float>(number);
  if (!(rounded > 0) || !std::isfinite(rounded)) refuse(field, "positive numbers in the range of float32");
  return number;
}

double ConfigFields::positive(const std::string& field) const {
  const json* value = find(field);
  return positive_value(field, value == nullptr ? json() : *value);
}

std::vector<double> ConfigFields::positives(const std::string& field, int64_t count) const {
  const json* value = find(field);
  if (value == nullptr || !value->is_array() || static_cast<int64_t>(value->size()) != count)
    refuse(field, "a list of " + std::to_string(count) + " numbers");
  std::vector<double> out;
  for (const json& element : *value) out.push_back(positive_value(field, element));
  return out;
}

std::pair<double, double> ConfigFields::limits_or(const std::string& field,
                                                  std::pair<double, double> fallback) const {
  const json* value = find(field);
  if (value == nullptr || value->is_null()) return fallback;
  const bool pair =
      value->is_array() && value->size() == 2 && (*value)[0].is_number() && (*value)[1].is_number();
  const double low = pair ? (*value)[0].get<double>() : 0, high = pair ? (*value)[1].get<double>() : 0;
  if (!pair || !(low >= 0) || !std::isfinite(static_cast<float>(low)) || !(high >= low))
    refuse(field, "a pair of numbers 0 <= lower <= upper, the lower one finite");
  return {low, high};
}

std::vector<int64_t> ConfigFields::integers(const std::string& field, int64_t low, int64_t high) const {
  const json* value = find(field);
  if (value == nullptr || value->is_null()) return {};
  std::vector<int64_t> out;
  const auto fits = [&](const json& n) {
    return n.is_number_integer() && n.get<double>() >= static_cast<double>(low) &&
           n.get<double>() <= static_cast<double>(high);
  };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), fits))
    refuse(field, "a list of integers in " + std::to_string(low) + ".." + std::to_string(high));
  return value->get<std::vector<int64_t>>();
}

int64_t ConfigFields::length(const std::string& field) const {
  const json* value = find(field);
  return value != nullptr && value->is_array() ? static_cast<int64_t>(value->size()) : 0;
}
std::vector<std::string> ConfigFields::strings(const std::string& field, int64_t count) const {
  const json* value = find(field);
  if (value == nullptr || !value->is_array() || static_cast<int64_t>(value->size()) != count ||
      !std::all_of(value->begin(), value->end(), [](const json& element) { return element.is_string(); }))
    refuse(field, "a list of " + std::to_string(count) + " strings");
  return value->get<std::vector<std::string>>();
}

int64_t ConfigFields::integer_or(const std::string& field, int64_t fallback, int64_t low,
                                 int64_t high) const {
  return has(field) ? integer(field, low, high) : fallback;
}

double ConfigFields::positive_or(const std::string& field, double fallback) const {
  return has(field) ? positive(field) : fallback;
}

std::string ConfigFields::string_or(const std::string& field, const std::string& fallback) const {
  const json* value = find(field);
  if (value == nullptr) return fallback;
  if (!value->is_string()) refuse(field, "a string");
  return value->get<std::string>();
}

bool ConfigFields::flag_or(const std::string& field, bool fallback) const {
  const json* value = find(field);
  if (value == nullptr) return fallback;
  if (value->is_null()) return false;
  if (!value->is_boolean()) refuse(field, "true or false");
  return value->get<bool>();
}

std::optional<ConfigFields> ConfigFields::object(const std::string& field) const {
  const json* value = find(field);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_object()) refuse(field, "an object or null");
  if (value->empty()) return std::nullopt;
  return ConfigFields(*value, prefix_ + field + ".");
}

ConfigFields ConfigFields::section(const std::string& field) const {
  const json* value = find(field);
  if (value == nullptr || !value->is_object()) refuse(field, "an object");
  return ConfigFields(*value, prefix_ + field + ".");
}

bool ConfigFields::has_object_value() const {
  return std::any_of(object_->begin(), object_->end(), [](const json& value) { return value.is_object(); });
}

}  // namespace isobit

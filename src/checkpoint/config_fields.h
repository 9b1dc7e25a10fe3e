// SPDX-License-Identifier: Apache-2.0
// Typed, range-checked reading of the fields of a config. What does not fit throws UnsupportedModel naming
// the field, what was expected and what came. An integer may be spelled as a float (1e6) and the other way
// round.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isobit/model_plan.h"

namespace isobit {

class ConfigFields {
 public:
  /// The config must outlive the fields.
  explicit ConfigFields(const HFConfig& config);

  bool has(const std::string& field) const;                ///< the key is there, perhaps with null
  bool has_value(const std::string& field) const;          ///< the key is there with something else than null
  bool is(const std::string& field, double number) const;  ///< the value is this number
  std::string shown(const std::string& field) const;  ///< the value for messages; "nothing" without the key

  /// Required: absent and null are refused.
  int64_t integer(const std::string& field, int64_t low, int64_t high) const;
  double positive(const std::string& field) const;  ///< finite and > 0, also after rounding to float32
  std::vector<double> positives(const std::string& field, int64_t count) const;
  /// A pair of numbers 0 <= lower <= upper, the upper one perhaps infinite. Absent or null: the fallback.
  std::pair<double, double> limits_or(const std::string& field, std::pair<double, double> fallback) const;
  /// A list of integers in low..high. Absent or null: none.
  std::vector<int64_t> integers(const std::string& field, int64_t low, int64_t high) const;
  std::vector<std::string> strings(const std::string& field, int64_t count) const;
  int64_t length(const std::string& field) const;  ///< of a list; 0 for anything else

  /// Absent: the fallback. Null is refused as any other wrong type.
  int64_t integer_or(const std::string& field, int64_t fallback, int64_t low, int64_t high) const;
  double positive_or(const std::string& field, double fallback) const;
  std::string string_or(const std::string& field, const std::string& fallback) const;
  bool flag_or(const std::string& field, bool fallback) const;  ///< null: false, as Python reads it

  /// The object in a field; nothing when the key is absent, null or {}.
  std::optional<ConfigFields> object(const std::string& field) const;
  /// The object in a field, perhaps empty; anything else is refused.
  ConfigFields section(const std::string& field) const;
  bool has_object_value() const;  ///< whether the value of any field is an object

  [[noreturn]] void refuse(const std::string& field, const std::string& expected) const;

 private:
  ConfigFields(const nlohmann::json& object, std::string prefix)
      : object_(&object), prefix_(std::move(prefix)) {}
  const nlohmann::json* find(const std::string& field) const;
  double positive_value(const std::string& field, const nlohmann::json& value) const;

  const nlohmann::json* object_;
  std::string prefix_;  ///< "rope_scaling." inside that object
};

}  // namespace isobit

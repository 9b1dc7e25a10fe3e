// SPDX-License-Identifier: Apache-2.0
// Strictness on top of nlohmann::json: duplicate keys, depth and Python's float literals.
#include "checkpoint/json.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "isobit/error.h"

namespace isobit {
namespace {

using nlohmann::json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::array<std::pair<std::string_view, double>, 3> kFloatLiterals{{
    {"-Infinity", -kInfinity},
    {"Infinity", kInfinity},
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
}};
constexpr const char* kFloatKey = "__float__";

/// Spells the bare float literals outside strings as {"__float__": "..."}, which is JSON.
std::string spell_float_literals(std::string_view text) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (in_string && rest[0] == '\\') {
      out += rest.substr(0, 2);
      i += 2;
      continue;
    }
    if (rest[0] == '"') in_string = !in_string;
    std::string_view literal;
    if (!in_string)
      for (const auto& [name, value] : kFloatLiterals)
        if (rest.starts_with(name)) literal = name;
    if (literal.empty()) {
      out += rest[0];
      i += 1;
    } else {
      out += "{\"" + std::string(kFloatKey) + "\":\"" + std::string(literal) + "\"}";
      i += literal.size();
    }
  }
  return out;
}

void decode_floats(json& value) {
  if (value.is_object() && value.size() == 1 && value.contains(kFloatKey) && value[kFloatKey].is_string()) {
    const std::string name = value[kFloatKey];
    for (const auto& [literal, number] : kFloatLiterals)
      if (name == literal) value = number;
  } else if (value.is_structured()) {
    for (auto& element : value) decode_floats(element);
  }
}

std::string shorten(std::string text, size_t longest) {
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

}  // namespace

std::string describe(const json::exception& error) {
  std::string text = error.what();
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';  // the library quotes the bytes it stumbled over, whatever they are
  return shorten(text, 200);
}

void refuse_nul(std::string_view text, const std::string& where) {
  const size_t at = text.find('\0');
  if (at != text.npos)
    throw ValueError(where + ": expected UTF-8 JSON, got a NUL at byte " + std::to_string(at));
}

json parse_json(std::string_view text, const std::string& where) {
  refuse_nul(text, where);
  std::vector<std::set<std::string>> open_objects;
  int depth = 0;
  const auto check = [&](int, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (event == json::parse_event_t::object_start) open_objects.emplace_back();
        if (++depth > kMaxJsonDepth)
          throw ValueError(where + ": expected JSON nested at most " + std::to_string(kMaxJsonDepth) +
                           " deep, got deeper nesting");
        break;
      case json::parse_event_t::object_end:
        open_objects.pop_back();
        --depth;
        break;
      case json::parse_event_t::array_end:
        --depth;
        break;
      case json::parse_event_t::key:
        if (!open_objects.back().insert(parsed.get<std::string>()).second)
          throw ValueError(where + ": expected every key once, got a duplicate key " +
                           quote(parsed.get<std::string>()));
        break;
      case json::parse_event_t::value:
        break;
    }
    return true;
  };
  try {
    json value = json::parse(spell_float_literals(text), check);
    decode_floats(value);
    return value;
  } catch (const json::exception& error) {
    throw ValueError(where + ": expected UTF-8 JSON, got " + describe(error));
  }
}

std::string show(const json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    return std::isnan(value.get<double>()) ? "NaN" : value.get<double>() > 0 ? "Infinity" : "-Infinity";
  return shorten(value.dump(-1, ' ', true, json::error_handler_t::replace), 80);
}

std::string quote(const std::string& name) { return show(json(name)); }

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Strict reading of JSON text, and showing values in error messages.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace isobit {

/// Arrays and objects inside one another, at most.
inline constexpr int kMaxJsonDepth = 64;

/// Parses UTF-8 JSON. Refuses (ValueError, opened by `where`) duplicate keys and nesting beyond
/// kMaxJsonDepth. The bare literals NaN, Infinity and -Infinity that Python writes, and {"__float__":
/// "Infinity"}, become floating-point values.
nlohmann::json parse_json(std::string_view text, const std::string& where);

/// The parser takes a NUL for the end of the text and would not look at what follows; ValueError if there is
/// one.
void refuse_nul(std::string_view text, const std::string& where);
/// What the parser complained about, shortened, in ASCII.
std::string describe(const nlohmann::json::exception& error);
/// A value as JSON, shortened, in ASCII.
std::string show(const nlohmann::json& value);
/// A name in quotation marks, shortened, in ASCII.
std::string quote(const std::string& name);

}  // namespace isobit

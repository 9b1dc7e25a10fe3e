// SPDX-License-Identifier: Apache-2.0
// Tensor names as checkpoints really spell them: the "model." prefix may be absent, and some buffers mean
// nothing.
#pragma once

#include <string>
#include <string_view>

namespace isobit {

/// The name under which `names` (anything with contains(name)) holds `wanted`: itself, or itself without or
/// with the prefix "model."; empty when there is none.
template <class Names>
std::string resolve_name(const Names& names, const std::string& wanted) {
  constexpr std::string_view kPrefix = "model.";
  if (names.contains(wanted)) return wanted;
  const std::string other =
      wanted.starts_with(kPrefix) ? wanted.substr(kPrefix.size()) : std::string(kPrefix) + wanted;
  return names.contains(other) ? other : std::string();
}

/// Whether a tensor that nothing reads may be ignored: rotary tables, causal masks, position numbers and the
/// heads for multi-token prediction, all of which transformers ignores as well.
bool harmless_unused(const std::string& name);

}  // namespace isobit

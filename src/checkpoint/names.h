// SPDX-License-Identifier: Apache-2.0
// Tensor names as checkpoints really spell them: the prefix "model." or "backbone." may be absent, and some
// buffers mean nothing.
#pragma once

#include <string>
#include <string_view>

namespace isobit {

/// The name under which `names` (anything with contains(name)) holds `wanted`: itself, or itself without or
/// with the prefix of its family, or the older spelling of Mamba's embedding; empty when there is none.
template <class Names>
std::string resolve_name(const Names& names, const std::string& wanted) {
  if (names.contains(wanted)) return wanted;
  for (const std::string prefix : {"model.", "backbone."})
    if (wanted.starts_with(prefix)) {
      const std::string bare = wanted.substr(prefix.size());
      if (names.contains(bare)) return bare;
      if (bare == "embeddings.weight" && names.contains(prefix + "embedding.weight"))
        return prefix + "embedding.weight";
      return {};
    }
  return names.contains("model." + wanted) ? "model." + wanted : std::string();
}

/// Whether a tensor that nothing reads may be ignored: rotary tables, causal masks, position numbers and the
/// heads for multi-token prediction, all of which transformers ignores as well.
bool harmless_unused(const std::string& name);

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// The short list of tensors that checkpoints carry and no computation reads.
#include "checkpoint/names.h"

#include <algorithm>
#include <array>

namespace isobit {

bool harmless_unused(const std::string& name) {
  constexpr std::array<std::string_view, 6> kLastParts = {
      "rotary_emb.inv_freq",   "attn.bias",    "attn.masked_bias", "attention.bias",
      "attention.masked_bias", "position_ids",
  };
  // A multi-token prediction head is a model of its own beside the one that is run.
  if (name.starts_with("mtp.")) return true;
  return std::any_of(kLastParts.begin(), kLastParts.end(), [&](std::string_view last) {
    return name.ends_with(last) && (name.size() == last.size() || name[name.size() - last.size() - 1] == '.');
  });
}

}  // namespace isobit

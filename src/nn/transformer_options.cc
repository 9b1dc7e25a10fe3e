// SPDX-License-Identifier: Apache-2.0
// The spellings of the block options in the interface, in both directions.
#include "isobit/transformer_options.h"

#include <array>
#include <utility>

#include "isobit/error.h"

namespace isobit {
namespace {

template <class Kind, size_t N>
using Spellings = std::array<std::pair<const char*, Kind>, N>;

constexpr Spellings<NormKind, 3> kNorms{{
    {"rmsnorm", NormKind::kRmsNorm},
    {"layernorm", NormKind::kLayerNorm},
    {"rmsnorm_offset", NormKind::kRmsNormOffset},
}};
constexpr Spellings<MlpKind, 6> kMlps{{
    {"swiglu", MlpKind::kSwiGlu},
    {"gelu", MlpKind::kGelu},
    {"gelu_tanh", MlpKind::kGeluTanh},
    {"geglu", MlpKind::kGeGlu},
    {"geglu_tanh", MlpKind::kGeGluTanh},
    {"relu2", MlpKind::kRelu2},
}};
constexpr Spellings<RopeType, 5> kRopeTypes{{
    {"linear", RopeType::kLinear},
    {"llama3", RopeType::kLlama3},
    {"yarn", RopeType::kYarn},
    {"longrope", RopeType::kLongRope},
    {"dynamic", RopeType::kDynamic},
}};

template <class Kind, size_t N>
const char* spell(const Spellings<Kind, N>& spellings, Kind kind, const char* option) {
  for (const auto& [name, value] : spellings)
    if (value == kind) return name;
  throw ValueError(std::string("[TransformerBlock] ") + option +
                   ": expected a member of its enumeration, got " + std::to_string(static_cast<int>(kind)));
}

template <class Kind, size_t N>
Kind parse(const Spellings<Kind, N>& spellings, const std::string& name, const char* option) {
  std::string known;
  for (const auto& [spelling, value] : spellings) {
    if (name == spelling) return value;
    known += (known.empty() ? "" : ", ") + std::string(spelling);
  }
  throw ValueError(std::string("[TransformerBlock] ") + option + ": expected one of " + known + ", got \"" +
                   name + "\"");
}

}  // namespace

const char* to_string(NormKind kind) { return spell(kNorms, kind, "norm"); }
const char* to_string(MlpKind kind) { return spell(kMlps, kind, "mlp"); }
const char* to_string(RopeType type) { return spell(kRopeTypes, type, "rope_scaling type"); }

NormKind parse_norm(const std::string& name) { return parse(kNorms, name, "norm"); }
MlpKind parse_mlp(const std::string& name) { return parse(kMlps, name, "mlp"); }
RopeType parse_rope_type(const std::string& name) {
  // Early Phi-3 files call longrope "su".
  return name == "su" ? RopeType::kLongRope : parse(kRopeTypes, name, "rope_scaling type");
}

bool is_gated(MlpKind kind) {
  return kind == MlpKind::kSwiGlu || kind == MlpKind::kGeGlu || kind == MlpKind::kGeGluTanh;
}

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
#include "isobit/numeric_profile.h"

#include "isobit/error.h"

namespace isobit {
namespace {

constexpr NumericProfile kProfiles[] = {NumericProfile::kFp32V1, NumericProfile::kFixed15V1,
                                        NumericProfile::kInt8x32V1};

struct Rejected {
  const char* name;
  const char* reason;
};
constexpr Rejected kRejected[] = {
    {"int8_v1", "one 8-bit scale a row on both operands raises perplexity by 32.2 %; see int8x32_v1"},
    {"fixed15_int8_attention_v1", "8-bit attention raises perplexity by 28.9 %; see fixed15_v1"},
};

}  // namespace

const char* to_string(NumericProfile profile) {
  switch (profile) {
    case NumericProfile::kFp32V1:
      return "fp32_v1";
    case NumericProfile::kFixed15V1:
      return "fixed15_v1";
    case NumericProfile::kInt8x32V1:
      return "int8x32_v1";
  }
  throw ValueError("[NumericProfile] numeric_profile: expected a member of its enumeration, got " +
                   std::to_string(static_cast<int>(profile)));
}

NumericProfile parse_numeric_profile(const std::string& name, const std::string& who) {
  std::string known;
  for (const NumericProfile p : kProfiles) {
    if (name == to_string(p)) return p;
    known += known.empty() ? to_string(p) : std::string(", ") + to_string(p);
  }
  for (const auto& [rejected, reason] : kRejected)
    if (name == rejected)
      throw NotImplemented("[" + who + "] numeric_profile: expected one of " + known + ", got " + name +
                           ", which was rejected: " + reason);
  throw ValueError("[" + who + "] numeric_profile: expected one of " + known + ", got '" + name + "'");
}

}  // namespace isobit

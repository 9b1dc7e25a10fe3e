// SPDX-License-Identifier: Apache-2.0
// Which arithmetic the matrix products of a transformer use. Everything else is float32 in each of them.
#pragma once

#include <string>

namespace isobit {

enum class NumericProfile {
  kFp32V1,     ///< float32: contract 3
  kFixed15V1,  ///< 15-bit codes with one exponent a row, exact sums; projections, head and attention scores
  kInt8x32V1,  ///< 8-bit codes with a scale for each 32; projections and head
};

/// "fp32_v1", "fixed15_v1", "int8x32_v1". The reader throws ValueError naming the choices, and NotImplemented
/// with the reason for names that were considered and rejected, both beginning with "[who]".
const char* to_string(NumericProfile profile);
NumericProfile parse_numeric_profile(const std::string& name, const std::string& who = "NumericProfile");

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that come from outside, and the wording of refusals.
#pragma once

#include <charconv>
#include <cstdint>
#include <new>
#include <string>

#include "isobit/error.h"

namespace isobit {

/// a * b for sizes >= 0; std::bad_alloc when no memory could hold that many.
inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw std::bad_alloc();
  return product;
}

/// The shortest spelling that reads back as the same number.
inline std::string number_text(double x) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, x).ptr};
}

/// "[who] what: expected ..., got ...".
inline std::string refusal(const std::string& who, const std::string& what, const std::string& expected,
                           const std::string& got) {
  return "[" + who + "] " + what + ": expected " + expected + ", got " + got;
}

inline void expect(bool holds, const char* who, const std::string& what, const std::string& expected,
                   const std::string& got) {
  if (!holds) throw ValueError(refusal(who, what, expected, got));
}

}  // namespace isobit

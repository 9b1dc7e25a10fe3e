// SPDX-License-Identifier: Apache-2.0
// The functions of one number in binary64 from the C library, accurate to some 2^-45, and the error of a
// binary32 result against them. For tests only: nothing of this is on the way to a result of the library.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels/table.h"

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
// glibc's vector versions (libmvec, within 4 ulp of binary64) may be used where a loop calls these.
extern "C" {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
[[gnu::simd("notinbranch")]] double exp(double) noexcept;
[[gnu::simd("notinbranch")]] double log(double) noexcept;
[[gnu::simd("notinbranch")]] double log1p(double) noexcept;
[[gnu::simd("notinbranch")]] double expm1(double) noexcept;
[[gnu::simd("notinbranch")]] double tanh(double) noexcept;
[[gnu::simd("notinbranch")]] double erf(double) noexcept;
[[gnu::simd("notinbranch")]] double erfc(double) noexcept;
[[gnu::simd("notinbranch")]] double sin(double) noexcept;
[[gnu::simd("notinbranch")]] double cos(double) noexcept;
#pragma GCC diagnostic pop
}
#endif

namespace isobit::kernels {

constexpr const char* kUnaryNames[] = {"exp",  "log",       "log1p",   "expm1",    "tanh",
                                       "erf",  "erfc",      "sigmoid", "softplus", "silu",
                                       "gelu", "gelu_tanh", "sin",     "cos",      "relu"};
constexpr int kUnaryCount = static_cast<int>(Unary::kCount);
static_assert(sizeof(kUnaryNames) / sizeof(kUnaryNames[0]) == kUnaryCount);

template <Unary kKind>
double oracle_of(double x) {
  constexpr double kNaN = __builtin_nan("");
  if constexpr (kKind == Unary::kExp) return ::exp(x);
  if constexpr (kKind == Unary::kLog) return ::log(x);
  if constexpr (kKind == Unary::kLog1p) return ::log1p(x);
  if constexpr (kKind == Unary::kExpm1) return ::expm1(x);
  if constexpr (kKind == Unary::kTanh) return ::tanh(x);
  if constexpr (kKind == Unary::kErf) return ::erf(x);
  if constexpr (kKind == Unary::kErfc) return ::erfc(x);
  if constexpr (kKind == Unary::kSigmoid) return 1.0 / (1.0 + ::exp(-x));
  if constexpr (kKind == Unary::kSoftplus) return (x > 0.0 ? x : 0.0) + ::log1p(::exp(-std::abs(x)));
  if constexpr (kKind == Unary::kSilu) return x / (1.0 + ::exp(-x));
  if constexpr (kKind == Unary::kGelu) return 0.5 * x * ::erfc(-x * M_SQRT1_2);
  if constexpr (kKind == Unary::kGeluTanh) {
    constexpr double kScale = -2.0 * M_SQRT1_2 * M_2_SQRTPI;  // -2 sqrt(2 / pi)
    return x / (1.0 + ::exp(kScale * (x + 0.044715 * x * x * x)));
  }
  if constexpr (kKind == Unary::kSin) {
    const double y = ::sin(x);
    return std::abs(x) <= 0x1p31 ? y : kNaN;
  }
  if constexpr (kKind == Unary::kCos) {
    const double y = ::cos(x);
    return std::abs(x) <= 0x1p31 ? y : kNaN;
  }
  if constexpr (kKind == Unary::kRelu) return x > 0.0 ? x : 0.0;
}

/// exact[i] = the function of x[i].
template <Unary kKind>
void oracle_array(const float* x, int n, double* exact) {
  for (int i = 0; i < n; ++i) exact[i] = oracle_of<kKind>(x[i]);
}
template <size_t... kKinds>
constexpr auto oracle_arrays(std::index_sequence<kKinds...>) {
  return std::array{&oracle_array<static_cast<Unary>(kKinds)>...};
}
inline void oracle(Unary kind, const float* x, int n, double* exact) {
  constexpr auto kArrays = oracle_arrays(std::make_index_sequence<kUnaryCount>());
  kArrays[static_cast<size_t>(kind)](x, n, exact);
}

/// Numbers beyond the binary32 range count as 2^128, so that an overflow is an error of at most an ulp where
/// it is due.
inline double bounded(double x) { return x > 0x1p128 ? 0x1p128 : x < -0x1p128 ? -0x1p128 : x; }

/// A unit in the last place of the binary32 numbers around x.
inline double ulp_of(double x) {
  const double a = std::abs(x);
  const double size = a > 0x1p-126 ? (a < 0x1p127 ? a : 0x1p127) : 0x1p-126;
  return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, size) & 0x7ff0000000000000u) * 0x1p-23;
}
inline double ulp_error(float y, double exact) {
  const double e = bounded(exact);
  return std::abs(bounded(y) - e) / ulp_of(e);
}

}  // namespace isobit::kernels

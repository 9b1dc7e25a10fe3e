// SPDX-License-Identifier: Apache-2.0
// fma(a, b, c) = a*b + c with one rounding, for one number: the hardware's where the target has it, else
// exactly emulated. Always inlined, so it may be included by files compiled for different instruction sets.
#pragma once

#include <cstdint>

namespace isobit::kernels {

/// The product of two binary32 numbers is exact in binary64. Their sum with c is rounded to odd there (the
/// inexact sum whose last bit is 0 is replaced by its neighbour towards the exact value); since binary64 has
/// more than two bits beyond binary32, the final rounding to binary32 is then the rounding of the exact
/// value, subnormals included.
[[gnu::always_inline]] static inline float emulated_fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = c;
  const double sum = product + addend;
  // 2Sum: error = (product + addend) - sum, exactly. NaN where the sum is not finite.
  const double virtual_addend = sum - product;
  const double error = (product - (sum - virtual_addend)) + (addend - virtual_addend);
  const uint64_t bits = __builtin_bit_cast(uint64_t, sum);
  const uint64_t error_bits = __builtin_bit_cast(uint64_t, error);
  const uint64_t inexact = error < 0.0 || error > 0.0 ? 1 : 0;
  // +1 in the bits moves away from zero, -1 towards it: towards it when error and sum have opposite signs.
  const uint64_t opposite = (bits ^ error_bits) >> 63;
  const uint64_t odd_or_exact = (bits & 1) | (inexact ^ 1);
  const uint64_t step = (1 - (opposite << 1)) & (odd_or_exact - 1);
  return static_cast<float>(__builtin_bit_cast(double, bits + step));
}

[[gnu::always_inline]] static inline float scalar_fma(float a, float b, float c) {
#ifdef __FP_FAST_FMAF
  return __builtin_fmaf(a, b, c);
#else
  return emulated_fma(a, b, c);
#endif
}

}  // namespace isobit::kernels

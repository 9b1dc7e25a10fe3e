// SPDX-License-Identifier: Apache-2.0
// Elementary functions of binary64 as fixed sequences of +, -, *, / and bit operations (docs/contract.md,
// section 6). They run when tables are built, never per token. No libm, no fma: the same bits from every
// compiler and CPU. Error below 1 ulp wherever the result is a normal number. The calling thread must round
// to nearest even.
#pragma once

namespace isobit::binary64 {

/// e^x. +inf above the range, +0 below it; NaN passes.
double exp(double x);
/// Natural logarithm of a finite x > 0.
double log(double x);
/// x^y of a finite x > 0 and a finite y.
double pow(double x, double y);

struct SinCos {
  double sin;
  double cos;
};
/// Sine and cosine of any finite x, in radians, reduced exactly at any magnitude.
SinCos sincos(double x);

}  // namespace isobit::binary64

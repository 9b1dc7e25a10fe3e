// SPDX-License-Identifier: Apache-2.0
// The functions of one number (contract 5, formulas in docs/functions.md) over 16 lanes, without branches.
// Read reference/elementary.cc for the reasons; here are the same operations in the same order.
#pragma once

#include "kernels/elementary_constants.h"
#include "kernels/isa/simd.h"
#include "kernels/table.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

ISOBIT_INLINE f32x16 fma(f32x16 a, f32x16 b, float c) { return fma(a, b, broadcast(c)); }

ISOBIT_INLINE f32x16 exp(f32x16 x) {
  const f32x16 bounded = min(broadcast(kExpMax), x);
  const f32x16 magic = broadcast(kRoundMagic);
  const f32x16 n = fma(bounded, broadcast(kLog2E), magic) - magic;
  f32x16 r = fnma(n, broadcast(kLn2Hi), bounded);
  r = fnma(n, broadcast(kLn2Lo), r);
  f32x16 q = fma(broadcast(kExp[4]), r, kExp[3]);
  q = fma(q, r, kExp[2]);
  q = fma(q, r, kExp[1]);
  q = fma(q, r, kExp[0]);
  const f32x16 p = fma(fma(q, r, 1.0f), r, 1.0f);
  return select(x < broadcast(kExpMin), zero(), ldexp(p, n));
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

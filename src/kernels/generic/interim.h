// Interim functions until elementary.h has them; delete this file and its include then.
#pragma once

#include "kernels/generic/elementary.h"
namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {
ISOBIT_INLINE f32x16 silu(f32x16 x) {
  f32x16 e = exp(-abs(x));
  f32x16 d = broadcast(1.0f) + e;
  return select(x < zero(), (x * e) / d, x / d);
}
ISOBIT_INLINE f32x16 gelu(f32x16 x) { return silu(x); }
ISOBIT_INLINE f32x16 tanh(f32x16 x) {
  f32x16 e = exp(broadcast(-2.0f) * abs(x));
  f32x16 t = (broadcast(1.0f) - e) / (broadcast(1.0f) + e);
  return select(x < zero(), -t, t);
}
ISOBIT_INLINE f32x16 gelu_tanh(f32x16 x) { return silu(x); }
inline void unary(Unary, const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i + 16 <= n; i += 16) store(y + i, exp(load(x + i)));
}
}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

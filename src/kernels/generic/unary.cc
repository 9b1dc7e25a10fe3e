// SPDX-License-Identifier: Apache-2.0
// The functions of one number (elementary.h) over arrays: y[i] = kind(x[i]); x and y may be the same array.
#include "kernels/generic/elementary.h"
#include "kernels/generic/kernels.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

template <f32x16 (*kFunction)(f32x16)>
static inline void map(const float* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, kFunction(load(x + i)));
  const int rest = static_cast<int>(n - i);
  if (rest > 0) store_n(y + i, kFunction(load_n(x + i, rest)), rest);
}

void unary(Unary kind, const float* x, int64_t n, float* y) {
  using Map = void (*)(const float*, int64_t, float*);
  constexpr Map kMaps[] = {map<exp>,  map<log>,       map<log1p>,   map<expm1>,    map<tanh>,
                           map<erf>,  map<erfc>,      map<sigmoid>, map<softplus>, map<silu>,
                           map<gelu>, map<gelu_tanh>, map<sin>,     map<cos>,      map<relu>};
  static_assert(sizeof(kMaps) / sizeof(kMaps[0]) == static_cast<size_t>(Unary::kCount));
  kMaps[static_cast<int>(kind)](x, n, y);
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// Element by element: sums of two vectors, the search for a value that is not finite, and argmax.
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

void add(const float* a, const float* b, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i += 16) {
    const int m = static_cast<int>(n - i < 16 ? n - i : 16);
    store_lanes(y + i, load_lanes(a + i, m) + load_lanes(b + i, m), m);
  }
}

// x * 0 is NaN exactly where x is not finite, and a sum keeps it.
int64_t first_nonfinite(const float* x, int64_t n) {
  f32x16 odd[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (int j = 0; j < 4; ++j) odd[j] = fma(load(x + i + 16 * j), zero(), odd[j]);
  for (; i < n; i += 16)
    odd[0] = fma(load_n(x + i, static_cast<int>(n - i < 16 ? n - i : 16)), zero(), odd[0]);
  if (!any(~((odd[0] + odd[1]) + (odd[2] + odd[3]) == zero()))) return n;
  for (i = 0; i < n; ++i)
    if (!(x[i] - x[i] == 0.0f)) return i;
  return n;
}

int64_t argmax(const float* x, int64_t n) {
  constexpr int64_t kChunk = int64_t{1} << 30;  // lanes count in int32
  int64_t best = 0;
  for (int64_t base = 0; base < n; base += kChunk) {
    const int64_t count = n - base < kChunk ? n - base : kChunk;
    f32x16 top = broadcast(x[best]);
    i32x16 at = broadcast_i(-1);
    for (int64_t i = 0; i < count; i += 16) {
      const int m = static_cast<int>(count - i < 16 ? count - i : 16);
      const f32x16 v = load_lanes(x + base + i, m);
      mask16 larger = v > top;
      if (m < 16) larger = larger & first_n(m);
      top = select(larger, v, top);
      at = select(larger, broadcast_i(static_cast<int32_t>(i)) + lane_ids(), at);
    }
    float values[16];
    int32_t indices[16];
    store(values, top);
    store_i(indices, at);
    int winner = -1;
    for (int lane = 0; lane < 16; ++lane) {
      if (indices[lane] < 0) continue;
      if (winner < 0 || values[lane] > values[winner] ||
          (values[lane] == values[winner] && indices[lane] < indices[winner]))
        winner = lane;
    }
    if (winner >= 0) best = base + indices[winner];
  }
  return best;
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// c[m][n] = DOT(a[m], w[n]) (+ bias[n]) of float32 weights, and their panels.
#include <cstring>

#include "kernels/generic/kernels.h"
#include "kernels/generic/matmul_panels.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

void matmul(const float* a, int64_t lda, int64_t rows, const float* weights, int64_t k, int64_t cols,
            const float* bias, float* c, int64_t ldc) {
  matmul_panels(a, lda, rows, FloatPanels{weights, k}, k, bias, c, ldc, cols, nullptr);
}

namespace {

using f32x4 = float __attribute__((vector_size(16)));

ISOBIT_INLINE f32x4 load4(const float* p) {
  f32x4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
ISOBIT_INLINE void store4(float* p, f32x4 v) { std::memcpy(p, &v, sizeof v); }

// to[kPanel * i + j] = w[k * j + i] for i, j < 4.
ISOBIT_INLINE void transpose4(const float* w, int64_t k, float* to) {
  const f32x4 a = load4(w), b = load4(w + k), c = load4(w + 2 * k), d = load4(w + 3 * k);
  const f32x4 ab01 = __builtin_shufflevector(a, b, 0, 4, 1, 5),
              ab23 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const f32x4 cd01 = __builtin_shufflevector(c, d, 0, 4, 1, 5),
              cd23 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store4(to, __builtin_shufflevector(ab01, cd01, 0, 1, 4, 5));
  store4(to + kPanel, __builtin_shufflevector(ab01, cd01, 2, 3, 6, 7));
  store4(to + 2 * kPanel, __builtin_shufflevector(ab23, cd23, 0, 1, 4, 5));
  store4(to + 3 * kPanel, __builtin_shufflevector(ab23, cd23, 2, 3, 6, 7));
}

}  // namespace

// panels[p][i][j] = w[32 p + j][i], zeros past n.
void pack_panels(const float* w, int64_t n, int64_t k, float* panels) {
  constexpr int64_t kStep = 16;  // k at a time: one cache line of each row
  // Short rows are asked for in the order of memory, a panel before their use; of long ones that would not
  // stay in the cache for so long, so these are asked for four lines before.
  const bool by_panel = k <= 2048;
  for (int64_t first = 0; first < n; first += kPanel, w += kPanel * k, panels += k * kPanel) {
    const int64_t rows = n - first < kPanel ? n - first : kPanel, fours = rows / 4 * 4;
    for (int64_t i0 = 0; i0 < k; i0 += kStep) {
      const int64_t i1 = i0 + kStep < k ? i0 + kStep : k, whole = i0 + (i1 - i0) / 4 * 4;
      for (int64_t j = 0; j < fours; j += 4) {
        for (int64_t l = j; l < j + 4; ++l)
          prefetch_l2(w + (by_panel ? kPanel * (k + i0) + l * kStep : l * k + i0 + 4 * kStep));
        for (int64_t i = i0; i < whole; i += 4) transpose4(w + j * k + i, k, panels + i * kPanel + j);
        for (int64_t i = whole; i < i1; ++i)
          for (int64_t l = j; l < j + 4; ++l) panels[i * kPanel + l] = w[l * k + i];
      }
      for (int64_t i = i0; i < i1; ++i)
        for (int64_t j = fours; j < kPanel; ++j) panels[i * kPanel + j] = j < rows ? w[j * k + i] : 0.0f;
    }
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// c[m][n] = DOT(a[m], w[n]) (+ bias[n]) of float32 weights, and their panels.
#include "kernels/generic/kernels.h"
#include "kernels/generic/matmul_panels.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

void matmul(const float* a, int64_t lda, int64_t rows, const float* weights, int64_t k, int64_t cols,
            const float* bias, float* c, int64_t ldc) {
  matmul_panels(a, lda, rows, FloatPanels{weights, k}, k, bias, c, ldc, cols, nullptr);
}

// panels[p][i][j] = w[32 p + j][i], zeros past n.
void pack_panels(const float* w, int64_t n, int64_t k, float* panels) {
  constexpr int64_t kStep = 16;  // k at a time: one cache line of each row
  for (int64_t first = 0; first < n; first += kPanel, panels += k * kPanel) {
    const int64_t rows = n - first < kPanel ? n - first : kPanel;
    for (int64_t i0 = 0; i0 < k; i0 += kStep) {
      const int64_t i1 = i0 + kStep < k ? i0 + kStep : k;
      for (int64_t j = 0; j < rows; ++j)
        for (int64_t i = i0; i < i1; ++i) panels[i * kPanel + j] = w[(first + j) * k + i];
      for (int64_t j = rows; j < kPanel; ++j)
        for (int64_t i = i0; i < i1; ++i) panels[i * kPanel + j] = 0.0f;
    }
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

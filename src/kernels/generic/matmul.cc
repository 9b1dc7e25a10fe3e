// SPDX-License-Identifier: Apache-2.0
// c[m][n] = DOT(a[m], w[n]) (+ bias[n]) of float32 weights: wide tiles for few rows, else groups of rows that
// stay in a cache while the panels pass.
#include "kernels/generic/kernels.h"
#include "kernels/generic/matmul_tile.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

void matmul(const float* a, int64_t lda, int64_t rows, const float* weights, int64_t k, int64_t cols,
            const float* bias, float* c, int64_t ldc) {
  const FloatPanels panels{weights, k};
  if (rows == 1) return matmul_few<1, 2 * kWide>(a, lda, panels, k, 0, cols, bias, c, ldc);
  if (rows == 2) return matmul_few<2, kWide>(a, lda, panels, k, 0, cols, bias, c, ldc);
  const int64_t vecs = (cols + 15) / 16;
  constexpr int64_t kGroup = 96;  // rows that stay in the second-level cache while the panels pass
  for (int64_t first = 0; first < rows; first += kGroup) {
    const int64_t n = rows - first < kGroup ? rows - first : kGroup;
    const int64_t full = n / kTileRows * kTileRows;
    const float* x = a + first * lda;
    float* y = c + first * ldc;
    int64_t vec = 0;
    for (; vec + kTileVecs <= vecs; vec += kTileVecs) {
      matmul_strip<kTileRows, kTileVecs>(x, lda, n, panels, k, vec, bias, y, ldc, cols);
      matmul_rest<kTileRows - 1, kTileVecs>(x + full * lda, lda, n - full, panels, k, vec, bias,
                                            y + full * ldc, ldc, cols);
    }
    for (; vec < vecs; ++vec) {
      matmul_strip<kTileRows, 1>(x, lda, n, panels, k, vec, bias, y, ldc, cols);
      matmul_rest<kTileRows - 1, 1>(x + full * lda, lda, n - full, panels, k, vec, bias, y + full * ldc, ldc,
                                    cols);
    }
  }
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

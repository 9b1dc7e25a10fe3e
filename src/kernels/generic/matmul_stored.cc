// SPDX-License-Identifier: Apache-2.0
// matmul of weights stored as bfloat16 or int8 (contract 8): the bits of the float32 product of the widened
// weights. Few rows read the small panels at the speed of memory and widen in registers; for many, each panel
// is widened once into scratch.
#include "kernels/generic/kernels.h"
#include "kernels/generic/matmul_tile.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

// Few is as many rows as leave wide tiles in registers.
constexpr int kFewRows = kTileRows * kTileVecs >= 24 ? 4 : 2;

template <int ROWS, class Panels>
static inline void matmul_few_or_many(const float* a, int64_t lda, int64_t rows, const Panels& panels,
                                      int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc,
                                      float* scratch) {
  if constexpr (ROWS <= kFewRows) {
    if (rows == ROWS)
      matmul_few<ROWS, ROWS == 1 ? 2 * kWide : kWide>(a, lda, panels, k, 0, cols, bias, c, ldc);
    else
      matmul_few_or_many<ROWS + 1>(a, lda, rows, panels, k, cols, bias, c, ldc, scratch);
  } else {
    for (int64_t col = 0; col < cols; col += kPanel) {
      const auto low = panels.columns(col / 16), high = panels.columns(col / 16 + 1);
      for (int64_t i = 0; i < k; ++i) {
        store(scratch + i * kPanel, low.at(i));
        store(scratch + i * kPanel + 16, high.at(i));
      }
      const int64_t n = cols - col < kPanel ? cols - col : kPanel;
      matmul(a, lda, rows, scratch, k, n, bias ? bias + col : nullptr, c + col, ldc);
    }
  }
}

void matmul_bf16(const float* a, int64_t lda, int64_t rows, const uint16_t* panels, int64_t k, int64_t cols,
                 const float* bias, float* c, int64_t ldc, float* scratch) {
  matmul_few_or_many<1>(a, lda, rows, Bf16Panels{panels, k}, k, cols, bias, c, ldc, scratch);
}

void matmul_int8(const float* a, int64_t lda, int64_t rows, const int8_t* panels, const float* scales,
                 int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc, float* scratch) {
  matmul_few_or_many<1>(a, lda, rows, Int8Panels{panels, scales, k}, k, cols, bias, c, ldc, scratch);
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

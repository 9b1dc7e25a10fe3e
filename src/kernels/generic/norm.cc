// SPDX-License-Identifier: Apache-2.0
// RMSNorm and LayerNorm of rows (contract 6) over the laned sums of contract 3.
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

// Laned sum over n elements in blocks of 256 joined by the tree; term(i, valid) gives lanes i..i+15, zeros
// past valid.
template <typename Term>
static inline float laned_sum(int64_t n, Term term) {
  f32x16 partials[kMaxTreeLevels];
  int depth = 0;
  f32x16 lanes = zero();
  int64_t block = 0;
  for (int64_t begin = 0;; begin += kBlock, ++block) {
    const int64_t end = begin + kBlock < n ? begin + kBlock : n;
    lanes = zero();
    for (int64_t i = begin; i < end; i += 16)
      lanes = term(i, static_cast<int>(end - i < 16 ? end - i : 16), lanes);
    const bool last = end == n;
    for (int64_t bit = block; depth > 0 && (last || (bit & 1)); bit >>= 1) lanes = partials[--depth] + lanes;
    if (last) break;
    partials[depth++] = lanes;
  }
  return sum_halving(lanes) + 0.0f;
}

// 1 / sqrt(sum / d + eps): two roundings for the root and the division.
static inline f32x16 inverse_root(float sum, int64_t d, float eps) {
  const f32x16 mean = broadcast(sum) / broadcast(static_cast<float>(d));
  return broadcast(1.0f) / sqrt(mean + broadcast(eps));
}

static inline bool finite(float x) { return x - x == 0.0f; }

int64_t rms_norm(const float* x, int64_t ldx, int64_t rows, int64_t d, const float* w, float eps, bool offset,
                 float* y, int64_t ldy) {
  int64_t bad = rows;
  for (int64_t row = 0; row < rows; ++row, x += ldx, y += ldy) {
    const float sum = laned_sum(d, [x](int64_t i, int n, f32x16 lanes) {
      const f32x16 v = load_lanes(x + i, n);
      return fma(v, v, lanes);
    });
    if (!finite(sum) && bad == rows) bad = row;
    const f32x16 r = inverse_root(sum, d, eps);
    for (int64_t i = 0; i < d; i += 16) {
      const int n = static_cast<int>(d - i < 16 ? d - i : 16);
      const f32x16 weight = load_lanes(w + i, n);
      store_lanes(y + i, (load_lanes(x + i, n) * r) * (offset ? broadcast(1.0f) + weight : weight), n);
    }
  }
  return bad;
}

int64_t layer_norm(const float* x, int64_t ldx, int64_t rows, int64_t d, const float* w, const float* bias,
                   float eps, float* y, int64_t ldy) {
  int64_t bad = rows;
  for (int64_t row = 0; row < rows; ++row, x += ldx, y += ldy) {
    const float length = static_cast<float>(d);
    const float sum =
        laned_sum(d, [x](int64_t i, int n, f32x16 lanes) { return lanes + load_lanes(x + i, n); });
    const float rough = sum / length;
    // Lanes past the end add x - mean of nothing: +0.
    const auto deviation = [x](int64_t i, int n, f32x16 mean) {
      const f32x16 v = load_lanes(x + i, n) - mean;
      return n == 16 ? v : select(first_n(n), v, zero());
    };
    const float rest = laned_sum(
        d, [&](int64_t i, int n, f32x16 lanes) { return lanes + deviation(i, n, broadcast(rough)); });
    const f32x16 mean = broadcast(rough + rest / length);
    const float squares = laned_sum(d, [&](int64_t i, int n, f32x16 lanes) {
      const f32x16 v = deviation(i, n, mean);
      return fma(v, v, lanes);
    });
    if (!(finite(sum) && finite(rest) && finite(squares)) && bad == rows) bad = row;
    const f32x16 r = inverse_root(squares, d, eps);
    for (int64_t i = 0; i < d; i += 16) {
      const int n = static_cast<int>(d - i < 16 ? d - i : 16);
      f32x16 v = ((load_lanes(x + i, n) - mean) * r) * load_lanes(w + i, n);
      if (bias) v = v + load_lanes(bias + i, n);
      store_lanes(y + i, v, n);
    }
  }
  return bad;
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

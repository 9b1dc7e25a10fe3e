// SPDX-License-Identifier: Apache-2.0
// The reference table: every kernel as the contract says it, one number at a time.
#include "kernels/table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/reference/attention.h"
#include "kernels/reference/elementary.h"
#include "kernels/reference/integer.h"
#include "kernels/reference/state_space.h"
#include "kernels/reference/tree.h"

namespace isobit::kernels::reference {
namespace {

void matmul(const float* a, int64_t lda, int64_t rows, const float* panels, int64_t k, int64_t cols,
            const float* bias, float* c, int64_t ldc) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < cols; ++n) {
      const float y = dot(a + r * lda, panels + n / kPanel * kPanel * k + n % kPanel, k, kPanel);
      c[r * ldc + n] = bias ? y + bias[n] : y;
    }
}

template <class At>
std::vector<float> float_panels(int64_t cols, int64_t k, const At& at) {
  std::vector<float> panels(static_cast<size_t>((cols + kPanel - 1) / kPanel * kPanel * k));
  for (int64_t n = 0; n < cols; ++n)
    for (int64_t i = 0; i < k; ++i) panels[n / kPanel * kPanel * k + i * kPanel + n % kPanel] = at(n, i);
  return panels;
}

float widened_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

void matmul_bf16(const float* a, int64_t lda, int64_t rows, const uint16_t* panels, int64_t k, int64_t cols,
                 const float* bias, float* c, int64_t ldc, float*) {
  const std::vector<float> widened =
      float_panels(cols, k, [&](int64_t n, int64_t i) { return widened_bf16(panels[bf16_index(n, i, k)]); });
  matmul(a, lda, rows, widened.data(), k, cols, bias, c, ldc);
}

void matmul_int8(const float* a, int64_t lda, int64_t rows, const int8_t* panels, const float* scales,
                 int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc, float*) {
  const std::vector<float> widened = float_panels(cols, k, [&](int64_t n, int64_t i) {
    return static_cast<float>(panels[int8_index(n, i, k)]) * scales[n];
  });
  matmul(a, lda, rows, widened.data(), k, cols, bias, c, ldc);
}

int64_t rms_norm(const float* x, int64_t ldx, int64_t rows, int64_t d, const float* w, float eps, bool offset,
                 float* y, int64_t ldy) {
  int64_t bad = rows;
  for (int64_t row = 0; row < rows; ++row, x += ldx, y += ldy) {
    const float squares = sum(d, [x](int64_t i, float lane) { return scalar_fma(x[i], x[i], lane); });
    if (!std::isfinite(squares) && bad == rows) bad = row;
    const float r = 1.0f / std::sqrt(squares / static_cast<float>(d) + eps);
    for (int64_t i = 0; i < d; ++i) y[i] = (x[i] * r) * (offset ? 1.0f + w[i] : w[i]);
  }
  return bad;
}

int64_t layer_norm(const float* x, int64_t ldx, int64_t rows, int64_t d, const float* w, const float* bias,
                   float eps, float* y, int64_t ldy) {
  int64_t bad = rows;
  const float length = static_cast<float>(d);
  for (int64_t row = 0; row < rows; ++row, x += ldx, y += ldy) {
    const float total = sum(d, [x](int64_t i, float lane) { return lane + x[i]; });
    const float rough = total / length;
    const float rest = sum(d, [x, rough](int64_t i, float lane) { return lane + (x[i] - rough); });
    const float mean = rough + rest / length;
    const float squares =
        sum(d, [x, mean](int64_t i, float lane) { return scalar_fma(x[i] - mean, x[i] - mean, lane); });
    if (!(std::isfinite(total) && std::isfinite(rest) && std::isfinite(squares)) && bad == rows) bad = row;
    const float r = 1.0f / std::sqrt(squares / length + eps);
    for (int64_t i = 0; i < d; ++i) {
      y[i] = ((x[i] - mean) * r) * w[i];
      if (bias) y[i] = y[i] + bias[i];
    }
  }
  return bad;
}

void rope(float* x, int64_t heads, int64_t head_dim, int64_t half, const float* cos, const float* sin) {
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t j = 0; j < half; ++j) {
      float& first = x[h * head_dim + j];
      float& second = x[h * head_dim + half + j];
      const float u = first, v = second;
      first = scalar_fma(u, cos[j], -(v * sin[j]));
      second = scalar_fma(v, cos[j], u * sin[j]);
    }
}

void activate(Activation kind, const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    const float a = kind == Activation::kSilu   ? silu_ref(gate[i])
                    : kind == Activation::kGelu ? gelu_ref(gate[i])
                                                : gelu_tanh_ref(gate[i]);
    y[i] = up ? a * up[i] : a;
  }
}

void add(const float* a, const float* b, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

void unary(Unary kind, const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = unary_ref(kind, x[i]);
}

int64_t first_nonfinite(const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!std::isfinite(x[i])) return i;
  return n;
}

int64_t argmax(const float* x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i)
    if (x[i] > x[best]) best = i;
  return best;
}

void pack_panels(const float* w, int64_t n, int64_t k, float* panels) {
  std::fill_n(panels, (n + kPanel - 1) / kPanel * kPanel * k, 0.0f);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t i = 0; i < k; ++i)
      panels[row / kPanel * kPanel * k + i * kPanel + row % kPanel] = w[row * k + i];
}

constexpr KernelTable kTable = {
    .isa = "reference",
    .matmul = matmul,
    .matmul_bf16 = matmul_bf16,
    .matmul_int8 = matmul_int8,
    .dot = {.isa = "reference",
            .matmul_int15 = matmul_int15,
            .matmul_int8x32 = matmul_int8x32,
            .matmul_int4x32 = matmul_int4x32},
    .quantize_int15 = quantize_int15,
    .quantize_int8x32 = quantize_int8x32,
    .attention = attention,
    .attention_scratch = [](int64_t) -> int64_t { return 0; },
    .attention_join = attention_join,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .rope = rope,
    .activate = activate,
    .add = add,
    .unary = unary,
    .causal_conv = causal_conv,
    .selective_scan = selective_scan,
    .head_steps = head_steps,
    .head_scan = head_scan,
    .trapezoid_steps = trapezoid_steps,
    .trapezoid_scan = trapezoid_scan,
    .trapezoid_scratch = [](int64_t, int64_t) -> int64_t { return 0; },
    .mimo_gate = mimo_gate,
    .first_nonfinite = first_nonfinite,
    .argmax = argmax,
    .pack_panels = pack_panels,
};

}  // namespace
}  // namespace isobit::kernels::reference

namespace isobit::kernels {

const KernelTable& reference_table() { return reference::kTable; }

}  // namespace isobit::kernels

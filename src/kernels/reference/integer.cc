// SPDX-License-Identifier: Apache-2.0
// The integer profiles (contract 7c) as written.
#include "kernels/reference/integer.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/tree.h"

namespace isobit::kernels::reference {
namespace {

/// x to the nearest integer, ties to even, limited to -most..most; |x| < 2^31.
int32_t code_of(double x, int32_t most) {
  constexpr double kMagic = 0x1.8p52;
  return std::clamp(static_cast<int32_t>((x + kMagic) - kMagic), -most, most);
}

float largest(const float* x, int64_t n) {
  float top = 0.0f;
  for (int64_t i = 0; i < n; ++i) top = std::max(top, std::fabs(x[i]));
  return top;
}

}  // namespace

void quantize_int15(const float* x, int64_t ldx, int64_t rows, int64_t k, int16_t* codes, int64_t ld,
                    int32_t* exponents) {
  for (int64_t row = 0; row < rows; ++row) {
    const float top = largest(x + row * ldx, k);
    const int32_t e = top == 0.0f ? 0 : std::ilogb(top) - 13;
    exponents[row] = e;
    for (int64_t i = 0; i < ld; ++i) {
      const double scaled = i < k ? std::ldexp(static_cast<double>(x[row * ldx + i]), -e) : 0.0;  // exact
      codes[row * ld + i] = static_cast<int16_t>(code_of(scaled, 16383));
    }
  }
}

float int15_value(int64_t sum, int32_t exponent) {
  const float rounded = static_cast<float>(sum);
  return static_cast<float>(std::ldexp(static_cast<double>(rounded), exponent));  // exact in binary64
}

void matmul_int15(const Int15Rows& a, int64_t rows, const int16_t* panels, const int32_t* exponents,
                  int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc) {
  const int64_t pairs = (k + 1) / 2;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < cols; ++n) {
      const int16_t* w = panels + n / kPanel * kPanel * 2 * pairs + n % kPanel * 2;
      int64_t sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += int64_t{a.codes[r * a.ld + i]} * w[i / 2 * 2 * kPanel + i % 2];
      const float y = int15_value(sum, a.exponents[r] + exponents[n]);
      c[r * ldc + n] = bias ? y + bias[n] : y;
    }
}

void quantize_int8x32(const float* x, int64_t ldx, int64_t rows, int64_t k, int8_t* codes, float* scales,
                      int32_t* offsets) {
  const int64_t blocks = (k + 31) / 32;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t b = 0; b < blocks; ++b) {
      const float* from = x + row * ldx + 32 * b;
      const int64_t n = std::min<int64_t>(32, k - 32 * b);
      const float s = largest(from, n) / 127.0f;
      int32_t sum = 0;
      for (int64_t i = 0; i < 32; ++i) {
        const int32_t code = i < n && s != 0.0f ? code_of(from[i] / s, 127) : 0;
        codes[(row * blocks + b) * 32 + i] = static_cast<int8_t>(code);
        sum += code;
      }
      scales[row * blocks + b] = s;
      offsets[row * blocks + b] = -128 * sum;
    }
}

void matmul_int8x32(const Int8Rows& a, int64_t rows, const uint8_t* panels, int64_t cols, const float* bias,
                    float* c, int64_t ldc) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < cols; ++n) {
      const uint8_t* panel = panels + n / kPanel * a.blocks * kInt8BlockBytes;
      std::vector<std::pair<int64_t, float>> nodes;
      for (int64_t first = 0; first < a.blocks; first += kBlock / 32) {
        float acc = 0.0f;
        for (int64_t b = first; b < std::min(first + kBlock / 32, a.blocks); ++b) {
          const uint8_t* block = panel + b * kInt8BlockBytes;
          int32_t d = 0;
          for (int64_t i = 0; i < 32; ++i)
            d += a.codes[(r * a.blocks + b) * 32 + i] *
                 (block[i / 4 * 4 * kPanel + n % kPanel * 4 + i % 4] - 128);
          const float scale = reinterpret_cast<const float*>(block + 32 * kPanel)[n % kPanel];
          acc = scalar_fma(static_cast<float>(d), scale * a.scales[r * a.blocks + b], acc);
        }
        nodes.emplace_back(first / (kBlock / 32), acc);
      }
      const float y = tree(std::move(nodes), [](float l, float r2) { return l + r2; }) + 0.0f;
      c[r * ldc + n] = bias ? y + bias[n] : y;
    }
}

}  // namespace isobit::kernels::reference

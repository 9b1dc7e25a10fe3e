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

float f16(const uint8_t* p) {
  const int32_t bits = p[0] | p[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return bits >> 15 ? -size : size;
}

/// Row r by one output: acc = add(its codes of block b, b, their scale, acc) for the 32-blocks of each
/// 256-block from +0; TREE; + (+0).
template <typename Add>
float block_product(const Int8Rows& a, int64_t r, Add add) {
  constexpr int64_t kStep = kBlock / kInt8Block;
  std::vector<std::pair<int64_t, float>> nodes;
  for (int64_t first = 0; first < a.blocks; first += kStep) {
    float acc = 0.0f;
    for (int64_t b = first; b < std::min(first + kStep, a.blocks); ++b) {
      const Int8Group& group = a.groups[r / kInt8Group * a.blocks + b];
      acc = add(group.codes[r % kInt8Group], b, group.scales[r % kInt8Group], acc);
    }
    nodes.emplace_back(first / kStep, acc);
  }
  return tree(std::move(nodes), [](float left, float right) { return left + right; }) + 0.0f;
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

void quantize_int8x32(const float* x, int64_t ldx, int64_t rows, int64_t k, Int8Group* groups) {
  const int64_t blocks = (k + 31) / 32;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t b = 0; b < blocks; ++b) {
      Int8Group& group = groups[row / kInt8Group * blocks + b];
      const float* from = x + row * ldx + 32 * b;
      const int64_t n = std::min<int64_t>(32, k - 32 * b);
      const float s = largest(from, n) / 127.0f;
      int32_t sum = 0;
      for (int64_t i = 0; i < 32; ++i) {
        const int32_t code = i < n && s != 0.0f ? code_of(from[i] / s, 127) : 0;
        group.codes[row % kInt8Group][i] = static_cast<int8_t>(code);
        sum += code;
      }
      group.scales[row % kInt8Group] = s;
      group.offsets[row % kInt8Group] = -128 * sum;
    }
}

void matmul_int8x32(const Int8Rows& a, int64_t rows, const uint8_t* panels, int64_t cols, const float* bias,
                    float* c, int64_t ldc) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < cols; ++n) {
      const uint8_t* panel = panels + n / kPanel * a.blocks * kInt8BlockBytes;
      const float y = block_product(a, r, [&](const int8_t* codes, int64_t b, float row_scale, float acc) {
        const uint8_t* block = panel + b * kInt8BlockBytes;
        int32_t d = 0;
        for (int64_t i = 0; i < kInt8Block; ++i)
          d += codes[i] * (block[i / 4 * 4 * kPanel + n % kPanel * 4 + i % 4] - 128);
        const float scale = reinterpret_cast<const float*>(block + kInt8Block * kPanel)[n % kPanel];
        return scalar_fma(static_cast<float>(d), scale * row_scale, acc);
      });
      c[r * ldc + n] = bias ? y + bias[n] : y;
    }
}

void matmul_int4x32(const Int8Rows& a, int64_t rows, const uint8_t* panels, bool has_min, int64_t cols,
                    const float* bias, float* c, int64_t ldc) {
  const int64_t bytes = has_min ? kInt4MinBlockBytes : kInt4BlockBytes;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < cols; ++n) {
      const uint8_t* panel = panels + n / kPanel * a.blocks * bytes;
      const float y = block_product(a, r, [&](const int8_t* codes, int64_t b, float row_scale, float acc) {
        const uint8_t* block = panel + b * bytes;
        int32_t d = 0, sum = 0;
        for (int64_t i = 0; i < kInt8Block; ++i) {
          const uint8_t pair = block[i % 16 / 4 * 4 * kPanel + n % kPanel * 4 + i % 4];
          const int32_t code = i < 16 ? pair & 15 : pair >> 4;
          d += codes[i] * (has_min ? code : code - 8);
          sum += codes[i];
        }
        const uint8_t* halves = block + kInt8Block * kPanel / 2 + 2 * (n % kPanel);
        acc = scalar_fma(static_cast<float>(d), f16(halves) * row_scale, acc);
        return has_min ? scalar_fma(static_cast<float>(sum), f16(halves + 2 * kPanel) * row_scale, acc) : acc;
      });
      c[r * ldc + n] = bias ? y + bias[n] : y;
    }
}

}  // namespace isobit::kernels::reference

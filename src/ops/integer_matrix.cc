// SPDX-License-Identifier: Apache-2.0
#include "ops/integer_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/thread_pool.h"
#include "core/checked.h"

namespace isobit::ops {
namespace {

using kernels::int15_stride;
using kernels::kInt8Block;
using kernels::kInt8BlockBytes;
using kernels::kPanel;

int64_t pairs_of(const PackedMatrix& w) { return (w.k + 1) / 2; }
int64_t blocks_of(const PackedMatrix& w) { return (w.k + kInt8Block - 1) / kInt8Block; }

// Where code i of row j of a panel lies.
int64_t int15_at(int64_t j, int64_t i) { return i / 2 * 2 * kPanel + 2 * j + i % 2; }
int64_t int8_at(int64_t j, int64_t i) { return i / 4 * 4 * kPanel + 4 * j + i % 4; }

// Where the panel of a row begins, and one of its blocks.
int64_t int15_panel(const PackedMatrix& w, int64_t row) { return row / kPanel * kPanel * 2 * pairs_of(w); }
int64_t int8_block(const PackedMatrix& w, int64_t row, int64_t block) {
  return (row / kPanel * blocks_of(w) + block) * kInt8BlockBytes;
}
constexpr int64_t kScalesAt = kInt8Block * kPanel;  // of a block, in bytes

void pack_int15(const kernels::KernelTable& table, const float* rows, int64_t first, int64_t count,
                PackedMatrix& w) {
  const int64_t stride = int15_stride(w.k);
  std::vector<int16_t> codes(static_cast<size_t>(count * stride));
  std::vector<int32_t> exponents(static_cast<size_t>(count));
  table.quantize_int15(rows, w.k, count, w.k, codes.data(), stride, exponents.data());
  for (int64_t j = 0; j < count; ++j)
    pack_int15_codes(codes.data() + j * stride, exponents.data() + j, first + j, 1, w);
}

void pack_int8x32(const kernels::KernelTable& table, const float* rows, int64_t first, int64_t count,
                  PackedMatrix& w) {
  const int64_t blocks = blocks_of(w);
  std::vector<int8_t> codes(static_cast<size_t>(count * blocks * kInt8Block));
  std::vector<float> scales(static_cast<size_t>(count * blocks));
  std::vector<int32_t> offsets(scales.size());
  table.quantize_int8x32(rows, w.k, count, w.k, codes.data(), scales.data(), offsets.data());
  for (int64_t b = 0; b < blocks; ++b) {
    uint8_t* block = w.blocks() + int8_block(w, first, b);
    float* block_scales = reinterpret_cast<float*>(block + kScalesAt);
    std::memset(block, 128, static_cast<size_t>(kScalesAt));
    for (int64_t j = 0; j < count; ++j) {
      const int8_t* from = codes.data() + (j * blocks + b) * kInt8Block;
      for (int64_t i = 0; i < kInt8Block; ++i) block[int8_at(j, i)] = static_cast<uint8_t>(from[i] + 128);
      block_scales[j] = scales[static_cast<size_t>(j * blocks + b)];
    }
  }
}

// The float nearest x, of x's sign, whose magnitude divided by 127 rounds to s.
float with_scale(float x, float s) {
  const float size = std::fabs(x);
  float up = size, down = size;
  for (int step = 0; step < 128; ++step) {
    if (up / 127.0f == s) return std::copysign(up, x);
    if (down / 127.0f == s) return std::copysign(down, x);
    up = std::nextafter(up, INFINITY);
    down = std::nextafter(down, 0.0f);
  }
  return x;
}

void unpack_int8x32(const PackedMatrix& w, int64_t row, float* out) {
  for (int64_t b = 0; b < blocks_of(w); ++b) {
    const int64_t begin = b * kInt8Block, n = std::min(kInt8Block, w.k - begin);
    const uint8_t* block = w.blocks() + int8_block(w, row, b);
    const float s = reinterpret_cast<const float*>(block + kScalesAt)[row % kPanel];
    int64_t top = 0;
    for (int64_t i = 0; i < n; ++i) {
      out[begin + i] = static_cast<float>(block[int8_at(row % kPanel, i)] - 128) * s;
      if (std::fabs(out[begin + i]) > std::fabs(out[begin + top])) top = i;
    }
    out[begin + top] = with_scale(out[begin + top], s);
  }
}

}  // namespace

void allocate_integer_panels(PackedMatrix& w, SlabPool& pool) {
  const int64_t columns = checked_mul((w.n + kPanel - 1) / kPanel, kPanel);
  if (w.profile == NumericProfile::kFixed15V1) {
    w.panels = pool.take(checked_mul(columns, pairs_of(w)));
    w.scales = pool.take(columns);
  } else {
    w.panels = pool.take(checked_mul(columns / kPanel, blocks_of(w)) * (kInt8BlockBytes / 4));
  }
}

void pack_integer_panel(const kernels::KernelTable& table, const float* rows, int64_t first, int64_t count,
                        PackedMatrix& w) {
  if (w.profile == NumericProfile::kFixed15V1)
    pack_int15(table, rows, first, count, w);
  else
    pack_int8x32(table, rows, first, count, w);
}

void pack_int15_codes(const int16_t* codes, const int32_t* exponents, int64_t first, int64_t count,
                      PackedMatrix& w) {
  for (int64_t row = first; row < first + count; ++row, codes += w.k) {
    int16_t* panel = w.int15() + int15_panel(w, row);
    for (int64_t i = 0; i < w.k; ++i) panel[int15_at(row % kPanel, i)] = codes[i];
    w.exponents()[row] = exponents[row - first];
  }
}

void unpack_integer_row(const PackedMatrix& w, int64_t row, float* out) {
  if (w.profile == NumericProfile::kInt8x32V1) return unpack_int8x32(w, row, out);
  const int16_t* panel = w.int15() + int15_panel(w, row);
  for (int64_t i = 0; i < w.k; ++i)
    out[i] = static_cast<float>(
        std::ldexp(static_cast<double>(panel[int15_at(row % kPanel, i)]), w.exponents()[row]));
}

void IntegerRows::quantize(const kernels::KernelTable& table, const float* x, int64_t ldx, int64_t rows,
                           const PackedMatrix& w) {
  constexpr int64_t kRows = 16;  // of one unit
  const int64_t units = (rows + kRows - 1) / kRows;
  if (w.profile == NumericProfile::kFixed15V1) {
    const int64_t stride = int15_stride(w.k);
    auto* codes = reinterpret_cast<int16_t*>(codes_.at_least(rows * stride / 2));
    auto* exponents = reinterpret_cast<int32_t*>(scales_.at_least(rows));
    cpu::parallel_for(units, [&](int64_t u) {
      const int64_t r = u * kRows;
      table.quantize_int15(x + r * ldx, ldx, std::min(kRows, rows - r), w.k, codes + r * stride, stride,
                           exponents + r);
    });
    return;
  }
  const int64_t blocks = blocks_of(w);
  auto* codes = reinterpret_cast<int8_t*>(codes_.at_least(rows * blocks * kInt8Block / 4));
  float* scales = scales_.at_least(rows * blocks);
  auto* offsets = reinterpret_cast<int32_t*>(offsets_.at_least(rows * blocks));
  cpu::parallel_for(units, [&](int64_t u) {
    const int64_t r = u * kRows;
    table.quantize_int8x32(x + r * ldx, ldx, std::min(kRows, rows - r), w.k, codes + r * blocks * kInt8Block,
                           scales + r * blocks, offsets + r * blocks);
  });
}

void IntegerRows::take_int15(const int16_t* codes, const int32_t* exponents, int64_t rows, int64_t k) {
  const int64_t stride = int15_stride(k);
  auto* to = reinterpret_cast<int16_t*>(codes_.at_least(rows * stride / 2));
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(codes + r * k, k, to + r * stride);
    std::fill_n(to + r * stride + k, stride - k, int16_t{0});
  }
  std::copy_n(exponents, rows, reinterpret_cast<int32_t*>(scales_.at_least(rows)));
}

void IntegerRows::multiply(const kernels::KernelTable& table, int64_t row, int64_t rows,
                           const PackedMatrix& w, int64_t col, int64_t cols, const float* bias, float* y,
                           int64_t ldy) const {
  if (w.profile == NumericProfile::kFixed15V1) {
    const int64_t stride = int15_stride(w.k);
    const kernels::Int15Rows a = {reinterpret_cast<const int16_t*>(codes_.data()) + row * stride, stride,
                                  reinterpret_cast<const int32_t*>(scales_.data()) + row};
    table.dot.matmul_int15(a, rows, w.int15() + int15_panel(w, col), w.exponents() + col, w.k, cols, bias, y,
                           ldy);
    return;
  }
  const int64_t first = row * blocks_of(w);
  const kernels::Int8Rows a = {reinterpret_cast<const int8_t*>(codes_.data()) + first * kInt8Block,
                               blocks_of(w), scales_.data() + first,
                               reinterpret_cast<const int32_t*>(offsets_.data()) + first};
  table.dot.matmul_int8x32(a, rows, w.blocks() + int8_block(w, col, 0), cols, bias, y, ldy);
}

}  // namespace isobit::ops

// SPDX-License-Identifier: Apache-2.0
#include "ops/integer_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/thread_pool.h"
#include "core/checked.h"
#include "isobit/safetensors.h"
#include "kernels/scalar_fma.h"

namespace isobit::ops {
namespace {

using kernels::int15_stride;
using kernels::kInt8Block;
using kernels::kInt8BlockBytes;
using kernels::kInt8Group;
using kernels::kPanel;

int64_t pairs_of(const PackedMatrix& w) { return (w.k + 1) / 2; }
int64_t blocks_of(const PackedMatrix& w) { return (w.k + kInt8Block - 1) / kInt8Block; }

// Where code i of row j of a panel lies.
int64_t int15_at(int64_t j, int64_t i) { return i / 2 * 2 * kPanel + 2 * j + i % 2; }
int64_t int8_at(int64_t j, int64_t i) { return i / 4 * 4 * kPanel + 4 * j + i % 4; }

int64_t panel_block_bytes(const PackedMatrix& w) {
  return w.kept == BlockType::kQ4_0   ? kernels::kInt4BlockBytes
         : w.kept == BlockType::kQ4_1 ? kernels::kInt4MinBlockBytes
                                      : kInt8BlockBytes;
}

// Where the panel of a row begins, and one of its blocks.
int64_t int15_panel(const PackedMatrix& w, int64_t row) { return row / kPanel * kPanel * 2 * pairs_of(w); }
int64_t int8_block(const PackedMatrix& w, int64_t row, int64_t block) {
  return (row / kPanel * blocks_of(w) + block) * panel_block_bytes(w);
}
constexpr int64_t kScalesAt = kInt8Block * kPanel;  // of a block, in bytes
constexpr int64_t kGroupFloats = sizeof(kernels::Int8Group) / sizeof(float);

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
  std::vector<kernels::Int8Group> groups(static_cast<size_t>(kPanel / kInt8Group * blocks));
  table.quantize_int8x32(rows, w.k, count, w.k, groups.data());
  for (int64_t b = 0; b < blocks; ++b) {
    uint8_t* block = w.blocks() + int8_block(w, first, b);
    float* block_scales = reinterpret_cast<float*>(block + kScalesAt);
    std::memset(block, 128, static_cast<size_t>(kScalesAt));
    for (int64_t j = 0; j < count; ++j) {
      const kernels::Int8Group& group = groups[static_cast<size_t>(j / kInt8Group * blocks + b)];
      const int8_t* from = group.codes[j % kInt8Group];
      for (int64_t i = 0; i < kInt8Block; ++i) block[int8_at(j, i)] = static_cast<uint8_t>(from[i] + 128);
      block_scales[j] = group.scales[j % kInt8Group];
    }
  }
}

// The float nearest code * s that has this code, the largest of a block, and gives the block this scale. A
// block that comes from a file may have none; of others the largest code is 127, or less where s is
// subnormal.
float with_scale(int code, float s) {
  const float wanted = static_cast<float>(code), x = wanted * s;
  if (s <= 0.0f || (s >= 0x1p-126f && code < 127)) return x;
  const auto fits = [&](float v) {
    return v / 127.0f == s && std::min(std::nearbyint(v / s), 127.0f) == wanted;
  };
  float up = x, down = x;
  for (int step = 0; step < 128; ++step) {
    if (fits(up)) return up;
    if (fits(down)) return down;
    up = std::nextafter(up, INFINITY);
    down = std::nextafter(down, 0.0f);
  }
  return x;
}

// Of the blocks of a file, which are finite.
float f16_at(const uint8_t* p) {
  const TensorView half{DType::F16, {1}, reinterpret_cast<const std::byte*>(p)};
  float x = 0.0f;
  widen_to_f32(half, &x);
  return x;
}

void unpack_int4x32(const PackedMatrix& w, int64_t row, float* out) {
  constexpr int64_t kInt4ScalesAt = kScalesAt / 2;
  const bool has_min = w.kept == BlockType::kQ4_1;
  for (int64_t b = 0; b < blocks_of(w); ++b) {
    const uint8_t* block = w.blocks() + int8_block(w, row, b);
    const uint8_t* scales = block + kInt4ScalesAt + 2 * (row % kPanel);
    const float d = f16_at(scales), m = has_min ? f16_at(scales + 2 * kPanel) : 0.0f;
    for (int64_t i = 0; i < kInt8Block; ++i) {
      const uint8_t pair = block[int8_at(row % kPanel, i % 16)];
      const int code = i < 16 ? pair & 15 : pair >> 4;
      out[b * kInt8Block + i] = has_min ? d * static_cast<float>(code) + m : d * static_cast<float>(code - 8);
    }
  }
}

void unpack_int8x32(const PackedMatrix& w, int64_t row, float* out) {
  for (int64_t b = 0; b < blocks_of(w); ++b) {
    const int64_t begin = b * kInt8Block, n = std::min(kInt8Block, w.k - begin);
    const uint8_t* block = w.blocks() + int8_block(w, row, b);
    const float s = reinterpret_cast<const float*>(block + kScalesAt)[row % kPanel];
    const auto code = [&](int64_t i) { return block[int8_at(row % kPanel, i)] - 128; };
    int largest = 0;
    for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(code(i)));
    const float most = with_scale(largest, s);
    for (int64_t i = 0; i < n; ++i)
      out[begin + i] = code(i) == largest    ? most
                       : code(i) == -largest ? -most
                                             : static_cast<float>(code(i)) * s;
  }
}

}  // namespace

void allocate_integer_panels(PackedMatrix& w, SlabPool& pool) {
  const int64_t columns = checked_mul((w.n + kPanel - 1) / kPanel, kPanel);
  if (w.profile == NumericProfile::kFixed15V1) {
    w.panels = pool.take(checked_mul(columns, pairs_of(w)));
    w.scales = pool.take(columns);
  } else {
    w.panels = pool.take(checked_mul(columns / kPanel, blocks_of(w)) * (panel_block_bytes(w) / 4));
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

void keep_block_row(const TensorView& part, int64_t row, PackedMatrix& w) {
  const int64_t bytes = block_bytes(part.blocks), lane = row % kPanel;
  for (int64_t b = 0; b < blocks_of(w); ++b) {
    const auto* from = reinterpret_cast<const uint8_t*>(part.data) + b * bytes;
    uint8_t* block = w.blocks() + int8_block(w, row, b);
    if (w.kept != BlockType::kNone) {
      const int64_t codes_at = w.kept == BlockType::kQ4_1 ? 4 : 2;
      for (int64_t i = 0; i < 16; ++i) block[int8_at(lane, i)] = from[codes_at + i];
      uint8_t* scales = block + kScalesAt / 2 + 2 * lane;
      std::memcpy(scales, from, 2);
      if (w.kept == BlockType::kQ4_1) std::memcpy(scales + 2 * kPanel, from + 2, 2);
      continue;
    }
    for (int64_t i = 0; i < kInt8Block; ++i) {
      const uint8_t pair = from[2 + i % 16];
      block[int8_at(lane, i)] = part.blocks == BlockType::kQ8_0
                                    ? static_cast<uint8_t>(from[2 + i] ^ 128)
                                    : static_cast<uint8_t>((i < 16 ? pair & 15 : pair >> 4) - 8 + 128);
    }
    reinterpret_cast<float*>(block + kScalesAt)[lane] = f16_at(from);
  }
}

void unpack_integer_row(const PackedMatrix& w, int64_t row, float* out) {
  if (w.kept != BlockType::kNone) return unpack_int4x32(w, row, out);
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
    auto* exponents = reinterpret_cast<int32_t*>(exponents_.at_least(rows));
    cpu::parallel_for(units, [&](int64_t u) {
      const int64_t r = u * kRows;
      table.quantize_int15(x + r * ldx, ldx, std::min(kRows, rows - r), w.k, codes + r * stride, stride,
                           exponents + r);
    });
    return;
  }
  const int64_t blocks = blocks_of(w);
  codes_.at_least((rows + kInt8Group - 1) / kInt8Group * blocks * kGroupFloats);
  cpu::parallel_for(units, [&](int64_t u) {
    const int64_t r = u * kRows;
    table.quantize_int8x32(x + r * ldx, ldx, std::min(kRows, rows - r), w.k,
                           groups() + r / kInt8Group * blocks);
  });
}

void IntegerRows::remainder(const float* x, int64_t ldx, int64_t rows, const PackedMatrix& w,
                            float* out) const {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < w.k; ++i) {
      const kernels::Int8Group& group = groups()[r / kInt8Group * blocks_of(w) + i / kInt8Block];
      const auto code = static_cast<float>(group.codes[r % kInt8Group][i % kInt8Block]);
      out[r * w.k + i] = kernels::scalar_fma(-code, group.scales[r % kInt8Group], x[r * ldx + i]);
    }
}

void IntegerRows::take_int15(const int16_t* codes, const int32_t* exponents, int64_t rows, int64_t k) {
  const int64_t stride = int15_stride(k);
  auto* to = reinterpret_cast<int16_t*>(codes_.at_least(rows * stride / 2));
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(codes + r * k, k, to + r * stride);
    std::fill_n(to + r * stride + k, stride - k, int16_t{0});
  }
  std::copy_n(exponents, rows, reinterpret_cast<int32_t*>(exponents_.at_least(rows)));
}

void IntegerRows::multiply(const kernels::KernelTable& table, int64_t row, int64_t rows,
                           const PackedMatrix& w, int64_t col, int64_t cols, const float* bias, float* y,
                           int64_t ldy) const {
  if (w.profile == NumericProfile::kFixed15V1) {
    const int64_t stride = int15_stride(w.k);
    const kernels::Int15Rows a = {reinterpret_cast<const int16_t*>(codes_.data()) + row * stride, stride,
                                  reinterpret_cast<const int32_t*>(exponents_.data()) + row};
    table.dot.matmul_int15(a, rows, w.int15() + int15_panel(w, col), w.exponents() + col, w.k, cols, bias, y,
                           ldy);
    return;
  }
  const kernels::Int8Rows a = {groups() + row / kInt8Group * blocks_of(w), blocks_of(w)};
  const uint8_t* panels = w.blocks() + int8_block(w, col, 0);
  if (w.kept == BlockType::kNone)
    table.dot.matmul_int8x32(a, rows, panels, cols, bias, y, ldy);
  else
    table.dot.matmul_int4x32(a, rows, panels, w.kept == BlockType::kQ4_1, cols, bias, y, ldy);
}

}  // namespace isobit::ops

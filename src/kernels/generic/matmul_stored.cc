// SPDX-License-Identifier: Apache-2.0
// matmul of weights stored as bfloat16 or int8 (contract 8): the bits of the float32 product of the widened
// weights.
#include "kernels/generic/kernels.h"
#include "kernels/generic/matmul_panels.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {
namespace {

// Of each word the bytes that `bytes` numbers from its last one down, 128 for a zero.
ISOBIT_INLINE i32x16 pattern(uint32_t bytes) {
  return broadcast_i(static_cast<int32_t>(bytes)) + (lane_ids() & broadcast_i(3)) * broadcast_i(0x04040404);
}

// A panel's row is one cache line of words, which all vectors of outputs share.
struct Bf16Columns {
  static constexpr int kSharing = 2, kStreamedRows = 1;
  const uint16_t* p;
  i32x16 pick;
  ISOBIT_INLINE const uint16_t* row(int64_t i) const { return p + i * kPanel; }
  ISOBIT_INLINE f32x16 at(int64_t i) const { return bitcast_f(shuffle_bytes(load_words(row(i)), pick)); }
};
struct CodeColumns {  // codes times 2^24
  static constexpr int kSharing = 4, kStreamedRows = 0;
  const int8_t* p;
  i32x16 pick;
  ISOBIT_INLINE const int8_t* row(int64_t i) const { return p + i * kInt8Panel; }
  ISOBIT_INLINE i32x16 codes(int64_t i) const { return shuffle_bytes(load_words(row(i)), pick); }
  ISOBIT_INLINE f32x16 at(int64_t i) const { return to_f32(codes(i)); }
};
struct Int8Columns : CodeColumns {
  f32x16 scale;
  ISOBIT_INLINE f32x16 at(int64_t i) const { return to_f32(sar<24>(codes(i))) * scale; }
};

struct Bf16Panels {
  const uint16_t* data;
  int64_t k;
  ISOBIT_INLINE Bf16Columns columns(int64_t v) const {
    return {data + v / 2 * k * kPanel, pattern(v % 2 == 0 ? 0x01008080 : 0x03028080)};
  }
};
struct CodePanels {
  const int8_t* data;
  int64_t k;
  ISOBIT_INLINE CodeColumns columns(int64_t v) const {
    return {data + v / 4 * k * kInt8Panel, pattern(0x00808080 | static_cast<uint32_t>(v % 4) << 24)};
  }
};
struct Int8Panels {
  CodePanels codes;
  const float* scales;  // one for each output
  ISOBIT_INLINE Int8Columns columns(int64_t v) const { return {codes.columns(v), load(scales + 16 * v)}; }
};

// Whether all of x are between 2^-60 and 2^40 in magnitude, or 0 where that is allowed.
bool moderate(const float* x, int64_t n, bool zero_too) {
  const f32x16 low = broadcast(0x1p-60f), high = broadcast(0x1p40f);
  mask16 good = first_n(16);
  for (int64_t i = 0; i < n; i += 16) {
    const int lanes = n - i < 16 ? static_cast<int>(n - i) : 16;
    const f32x16 size = abs(load_lanes(x + i, lanes));
    mask16 here = ((low <= size) & (size <= high)) | ~first_n(lanes);
    if (zero_too) here = here | (size == zero());
    good = good & here;
  }
  return all(good);
}

}  // namespace

void matmul_bf16(const float* a, int64_t lda, int64_t rows, const uint16_t* panels, int64_t k, int64_t cols,
                 const float* bias, float* c, int64_t ldc, float* scratch) {
  matmul_panels(a, lda, rows, Bf16Panels{panels, k}, k, bias, c, ldc, cols, scratch);
}

// A scale is a power of two, so it commutes with every rounding of a chain unless a value overflows or
// becomes subnormal. Neither happens where all of a and the scales are moderate: everything is a multiple of
// 2^-143 and, below 2^120, times 2^24 or not. Few rows, whose time is that of widening, then leave the scale
// to the end.
void matmul_int8(const float* a, int64_t lda, int64_t rows, const int8_t* panels, const float* scales,
                 int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc, float* scratch) {
  bool late = rows <= 4 && k < (int64_t{1} << 32) && moderate(scales, cols, false);
  for (int64_t r = 0; late && r < rows; ++r) late = moderate(a + r * lda, k, true);
  if (!late)
    return matmul_panels(a, lda, rows, Int8Panels{{panels, k}, scales}, k, bias, c, ldc, cols, scratch);
  matmul_panels(a, lda, rows, CodePanels{panels, k}, k, nullptr, c, ldc, cols, scratch);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t col = 0; col < cols; col += 16) {
      const int n = cols - col < 16 ? static_cast<int>(cols - col) : 16;
      f32x16 y = load_lanes(c + r * ldc + col, n) * (load_lanes(scales + col, n) * broadcast(0x1p-24f));
      if (bias) y = y + load_lanes(bias + col, n);
      store_lanes(c + r * ldc + col, y, n);
    }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
// Matrices and activations of the integer profiles (contract 7c): codes in the layouts of kernels/table.h.
#pragma once

#include <cstdint>

#include "core/aligned_buffer.h"
#include "kernels/table.h"
#include "ops/linear.h"

namespace isobit::ops {

/// Panels of w.profile for w.n x w.k, and the exponents of its rows.
void allocate_integer_panels(PackedMatrix& w, SlabPool& pool);
/// Rows [first, first + count) of one panel, from float32.
void pack_integer_panel(const kernels::KernelTable& table, const float* rows, int64_t first, int64_t count,
                        PackedMatrix& w);
/// The same from codes of 15 bits, rows of w.k, and exponents.
void pack_int15_codes(const int16_t* codes, const int32_t* exponents, int64_t first, int64_t count,
                      PackedMatrix& w);
/// Row `row` from a file's blocks: 8-bit panels take Q8_0 and Q4_0, 4-bit ones what w.kept says.
void keep_block_row(const TensorView& blocks, int64_t row, PackedMatrix& w);
/// Row i as float32 that has the same codes: of 15 bits exactly what the codes mean; of 8-bit blocks that
/// too, but for a largest value that is moved, where it must be, until its block has the same scale again; of
/// a file's blocks what they widen to.
void unpack_integer_row(const PackedMatrix& w, int64_t row, float* out);

/// Rows of activations, quantized once for a whole product.
class IntegerRows {
 public:
  /// x: [rows, w.k] with leading dimension ldx, finite.
  void quantize(const kernels::KernelTable& table, const float* x, int64_t ldx, int64_t rows,
                const PackedMatrix& w);
  /// What quantizing x to 8-bit blocks has left, x[k] - code * scale: out: [rows, w.k].
  void remainder(const float* x, int64_t ldx, int64_t rows, const PackedMatrix& w, float* out) const;
  /// The same from codes of 15 bits, rows of k, and exponents.
  void take_int15(const int16_t* codes, const int32_t* exponents, int64_t rows, int64_t k);
  /// y[r] = rows [row, row + rows), row a multiple of 16, times the columns [col, col + cols) of w (+ bias).
  void multiply(const kernels::KernelTable& table, int64_t row, int64_t rows, const PackedMatrix& w,
                int64_t col, int64_t cols, const float* bias, float* y, int64_t ldy) const;

 private:
  kernels::Int8Group* groups() { return reinterpret_cast<kernels::Int8Group*>(codes_.data()); }
  const kernels::Int8Group* groups() const {
    return reinterpret_cast<const kernels::Int8Group*>(codes_.data());
  }

  AlignedBuffer codes_, exponents_;  // of 15 bits; or groups of 8-bit rows, which hold their scales
};

}  // namespace isobit::ops

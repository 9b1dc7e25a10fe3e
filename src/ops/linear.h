// SPDX-License-Identifier: Apache-2.0
// y = x W^T (+ b): the projections and the head, and the packed form of W.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/aligned_buffer.h"
#include "isobit/numeric_profile.h"
#include "isobit/tensor.h"
#include "isobit/weight_format.h"

namespace isobit {

namespace ops {
class DeferredMatrix;
class WeightRows;
}  // namespace ops

/// In which format a matrix is kept, and for which arithmetic.
struct MatrixForm {
  WeightFormat format = WeightFormat::kFloat32;
  NumericProfile profile = NumericProfile::kFp32V1;
};

/// W [n, k] in panels (kernels/table.h) of its format, or of an integer profile: codes of what the format
/// widens to.
struct PackedMatrix {
  int64_t n = 0;
  int64_t k = 0;
  WeightFormat format = WeightFormat::kFloat32;
  NumericProfile profile = NumericProfile::kFp32V1;
  BlockType kept = BlockType::kNone;  // kQ4_0, kQ4_1: int8x32 panels hold a file's 4-bit blocks
  AlignedBuffer panels;
  AlignedBuffer scales;  // int8: the power of two of each output, 0 past n; fixed15: its exponent, int32
  std::shared_ptr<ops::DeferredMatrix> deferred;  // where not null, it has the rows, and panels are empty

  bool is_integer() const { return profile != NumericProfile::kFp32V1; }

  /// Of the panels and scales, once there are any.
  int64_t bytes() const;

  uint16_t* bf16() { return reinterpret_cast<uint16_t*>(panels.data()); }
  const uint16_t* bf16() const { return reinterpret_cast<const uint16_t*>(panels.data()); }
  int8_t* int8() { return reinterpret_cast<int8_t*>(panels.data()); }
  const int8_t* int8() const { return reinterpret_cast<const int8_t*>(panels.data()); }
  int16_t* int15() { return reinterpret_cast<int16_t*>(panels.data()); }
  const int16_t* int15() const { return reinterpret_cast<const int16_t*>(panels.data()); }
  uint8_t* blocks() { return reinterpret_cast<uint8_t*>(panels.data()); }
  const uint8_t* blocks() const { return reinterpret_cast<const uint8_t*>(panels.data()); }
  int32_t* exponents() { return reinterpret_cast<int32_t*>(scales.data()); }
  const int32_t* exponents() const { return reinterpret_cast<const int32_t*>(scales.data()); }
};

}  // namespace isobit

namespace isobit::ops {

/// Stacks parts [n_i, k] (F32, F16 or BF16, widened exactly) below each other and keeps them in `format`:
/// BF16 tensors as their own bits in bfloat16, and in float32 as well where nothing else is among them.
/// Shapes are the caller's to check; a value that is not finite, or not in bfloat16, is refused with "[who]
/// name", as is a row longer than 65536 for fixed15_v1. Rows of a file whose values stay as they are stay
/// there at first (ops/deferred_matrix.h).
PackedMatrix pack(std::span<const TensorView> parts, std::span<const std::string> names, const char* who,
                  WeightFormat format = WeightFormat::kFloat32,
                  NumericProfile profile = NumericProfile::kFp32V1);

/// Whether a part's blocks are used on their own bits: in int8x32_v1, if no format is asked for. Q4_1, and
/// Q4_0 in panels of 4 bits, only where all parts of a matrix are the same.
bool keeps_blocks(const TensorView& part, WeightFormat format, NumericProfile profile);

/// Rows [begin, end), [end - begin, k], as they are given.
void unpack_rows(const WeightRows& source, int64_t begin, int64_t end, float* out);

/// Rows [begin, end) back as [end - begin, k], widened; of an integer profile as unpack_integer_row says.
void unpack_rows(const PackedMatrix& w, int64_t begin, int64_t end, float* out);

/// How rows become 8-bit blocks: as codes, or as codes and those of what they leave (contract 7c.4).
enum class Terms { kOne, kTwo };

/// x: [rows, k] with leading dimension ldx; y: [rows, n] with ldy; bias: [n] or null. Returns whether all of
/// y is finite.
bool linear(const float* x, int64_t ldx, int64_t rows, const PackedMatrix& w, const float* bias, float* y,
            int64_t ldy, Terms terms = Terms::kOne);

}  // namespace isobit::ops

// SPDX-License-Identifier: Apache-2.0
// y = x W^T (+ b): the projections and the head, and the packed form of W.
#pragma once

#include <cstdint>
#include <span>

#include "core/aligned_buffer.h"
#include "isobit/tensor.h"
#include "isobit/weight_format.h"

namespace isobit {

/// W [n, k] in panels (kernels/table.h) of its format.
struct PackedMatrix {
  int64_t n = 0;
  int64_t k = 0;
  WeightFormat format = WeightFormat::kFloat32;
  AlignedBuffer panels;
  AlignedBuffer scales;  // int8: the power of two of each output, 0 past n

  int64_t bytes() const { return (panels.size() + scales.size()) * static_cast<int64_t>(sizeof(float)); }

  uint16_t* bf16() { return reinterpret_cast<uint16_t*>(panels.data()); }
  const uint16_t* bf16() const { return reinterpret_cast<const uint16_t*>(panels.data()); }
  int8_t* int8() { return reinterpret_cast<int8_t*>(panels.data()); }
  const int8_t* int8() const { return reinterpret_cast<const int8_t*>(panels.data()); }
};

}  // namespace isobit

namespace isobit::ops {

/// Stacks parts [n_i, k] (F32, F16 or BF16, widened exactly) below each other and keeps them in `format`: a
/// BF16 tensor as its own bits in bfloat16. Shapes are the caller's to check; a value that is not finite, or
/// not in bfloat16, is refused with "[who] name".
PackedMatrix pack(std::span<const TensorView> parts, std::span<const std::string> names, const char* who,
                  WeightFormat format = WeightFormat::kFloat32);

/// Rows [begin, end) back as [end - begin, k], widened.
void unpack_rows(const PackedMatrix& w, int64_t begin, int64_t end, float* out);

/// x: [rows, k] with leading dimension ldx; y: [rows, n] with ldy; bias: [n] or null. Returns whether all of
/// y is finite.
bool linear(const float* x, int64_t ldx, int64_t rows, const PackedMatrix& w, const float* bias, float* y,
            int64_t ldy);

}  // namespace isobit::ops

// SPDX-License-Identifier: Apache-2.0
// y = x W^T (+ b): the projections and the head, and the packed form of W.
#pragma once

#include <cstdint>
#include <span>

#include "core/aligned_buffer.h"
#include "isobit/tensor.h"

namespace isobit {

/// W [n, k] in panels (kernels/table.h).
struct PackedMatrix {
  int64_t n = 0;
  int64_t k = 0;
  AlignedBuffer panels;
};

}  // namespace isobit

namespace isobit::ops {

/// Stacks parts [n_i, k] (F32, F16 or BF16, widened exactly) below each other. Shapes are the caller's to
/// check; a non-finite value is refused with "[who] name".
PackedMatrix pack(std::span<const TensorView> parts, std::span<const std::string> names, const char* who);

/// Rows [begin, end) back as [end - begin, k].
void unpack_rows(const PackedMatrix& w, int64_t begin, int64_t end, float* out);

/// x: [rows, k] with leading dimension ldx; y: [rows, n] with ldy; bias: [n] or null. Returns whether all of
/// y is finite.
bool linear(const float* x, int64_t ldx, int64_t rows, const PackedMatrix& w, const float* bias, float* y,
            int64_t ldy);

}  // namespace isobit::ops

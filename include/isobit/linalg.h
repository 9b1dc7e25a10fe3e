// SPDX-License-Identifier: Apache-2.0
// Products of matrices with the bits of the contract, outside of any model.
#pragma once

#include <cstdint>

namespace isobit {

/// out [m, n] = a b^T with a [m, k] and b [n, k], all float32 and dense: out[i][j] = DOT(a[i], b[j], k)
/// (contract 3). ValueError for an operand or a result that is not finite; out is unspecified then.
void matmul(const float* a, int64_t m, const float* b, int64_t n, int64_t k, float* out);

}  // namespace isobit

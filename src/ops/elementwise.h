// SPDX-License-Identifier: Apache-2.0
// What happens to tokens one by one: norms, the MLP's activation, residuals, the embedding and the greedy
// choice.
#pragma once

#include <cstdint>
#include <vector>

#include "isobit/transformer_options.h"
#include "ops/faults.h"
#include "ops/linear.h"

namespace isobit::ops {

struct NormWeights {
  NormKind kind = NormKind::kRmsNorm;
  float eps = 1e-6f;
  std::vector<float> weight;
  std::vector<float> bias;  // empty: none
};

/// y = norm(x) for [tokens, d]; tokens whose sums are not finite are recorded and become zeros.
void norm(const NormWeights& w, const float* x, const TokenBatch& pass, float* y, Faults& faults,
          int64_t layer, Stage stage);

/// act[t, i] = f(gu[t, i]) * gu[t, width + i] (gated) or f(gu[t, i]); gu: [tokens, 2 * width] or [tokens,
/// width]. Returns whether all is finite.
bool activation(MlpKind kind, const float* gu, int64_t tokens, int64_t width, float* act);

/// x = x + y for `n` values; returns whether all is finite.
bool residual(float* x, const float* y, int64_t n);

/// x[t*ld + i] = x[t*ld + i] * factor for t < rows, i < width; and by division.
void scale(float* x, int64_t ld, int64_t rows, int64_t width, float factor);
void divide(float* x, int64_t ld, int64_t rows, int64_t width, float divisor);

/// x[t] = row ids[t] of the table [vocab, d].
void embed(const PackedMatrix& table, const int64_t* ids, int64_t tokens, float* x);

/// The lowest index of the largest of n finite values.
int64_t argmax(const float* x, int64_t n);

}  // namespace isobit::ops

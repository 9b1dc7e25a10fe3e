// SPDX-License-Identifier: Apache-2.0
// Non-finite values inside a computation: which was the first, and how the rest stays clean.
//
// A stage that meets one records its token and replaces the token's values by zeros, so that nothing
// non-finite is ever cached or read by another position. Later layers run on: causality keeps smaller
// positions exact, and one of them may still turn out to be the first. The call then raises for the smallest
// (position, layer, stage, row), which is the same however the sequence was cut into calls.
#pragma once

#include <cstdint>
#include <limits>

#include "ops/token_batch.h"

namespace isobit {

/// In the order of a layer's data flow.
enum class Stage : int {
  kInputNorm,
  kQuery,
  kKey,
  kValue,
  kQueryNorm,
  kKeyNorm,
  kRotary,
  kScores,
  kAttention,
  kSsmInput,
  kConvolution,
  kSsmParameters,
  kInnerNorm,
  kTimeStep,
  kScan,
  kSsmGate,
  kOutput,
  kAttentionResidual,
  kMixerResidual,
  kPostNorm,
  kGate,
  kUp,
  kActivation,
  kDown,
  kMlpResidual,
  kFinalNorm,
  kLogits
};
const char* to_string(Stage stage);

class Faults {
 public:
  void record(int64_t row, int64_t position, int64_t layer, Stage stage);
  bool any() const { return position_ != kNone; }
  /// Throws NonFiniteError if anything was recorded.
  void raise_if_any(const char* who, bool with_state) const;

  /// Records every token of the pass with a non-finite value in x[t*ld .. + width) and zeroes those values.
  void sanitize(const TokenBatch& pass, int64_t layer, Stage stage, float* x, int64_t ld, int64_t width);

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t position_ = kNone, layer_ = 0, row_ = 0;
  Stage stage_ = Stage::kInputNorm;
};

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// What a loaded CausalLM holds. Files beside this one: load.cc builds it, forward.cc and generate.cc run it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "isobit/causal_lm.h"
#include "nn/mamba_layer.h"
#include "nn/transformer_layer.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace isobit {

struct CausalLM::Impl {
  const uint64_t id =
      next_id();  // what states are bound to: an address would come back after this model is gone
  ModelPlan plan;
  int64_t max_positions = 0;
  bool tied = false;
  WeightFormat weight_format = WeightFormat::kFloat32, embed_format = WeightFormat::kFloat32;
  NumericProfile numeric_profile = NumericProfile::kFp32V1;
  std::vector<std::string> unused;
  PackedMatrix embedding;
  PackedMatrix own_head;  // empty when the embedding serves
  ops::NormWeights final_norm;
  std::vector<std::shared_ptr<const Layer>> layers;
  WorkspacePool workspaces;

  const PackedMatrix& head() const { return own_head.n > 0 ? own_head : embedding; }
  bool reads_embedding() const;  ///< whether a layer does, beside the first

  /// Where hidden states go: all tokens' logits, or only those of each row's last token.
  enum class Want { kAll, kLast };
  void run(std::span<const int64_t> ids, int64_t length, float* logits, CausalLMState& state, Want want,
           std::span<const int64_t> more, bool state_given) const;
  /// normed: [run.tokens, d_model] -> logits.
  void run_head(const float* normed, const TokenBatch& run, float* logits, Faults& faults) const;

 private:
  static uint64_t next_id();
};

struct CausalLMState::Impl {
  uint64_t owner = 0;
  int64_t max_tokens = 0;
  std::vector<AnyState> layers;
};

}  // namespace isobit

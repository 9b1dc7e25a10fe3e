// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a few thousand random weights, one of each family, as files or in memory.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "isobit/causal_lm.h"
#include "model/synthetic_models.h"

namespace isobit::testing {

struct TinyModel {
  /// Of synthetic::families().
  explicit TinyModel(const std::string& family);

  nlohmann::json config;
  synthetic::Weights weights;  ///< by checkpoint name

  ModelPlan plan() const { return plan_for(HFConfig::from_text(config.dump())); }
  /// After a change of the config.
  void remake_weights() { weights = synthetic::model(plan(), 5); }
  /// config.json and model.safetensors.
  void write(const std::filesystem::path& directory) const;
  CausalLM load() const { return {plan(), weights.map}; }
};

inline const std::vector<std::string>& tiny_families() { return synthetic::families(); }

constexpr int64_t kTinyVocab = synthetic::kVocab;
/// [batch, length] ids, different for every seed.
std::vector<int64_t> tiny_ids(int64_t batch, int64_t length, uint64_t seed = 1);
/// [batch, length, vocab], or [batch, vocab] with last_only.
std::vector<float> logits(const CausalLM& model, const std::vector<int64_t>& ids, int64_t batch,
                          int64_t length, CausalLMState* state = nullptr, bool last_only = false,
                          std::span<const int64_t> lengths = {});

}  // namespace isobit::testing

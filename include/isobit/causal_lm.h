// SPDX-License-Identifier: Apache-2.0
// A decoder language model from a Hugging Face checkpoint directory: load -> forward -> step -> generate, on
// token ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isobit/mamba_block.h"
#include "isobit/model_plan.h"
#include "isobit/tensor.h"
#include "isobit/transformer_block.h"
#include "isobit/transformer_state.h"
#include "isobit/weight_format.h"

namespace isobit {

struct LoadOptions {
  std::optional<int64_t> max_positions = {};                 ///< default: the config's; at most the config's
  WeightFormat weight_format = WeightFormat::kFloat32;       ///< of the projections; all else is float32
  WeightFormat embed_format = WeightFormat::kFloat32;        ///< of embedding and head: float32 or bfloat16
  NumericProfile numeric_profile = NumericProfile::kFp32V1;  ///< another than this: transformers only
  /// Called with (tensors done, tensors in all) while loading.
  std::function<void(int64_t, int64_t)> progress = {};
};

class CausalLM;

/// One state per layer, all at the same number of tokens in each row; bound to the model that allocated it.
class CausalLMState {
 public:
  CausalLMState(CausalLMState&&) noexcept;
  CausalLMState& operator=(CausalLMState&&) noexcept;
  ~CausalLMState();
  int64_t batch_size() const;
  int64_t max_tokens() const;
  int64_t position() const;  ///< tokens consumed so far, of the row that is furthest
  int64_t position(int64_t row) const;
  int64_t n_layers() const;
  /// The parts of a layer's state: keys and values, a recurrent state, or both; ValueError for one that the
  /// layer does not have.
  TransformerState& layer(int64_t i);
  MambaState& mamba_layer(int64_t i);
  bool has_attention(int64_t i) const;
  bool is_mamba(int64_t i) const;

 private:
  friend class CausalLM;
  struct Impl;
  explicit CausalLMState(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class CausalLM {
 public:
  /// Reads and checks all weights. Those that are used as the file has them are read there once more, in the
  /// first pass, and packed in the second; a file that was written until then (not one that was replaced) is
  /// a ValueError of that pass.
  static CausalLM load(const std::filesystem::path& directory, const LoadOptions& options = {});
  /// Throws what load would for the config and the tensors' names, without reading a weight. Returns the
  /// names that load would leave unread.
  static std::vector<std::string> check(const std::filesystem::path& directory,
                                        const LoadOptions& options = {});
  /// From tensors by checkpoint name. Unknown names are listed in unused_names() only if they are known to be
  /// harmless.
  CausalLM(const ModelPlan& plan, const WeightMap& weights, const LoadOptions& options = {});
  ~CausalLM();
  CausalLM(CausalLM&&) noexcept;
  CausalLM& operator=(CausalLM&&) noexcept;

  const ModelPlan& plan() const;
  int64_t max_positions() const;
  const std::vector<std::string>& unused_names() const;
  /// Layer i, sharing its weights; ValueError where it is of another kind.
  TransformerBlock block(int64_t i) const;
  MambaBlock mamba_block(int64_t i) const;
  bool tied() const;  ///< whether head and embedding are one tensor

  /// ids: [batch, length], each in [0, vocab_size). logits: [batch, length, vocab_size], or with last_only
  /// [batch, vocab_size] for the last position of each row. lengths: ragged rows; each row's state ends at
  /// its own length.
  void forward(std::span<const int64_t> ids, int64_t batch, int64_t length, float* logits,
               CausalLMState* state = nullptr, bool last_only = false,
               std::span<const int64_t> lengths = {}) const;
  CausalLMState allocate_state(int64_t batch_size, int64_t max_tokens) const;
  void reset_state(CausalLMState& state) const;
  /// ids: [batch]; logits: [batch, vocab_size].
  void step(std::span<const int64_t> ids, CausalLMState& state, float* logits) const;

  /// Greedy continuation (ties: the lowest id). Returns [batch, length + max_new_tokens]. on_token is called
  /// after each new column with (step index, that column's ids [batch], their logits [batch, vocab_size]);
  /// returning false stops, and the columns not generated are left out.
  std::vector<int32_t> generate(
      std::span<const int64_t> ids, int64_t batch, int64_t length, int64_t max_new_tokens,
      const std::function<bool(int64_t, std::span<const int32_t>, std::span<const float>)>& on_token = {})
      const;

  WeightFormat weight_format() const;
  WeightFormat embed_format() const;
  int64_t projection_elements() const;  ///< of all matrices but embedding and head
  int64_t step_bytes() const;    ///< of the weights that a step reads: all but a table of embeddings alone
  int64_t weight_bytes() const;  ///< of all weights in their stored form, whole panels of 32 outputs each
  NumericProfile numeric_profile() const;
  /// A parameter by checkpoint name, float32: what its stored form widens to, and where an integer profile
  /// keeps codes, values that have the same codes.
  std::vector<std::string> parameter_names() const;
  std::vector<int64_t> parameter_shape(const std::string& name) const;
  std::vector<float> parameter(const std::string& name) const;

  struct Impl;  ///< private to src/model

 private:
  CausalLM();
  static CausalLM open(const std::filesystem::path& directory, const LoadOptions& options, bool with_weights);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit

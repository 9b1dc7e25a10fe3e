// SPDX-License-Identifier: Apache-2.0
// One pre-norm decoder block: h = x + Attention(norm(x)); out = h + MLP(norm(h)).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "isobit/tensor.h"
#include "isobit/transformer_options.h"
#include "isobit/transformer_state.h"

namespace isobit {

class TransformerLayer;  // packed weights, src/nn

class TransformerBlock {
 public:
  /// Weights are packed (copied; from a file's views as by CausalLM::load), the projections in
  /// options.weight_format. Throws ValueError or TypeError naming the weight or option.
  TransformerBlock(const WeightMap& weights, const TransformerOptions& options);
  ~TransformerBlock();
  TransformerBlock(TransformerBlock&&) noexcept;

  /// x, out: [batch, length, d_model]. With a state, the tokens continue it; without, they start at position
  /// 0. lengths (batch entries in 1..length, only without a state): tokens past a row's length are not
  /// computed and their outputs are +0; the others equal the row alone, bit for bit. On any throw out is
  /// unspecified, the state unchanged.
  void forward(const float* x, int64_t batch, int64_t length, float* out, TransformerState* state = nullptr,
               std::span<const int64_t> lengths = {}) const;

  TransformerState allocate_state(int64_t batch_size, int64_t max_tokens) const;

  const TransformerOptions& options() const;  ///< with every default filled in
  int64_t d_model() const;
  int64_t intermediate() const;
  /// The weights by name, float32: exactly the values given, or what their stored form widens to;
  /// where an integer profile keeps codes, values that have the same codes.
  std::vector<std::string> weight_names() const;
  std::vector<int64_t> weight_shape(const std::string& name) const;
  std::vector<float> weight(const std::string& name) const;

 private:
  friend class CausalLM;
  struct Impl;
  explicit TransformerBlock(std::shared_ptr<const TransformerLayer> layer);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit

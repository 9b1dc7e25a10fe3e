// SPDX-License-Identifier: Apache-2.0
// The data flow of a pre-norm decoder layer over packed weights; what TransformerBlock and CausalLM share.
//
//   n = norm(x)                      q, k, v = n Wq^T, n Wk^T, n Wv^T (+ biases)
//   q, k = rotate(head_norm(q, k))   a = softmax(q K^T) V over the cache
//   x = x + (a Wo^T + bo)            n = norm(x)
//   x = x + (Wd act(n) + bd)         act = f(n Wg^T) * (n Wu^T), or f(n Wu^T)
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/aligned_buffer.h"
#include "isobit/tensor.h"
#include "isobit/transformer_options.h"
#include "nn/rope_table.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace isobit {

/// Activations of one pass, kept between calls so that a decode step allocates nothing.
struct Workspace {
  AlignedBuffer x, normed, qkv, attended, projected, gate_up, activated;
};

/// Lends workspaces to calls that may run at the same time.
class WorkspacePool {
 public:
  class Lease {
   public:
    explicit Lease(WorkspacePool& pool);
    ~Lease();
    Workspace& operator*() { return *workspace_; }

   private:
    WorkspacePool& pool_;
    std::unique_ptr<Workspace> workspace_;
  };

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

/// Fills in defaults from the weights' shapes and checks everything: names, shapes, dtypes, options
/// (interface rules). Throws ValueError or TypeError that begins with "[who]".
TransformerOptions resolve_options(const TransformerOptions& options, const WeightMap& weights,
                                   const char* who);

class TransformerLayer {
 public:
  /// options as from resolve_options. Refuses non-finite weights.
  TransformerLayer(const WeightMap& weights, const TransformerOptions& options, const char* who);
  TransformerLayer(TransformerLayer&&) = delete;  // places_ points into it

  /// x: [pass.tokens, d_model], replaced by the layer's output. Appends to the cache.
  void forward(float* x, const TokenBatch& pass, KvCache& cache, Workspace& workspace, Faults& faults,
               int64_t layer) const;

  const TransformerOptions& options() const { return options_; }
  int64_t d_model() const { return d_model_; }
  int64_t intermediate() const { return intermediate_; }
  /// Computes the rotary rows of [0, positions).
  void reserve_positions(int64_t positions) const { rope_->reserve(positions); }

  std::vector<std::string> weight_names() const;
  std::vector<int64_t> weight_shape(const std::string& name) const;
  std::vector<float> weight(const std::string& name) const;

 private:
  // Where a named weight went: rows of a packed matrix, or a slice of a vector.
  struct Place {
    const PackedMatrix* matrix = nullptr;
    const std::vector<float>* vector = nullptr;
    int64_t begin = 0, end = 0;
  };
  const Place& place(const std::string& name) const;
  void place_matrix(PackedMatrix& w, const WeightMap& weights, std::vector<std::string> names,
                    const char* who);
  void place_vector(std::vector<float>& v, const WeightMap& weights, const std::vector<std::string>& names,
                    const char* who);

  TransformerOptions options_;
  int64_t d_model_ = 0, intermediate_ = 0;
  ops::HeadShape heads_{};
  ops::HeadNorm head_norm_;
  ops::AttentionOptions attention_;
  std::shared_ptr<const RopeTable> rope_;
  ops::NormWeights input_norm_, post_norm_;
  PackedMatrix qkv_, output_, gate_up_, down_;
  std::vector<float> qkv_bias_, output_bias_, gate_up_bias_, down_bias_;
  std::vector<std::pair<std::string, Place>> places_;
};

}  // namespace isobit

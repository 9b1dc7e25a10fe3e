// SPDX-License-Identifier: Apache-2.0
// What every layer of a decoder owes: hidden states in, hidden states out, a state of its own, and its
// weights back by name.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/aligned_buffer.h"
#include "isobit/tensor.h"
#include "ops/faults.h"
#include "ops/linear.h"
#include "state/any_state.h"

namespace isobit {

/// Activations of one pass, kept between calls so that a decode step allocates nothing.
struct Workspace {
  AlignedBuffer x, normed, qkv, attended, projected, gate_up, activated;   // transformer
  AlignedBuffer mixer_in, convolved, parameters, steps, mixed, mixed_out;  // state space
  AlignedBuffer scaled, beside, shared, adapted, adapter;                  // hybrids
  AlignedBuffer embedded;  // of the pass's tokens, where the model has a shared block
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

/// Weights by name: takes them over into packed matrices and vectors, which must stay where they are, and
/// gives them back.
class PlacedWeights {
 public:
  PlacedWeights() = default;
  PlacedWeights(const PlacedWeights&) = delete;

  std::vector<std::string> weight_names() const;
  std::vector<int64_t> weight_shape(const std::string& name) const;
  /// Float32: exactly as given, or what the stored form widens to (see ops::unpack_rows).
  std::vector<float> weight(const std::string& name) const;
  /// Memory of all weights in their stored form.
  int64_t weight_bytes() const;
  int64_t matrix_elements() const;

  /// Stacks matrices below each other and packs them in a format. Refuses non-finite weights.
  void place_matrix(PackedMatrix& w, const WeightMap& weights, std::vector<std::string> names,
                    const char* who, WeightFormat format = WeightFormat::kFloat32,
                    NumericProfile profile = NumericProfile::kFp32V1);
  /// Appends weights, flat, to v.
  void place_values(std::vector<float>& v, const WeightMap& weights, const std::vector<std::string>& names,
                    const char* who);
  /// As place_values for a weight that is used in another form: the values as given stay with the layer.
  const std::vector<float>& keep(const WeightMap& weights, const std::string& name, const char* who);

 private:
  // Where a named weight went: rows of a packed matrix, or a slice of a vector.
  struct Place {
    const PackedMatrix* matrix = nullptr;
    const std::vector<float>* vector = nullptr;
    int64_t begin = 0, end = 0;
    std::vector<int64_t> shape;
  };
  const Place& place(const std::string& name) const;
  std::vector<std::pair<std::string, Place>> places_;
  std::deque<std::vector<float>> kept_;
};

class Layer : public PlacedWeights {
 public:
  virtual ~Layer() = default;

  /// x: [pass.tokens, d_model], replaced by the layer's output; the state takes the tokens in. The state is
  /// one of allocate_state's and inside a transaction.
  virtual void forward(float* x, const TokenBatch& pass, const LayerStates& state, Workspace& workspace,
                       Faults& faults, int64_t layer) const = 0;
  virtual AnyState allocate_state(int64_t batch_size, int64_t max_tokens) const = 0;
  /// The state fits the layer and has room for more[row] tokens in each row; else ValueError.
  virtual void check_state(const char* who, const LayerStates& state,
                           std::span<const int64_t> more) const = 0;
  virtual int64_t d_model() const = 0;
  /// Prepares what depends on absolute positions [0, positions).
  virtual void reserve_positions(int64_t /*positions*/) const {}
};

/// A layer as a block of its own: x -> out, [batch, length, d_model], of which more[row] tokens a row are
/// read and the other outputs are 0. The state, which check_state has accepted, takes them in or is as
/// before; state_given says in messages that the caller has it. ValueError for non-finite values in x.
void run_alone(const Layer& layer, const char* who, const float* x, int64_t length,
               std::span<const int64_t> more, float* out, const LayerStates& state, bool state_given,
               WorkspacePool& workspaces);

}  // namespace isobit

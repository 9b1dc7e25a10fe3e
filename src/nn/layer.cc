// SPDX-License-Identifier: Apache-2.0
#include "nn/layer.h"

#include <algorithm>
#include <set>

#include "core/checked.h"
#include "core/interrupt.h"
#include "isobit/safetensors.h"
#include "kernels/table.h"

namespace isobit {

WorkspacePool::Lease::Lease(WorkspacePool& pool) : pool_(pool) {
  const std::lock_guard lock(pool_.mutex_);
  if (pool_.free_.empty()) {
    workspace_ = std::make_unique<Workspace>();
  } else {
    workspace_ = std::move(pool_.free_.back());
    pool_.free_.pop_back();
  }
}

WorkspacePool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  pool_.free_.push_back(std::move(workspace_));
}

void PlacedWeights::place_matrix(PackedMatrix& w, const WeightMap& weights, std::vector<std::string> names,
                                 const char* who, WeightFormat format, NumericProfile profile) {
  std::vector<TensorView> parts;
  int64_t row = 0;
  for (const std::string& name : names) {
    parts.push_back(weights.at(name));
    const int64_t rows = parts.back().shape[0];
    places_.emplace_back(name,
                         Place{.matrix = &w, .begin = row, .end = row + rows, .shape = parts.back().shape});
    row += rows;
  }
  w = ops::pack(parts, names, who, format, profile);
}

void PlacedWeights::place_values(std::vector<float>& v, const WeightMap& weights,
                                 const std::vector<std::string>& names, const char* who) {
  for (const std::string& name : names) {
    const TensorView& t = weights.at(name);
    const int64_t begin = static_cast<int64_t>(v.size()), n = t.size();
    v.resize(static_cast<size_t>(begin + n));
    widen_to_f32(t, v.data() + begin);
    expect(kernels::active_table().first_nonfinite(v.data() + begin, n) == n, who, name, "finite values",
           "NaN or infinity");
    places_.emplace_back(name, Place{.vector = &v, .begin = begin, .end = begin + n, .shape = t.shape});
  }
}

const std::vector<float>& PlacedWeights::keep(const WeightMap& weights, const std::string& name,
                                              const char* who) {
  std::vector<float>& values = kept_.emplace_back();
  place_values(values, weights, {name}, who);
  return values;
}

std::vector<std::string> PlacedWeights::weight_names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : places_) names.push_back(name);
  return names;
}

const PlacedWeights::Place& PlacedWeights::place(const std::string& name) const {
  for (const auto& [known, place] : places_)
    if (known == name) return place;
  throw ValueError(refusal("weight", "name", "a weight of this block", "'" + name + "'"));
}

std::vector<int64_t> PlacedWeights::weight_shape(const std::string& name) const { return place(name).shape; }

std::vector<float> PlacedWeights::weight(const std::string& name) const {
  const Place& p = place(name);
  if (p.vector) return {p.vector->begin() + p.begin, p.vector->begin() + p.end};
  std::vector<float> out(static_cast<size_t>((p.end - p.begin) * p.matrix->k));
  ops::unpack_rows(*p.matrix, p.begin, p.end, out.data());
  return out;
}

int64_t PlacedWeights::matrix_elements() const {
  int64_t elements = 0;
  for (const auto& [name, p] : places_)
    if (p.matrix) elements += (p.end - p.begin) * p.matrix->k;
  return elements;
}

int64_t PlacedWeights::weight_bytes() const {
  std::set<const void*> seen;
  int64_t bytes = 0;
  for (const auto& [name, p] : places_) {
    if (!seen.insert(p.matrix ? static_cast<const void*>(p.matrix) : p.vector).second) continue;
    bytes += p.matrix ? p.matrix->bytes() : static_cast<int64_t>(p.vector->size() * sizeof(float));
  }
  return bytes;
}

void run_alone(const Layer& layer, const char* who, const float* x, int64_t length,
               std::span<const int64_t> more, float* out, const LayerStates& state, bool state_given,
               WorkspacePool& workspaces) {
  LayerState& part = state.mamba ? static_cast<LayerState&>(*state.mamba) : *state.attention;
  const int64_t d = layer.d_model(), batch = part.batch_size();
  std::vector<int64_t> pos0;
  int64_t end = 0, tokens = 0;
  for (int64_t row = 0; row < batch; ++row) {
    const int64_t n = more[static_cast<size_t>(row)];
    const int64_t at = kernels::active_table().first_nonfinite(x + row * length * d, n * d);
    expect(at == n * d, who, "x", "finite values",
           "NaN or infinity at row " + std::to_string(row) + ", token " + std::to_string(at / d));
    pos0.push_back(part.tokens_of(row));
    end = std::max(end, pos0.back() + n);
    tokens += n;
  }
  layer.reserve_positions(end);
  WorkspacePool::Lease workspace(workspaces);
  const auto transaction = part.begin(more);
  Faults faults;
  if (tokens != batch * length) std::fill_n(out, batch * length * d, 0.0f);
  for (const TokenBatch& pass : make_passes(batch, length, pos0, more)) {
    check_interrupt();
    float* h = (*workspace).x.at_least(pass.tokens * d);
    for (const Segment& g : pass.segments) std::copy_n(x + g.source * d, g.count * d, h + g.offset * d);
    layer.forward(h, pass, state, *workspace, faults, 0);
    for (const Segment& g : pass.segments) std::copy_n(h + g.offset * d, g.count * d, out + g.source * d);
  }
  faults.raise_if_any(who, state_given);
  transaction->commit();
}

}  // namespace isobit

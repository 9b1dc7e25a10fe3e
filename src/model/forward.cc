// SPDX-License-Identifier: Apache-2.0
// ids -> embedding -> layers -> final norm -> head. A step is a forward of one token.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "core/checked.h"
#include "core/fp_env.h"
#include "core/interrupt.h"
#include "model/causal_lm_impl.h"
#include "nn/check_call.h"
#include "state/transformer_state.h"

namespace isobit {
namespace {

constexpr const char* kWho = "CausalLM";

/// All layers' states or none move on.
class Transaction {
 public:
  Transaction(std::vector<AnyState>& layers, int64_t tokens) {
    parts_.reserve(layers.size());
    for (AnyState& s : layers) parts_.push_back(inside(s).begin(tokens));
  }
  void commit() {
    for (auto& part : parts_) part->commit();
  }

 private:
  std::vector<std::unique_ptr<LayerState::Transaction>> parts_;
};

/// The tokens cut where the caller's rows do not follow each other, so that a run's logits are one matrix.
std::vector<TokenBatch> contiguous_runs(const TokenBatch& tokens) {
  std::vector<TokenBatch> runs;
  int64_t expected = -1;  // the caller's row that would continue the run
  for (Segment s : tokens.segments) {
    if (s.source != expected) runs.emplace_back();
    s.offset = runs.back().tokens;
    runs.back().segments.push_back(s);
    runs.back().tokens += s.count;
    expected = s.source + s.count;
  }
  return runs;
}

}  // namespace

uint64_t CausalLM::Impl::next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

void CausalLM::Impl::run(std::span<const int64_t> ids, int64_t batch, int64_t length, float* logits,
                         CausalLMState& state, Want want, std::span<const int64_t> lengths) const {
  const int64_t d = plan.d_model, vocab = plan.vocab_size, n_layers = plan.n_layers;
  const int64_t pos0 = state.position();
  std::vector<AnyState>& states = state.impl_->layers;
  const auto last_of = [&](int64_t row) {
    return pos0 + (lengths.empty() ? length : lengths[static_cast<size_t>(row)]) - 1;
  };
  if (want == Want::kAll && !lengths.empty()) std::fill_n(logits, batch * length * vocab, 0.0f);

  for (const auto& layer : layers) layer->reserve_positions(pos0 + length);
  WorkspacePool::Lease lease(const_cast<WorkspacePool&>(workspaces));
  Workspace& w = *lease;
  Transaction transaction(states, length);
  Faults faults;
  for (const TokenBatch& pass : make_passes(batch, length, pos0, lengths)) {
    float* x = w.x.at_least(pass.tokens * d);
    for (const Segment& s : pass.segments)
      ops::embed(embedding, ids.data() + s.source, s.count, x + s.offset * d);
    for (int64_t i = 0; i < n_layers; ++i) {
      check_interrupt();
      layers[static_cast<size_t>(i)]->forward(x, pass, inside(states[static_cast<size_t>(i)]), w, faults, i);
    }
    // The head computes only what was asked for: these tokens become a pass of their own.
    TokenBatch asked;
    for (const Segment& s : pass.segments) {
      Segment part = s;
      if (want == Want::kLast) {
        const int64_t last = last_of(s.row);
        if (last < s.pos0 || last >= s.pos0 + s.count) continue;
        part = {s.row, last, 1, s.offset + last - s.pos0, s.row};
      }
      std::memmove(x + asked.tokens * d, x + part.offset * d,
                   static_cast<size_t>(part.count * d) * sizeof(float));
      part.offset = asked.tokens;
      asked.segments.push_back(part);
      asked.tokens += part.count;
    }
    if (asked.tokens == 0) continue;
    float* normed = w.normed.at_least(asked.tokens * d);
    ops::norm(final_norm, x, asked, normed, faults, n_layers, Stage::kFinalNorm);
    const float* next = normed;
    for (const TokenBatch& run : contiguous_runs(asked)) {
      float* out = logits + run.segments.front().source * vocab;
      if (!ops::linear(next, d, run.tokens, head(), nullptr, out, vocab))
        faults.sanitize(run, n_layers, Stage::kLogits, out, vocab, vocab);
      next += run.tokens * d;
    }
  }
  faults.raise_if_any(kWho);
  transaction.commit();
}

void CausalLM::forward(std::span<const int64_t> ids, int64_t batch, int64_t length, float* logits,
                       CausalLMState* state, bool last_only, std::span<const int64_t> lengths) const {
  const FpEnv environment;
  const ModelPlan& plan = impl_->plan;
  if (state)
    expect(state->impl_->owner == impl_->id, kWho, "state", "a state of this model",
           "a state of another model");
  check_tokens(kWho, batch, length, impl_->max_positions, state ? state->position() : 0, lengths, state);
  expect(static_cast<int64_t>(ids.size()) == checked_mul(batch, length), kWho, "ids",
         std::to_string(batch * length) + " ids", std::to_string(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i)
    expect(ids[i] >= 0 && ids[i] < plan.vocab_size, kWho, "ids",
           "integers in 0.." + std::to_string(plan.vocab_size - 1),
           std::to_string(ids[i]) + " at row " + std::to_string(static_cast<int64_t>(i) / length) +
               ", column " + std::to_string(static_cast<int64_t>(i) % length));
  std::optional<CausalLMState> fresh;
  CausalLMState& s = state ? *state : fresh.emplace(allocate_state(batch, length));
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    const LayerState& layer = inside(s.impl_->layers[static_cast<size_t>(i)]);
    expect(layer.position() == s.position(), kWho, "state", "all layers at the same number of cached tokens",
           "layer " + std::to_string(i) + " at " + std::to_string(layer.position()) + ", layer 0 at " +
               std::to_string(s.position()));
    impl_->layers[static_cast<size_t>(i)]->check_state(kWho, layer, batch, length);
  }
  impl_->run(ids, batch, length, logits, s, last_only ? Impl::Want::kLast : Impl::Want::kAll, lengths);
}

void CausalLM::step(std::span<const int64_t> ids, CausalLMState& state, float* logits) const {
  forward(ids, static_cast<int64_t>(ids.size()), 1, logits, &state);
}

CausalLMState CausalLM::allocate_state(int64_t batch_size, int64_t max_tokens) const {
  expect(batch_size >= 1, kWho, "batch_size", "a positive integer", std::to_string(batch_size));
  expect(max_tokens >= 1 && max_tokens <= impl_->max_positions, kWho, "max_tokens",
         "1.." + std::to_string(impl_->max_positions), std::to_string(max_tokens));
  auto s = std::make_unique<CausalLMState::Impl>();
  s->owner = impl_->id;
  s->max_tokens = max_tokens;
  for (const auto& layer : impl_->layers) s->layers.push_back(layer->allocate_state(batch_size, max_tokens));
  return CausalLMState(std::move(s));
}

void CausalLM::reset_state(CausalLMState& state) const {
  expect(state.impl_->owner == impl_->id, kWho, "state", "a state of this model", "a state of another model");
  for (AnyState& layer : state.impl_->layers) inside(layer).reset();
}

CausalLMState::CausalLMState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CausalLMState::CausalLMState(CausalLMState&&) noexcept = default;
CausalLMState& CausalLMState::operator=(CausalLMState&&) noexcept = default;
CausalLMState::~CausalLMState() = default;
int64_t CausalLMState::batch_size() const { return inside(impl_->layers.front()).batch_size(); }
int64_t CausalLMState::max_tokens() const { return impl_->max_tokens; }
int64_t CausalLMState::position() const { return inside(impl_->layers.front()).position(); }
int64_t CausalLMState::n_layers() const { return static_cast<int64_t>(impl_->layers.size()); }
namespace {

template <typename Kind>
Kind& layer_as(std::vector<AnyState>& layers, int64_t i, const char* wanted) {
  const auto n = static_cast<int64_t>(layers.size());
  expect(i >= 0 && i < n, "CausalLMState", "layer", "0.." + std::to_string(n - 1), std::to_string(i));
  auto* state = std::get_if<Kind>(&layers[static_cast<size_t>(i)]);
  expect(state != nullptr, "CausalLMState", "layer", wanted, "another kind of layer");
  return *state;
}

}  // namespace

TransformerState& CausalLMState::layer(int64_t i) {
  return layer_as<TransformerState>(impl_->layers, i, "a transformer layer");
}
MambaState& CausalLMState::mamba_layer(int64_t i) {
  return layer_as<MambaState>(impl_->layers, i, "a Mamba layer");
}
bool CausalLMState::is_mamba(int64_t i) const {
  return i >= 0 && i < n_layers() &&
         std::holds_alternative<MambaState>(impl_->layers[static_cast<size_t>(i)]);
}

}  // namespace isobit

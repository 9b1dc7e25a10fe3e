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
  Transaction(std::vector<AnyState>& layers, std::span<const int64_t> more) {
    parts_.reserve(layers.size());
    for (AnyState& s : layers)
      for (LayerState* part : s.parts()) parts_.push_back(part->begin(more));
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

bool CausalLM::Impl::reads_embedding() const {
  return std::any_of(plan.parts.begin(), plan.parts.end(),
                     [](const LayerParts& parts) { return parts.shared_block >= 0; });
}

void CausalLM::Impl::run_head(const float* normed, const TokenBatch& run, float* logits,
                              Faults& faults) const {
  const int64_t vocab = plan.vocab_size;
  bool finite =
      ops::linear(normed, plan.d_model, run.tokens, head(), nullptr, logits, vocab, ops::Terms::kTwo);
  if (plan.logits_multiplier != 1 || plan.logits_divisor != 1) {
    ops::scale(logits, vocab, run.tokens, vocab, static_cast<float>(plan.logits_multiplier));
    ops::divide(logits, vocab, run.tokens, vocab, static_cast<float>(plan.logits_divisor));
    finite = false;  // a factor can overflow: look again
  }
  if (!finite) faults.sanitize(run, plan.n_layers, Stage::kLogits, logits, vocab, vocab);
}

void CausalLM::Impl::run(std::span<const int64_t> ids, int64_t length, float* logits, CausalLMState& state,
                         Want want, std::span<const int64_t> more, bool state_given) const {
  const int64_t d = plan.d_model, vocab = plan.vocab_size, n_layers = plan.n_layers;
  const auto batch = static_cast<int64_t>(more.size());
  std::vector<AnyState>& states = state.impl_->layers;
  std::vector<int64_t> pos0;
  int64_t end = 0;
  for (int64_t row = 0; row < batch; ++row) {
    pos0.push_back(state.position(row));
    end = std::max(end, pos0.back() + more[static_cast<size_t>(row)]);
  }
  const auto last_of = [&](int64_t row) {
    return pos0[static_cast<size_t>(row)] + more[static_cast<size_t>(row)] - 1;
  };
  const bool ragged = std::any_of(more.begin(), more.end(), [&](int64_t n) { return n != length; });
  if (want == Want::kAll && ragged) std::fill_n(logits, batch * length * vocab, 0.0f);

  for (const auto& layer : layers) layer->reserve_positions(end);
  WorkspacePool::Lease lease(const_cast<WorkspacePool&>(workspaces));
  Workspace& w = *lease;
  Transaction transaction(states, more);
  Faults faults;
  for (const TokenBatch& pass : make_passes(batch, length, pos0, more)) {
    float* x = w.x.at_least(pass.tokens * d);
    for (const Segment& s : pass.segments)
      ops::embed(embedding, ids.data() + s.source, s.count, x + s.offset * d);
    ops::scale(x, d, pass.tokens, d, static_cast<float>(plan.embedding_multiplier));
    if (reads_embedding()) std::copy_n(x, pass.tokens * d, w.embedded.at_least(pass.tokens * d));
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
      run_head(next, run, logits + run.segments.front().source * vocab, faults);
      next += run.tokens * d;
    }
  }
  faults.raise_if_any(kWho, state_given);
  transaction.commit();
}

void CausalLM::forward(std::span<const int64_t> ids, int64_t batch, int64_t length, float* logits,
                       CausalLMState* state, bool last_only, std::span<const int64_t> lengths) const {
  const FpEnv environment;
  const ModelPlan& plan = impl_->plan;
  if (state)
    expect(state->impl_->owner == impl_->id, kWho, "state", "a state of this model",
           "a state of another model");
  const std::vector<int64_t> more = check_tokens(kWho, batch, length, lengths);
  if (state)
    expect(state->batch_size() == batch, kWho, "state.batch_size", std::to_string(batch),
           std::to_string(state->batch_size()));
  std::vector<int64_t> cached;
  for (int64_t row = 0; row < batch; ++row) cached.push_back(state ? state->position(row) : 0);
  check_room(kWho, more, impl_->max_positions, cached);
  expect(static_cast<int64_t>(ids.size()) == checked_mul(batch, length), kWho, "ids",
         std::to_string(batch * length) + " ids", std::to_string(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i)
    expect(ids[i] >= 0 && ids[i] < plan.vocab_size, kWho, "ids",
           "integers in 0.." + std::to_string(plan.vocab_size - 1),
           std::to_string(ids[i]) + " at row " + std::to_string(static_cast<int64_t>(i) / length) +
               ", column " + std::to_string(static_cast<int64_t>(i) % length));
  std::optional<CausalLMState> fresh;
  CausalLMState& s =
      state ? *state : fresh.emplace(allocate_state(batch, *std::max_element(more.begin(), more.end())));
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    AnyState& layer = s.impl_->layers[static_cast<size_t>(i)];
    for (const LayerState* part : layer.parts())
      for (int64_t row = 0; row < batch; ++row)
        expect(part->tokens_of(row) == cached[static_cast<size_t>(row)], kWho, "state",
               "all layers at the same number of cached tokens",
               "layer " + std::to_string(i) + " at " + std::to_string(part->tokens_of(row)) +
                   ", the first at " + std::to_string(cached[static_cast<size_t>(row)]));
    impl_->layers[static_cast<size_t>(i)]->check_state(kWho, inside(layer), more);
  }
  impl_->run(ids, length, logits, s, last_only ? Impl::Want::kLast : Impl::Want::kAll, more,
             state != nullptr);
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
  for (AnyState& layer : state.impl_->layers)
    for (LayerState* part : layer.parts()) part->reset();
}

CausalLMState::CausalLMState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CausalLMState::CausalLMState(CausalLMState&&) noexcept = default;
CausalLMState& CausalLMState::operator=(CausalLMState&&) noexcept = default;
CausalLMState::~CausalLMState() = default;
int64_t CausalLMState::max_tokens() const { return impl_->max_tokens; }
int64_t CausalLMState::n_layers() const { return static_cast<int64_t>(impl_->layers.size()); }

namespace {

/// The first part of any layer: every model has one.
LayerState& first_part(std::vector<AnyState>& layers) {
  for (AnyState& layer : layers)
    if (const auto parts = layer.parts(); !parts.empty()) return *parts.front();
  throw ValueError(refusal("CausalLMState", "layers", "one with a state", "none"));
}

template <typename Kind>
Kind& part_of(std::vector<AnyState>& layers, int64_t i, std::optional<Kind> AnyState::*part,
              const char* wanted) {
  const auto n = static_cast<int64_t>(layers.size());
  expect(i >= 0 && i < n, "CausalLMState", "layer", "0.." + std::to_string(n - 1), std::to_string(i));
  std::optional<Kind>& state = layers[static_cast<size_t>(i)].*part;
  expect(state.has_value(), "CausalLMState", "layer", wanted, "another kind of layer");
  return *state;
}

}  // namespace

int64_t CausalLMState::batch_size() const { return first_part(impl_->layers).batch_size(); }
int64_t CausalLMState::position(int64_t row) const {
  const LayerState& first = first_part(impl_->layers);
  expect(row >= 0 && row < first.batch_size(), "CausalLMState", "row",
         "0.." + std::to_string(first.batch_size() - 1), std::to_string(row));
  return first.tokens_of(row);
}
int64_t CausalLMState::position() const {
  const LayerState& first = first_part(impl_->layers);
  int64_t furthest = 0;
  for (int64_t row = 0; row < first.batch_size(); ++row) furthest = std::max(furthest, first.tokens_of(row));
  return furthest;
}

TransformerState& CausalLMState::layer(int64_t i) {
  return part_of(impl_->layers, i, &AnyState::attention, "a transformer layer");
}
MambaState& CausalLMState::mamba_layer(int64_t i) {
  return part_of(impl_->layers, i, &AnyState::mamba, "a Mamba layer");
}
bool CausalLMState::has_attention(int64_t i) const {
  return i >= 0 && i < n_layers() && impl_->layers[static_cast<size_t>(i)].attention.has_value();
}
bool CausalLMState::is_mamba(int64_t i) const {
  return i >= 0 && i < n_layers() && impl_->layers[static_cast<size_t>(i)].mamba.has_value();
}

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
#include "state/transformer_state.h"

#include <algorithm>

#include "core/checked.h"
#include "kernels/table.h"

namespace isobit {
namespace {

constexpr const char* kWho = "TransformerState";

std::unique_ptr<TransformerState::Impl> make(int64_t batch, int64_t kv_heads, int64_t head_dim,
                                             int64_t max_tokens, int64_t window, NumericProfile profile) {
  const auto positive = [](const char* name, int64_t value) {
    expect(value > 0, kWho, name, "a positive integer", std::to_string(value));
  };
  positive("batch_size", batch);
  positive("n_kv_heads", kv_heads);
  positive("head_dim", head_dim);
  positive("max_tokens", max_tokens);
  expect(window >= 0, kWho, "window", "an integer >= 0", std::to_string(window));
  checked_mul(checked_mul(checked_mul(batch, kv_heads), window > 0 ? window : max_tokens), head_dim);
  return std::make_unique<TransformerState::Impl>(batch, kv_heads, head_dim, max_tokens, window, profile);
}

}  // namespace

int64_t TransformerState::Impl::documented_index(int64_t row, int64_t head, int64_t position) const {
  const int64_t stride = window > 0 ? window : cached();
  const int64_t slot = window > 0 ? position % window : position;
  return ((row * cache.kv_heads() + head) * stride + slot) * cache.head_dim();
}

void TransformerState::Impl::export_to(int which, std::vector<float>& buffer) const {
  std::vector<float> other(static_cast<size_t>(cache.head_dim()));
  const int64_t end = cached();
  for (int64_t row = 0; row < cache.batch(); ++row)
    for (int64_t head = 0; head < cache.kv_heads(); ++head) {
      for (int64_t p = oldest(row); p < tokens_of(row); ++p) {
        float* out = buffer.data() + documented_index(row, head, p);
        cache.read(row, head, p, which == 0 ? out : other.data(), which == 1 ? out : other.data());
      }
      for (int64_t p = tokens_of(row); window == 0 && p < end; ++p)
        std::fill_n(buffer.data() + documented_index(row, head, p), cache.head_dim(), 0.0f);
    }
}

void TransformerState::Impl::import_from(const float* keys, const float* values) {
  const int64_t hd = cache.head_dim();
  for (int pass = 0; pass < 2; ++pass)  // first check, then write
    for (int64_t row = 0; row < cache.batch(); ++row)
      for (int64_t head = 0; head < cache.kv_heads(); ++head)
        for (int64_t p = oldest(row); p < tokens_of(row); ++p) {
          const int64_t at = documented_index(row, head, p);
          if (pass == 1) {
            cache.write(row, head, p, keys + at, values + at);
            continue;
          }
          const auto& table = kernels::active_table();
          const bool key_ok = table.first_nonfinite(keys + at, hd) == hd;
          if (key_ok && table.first_nonfinite(values + at, hd) == hd) continue;
          throw ValueError(refusal(kWho, key_ok ? "v_cache" : "k_cache", "finite values",
                                   "NaN or infinity at batch row " + std::to_string(row) + ", kv head " +
                                       std::to_string(head) + ", position " + std::to_string(p)));
        }
}

void TransformerState::Impl::set_documented(int which, std::span<const float> values) {
  expect(static_cast<int64_t>(values.size()) == buffer_size(), kWho, which == 0 ? "k_cache" : "v_cache",
         std::to_string(buffer_size()) + " float32 values", std::to_string(values.size()));
  std::vector<float> other(values.size());
  export_to(1 - which, other);
  import_from(which == 0 ? values.data() : other.data(), which == 1 ? values.data() : other.data());
  if (documented[which]) export_to(which, *documented[which]);
}

std::shared_ptr<std::vector<float>> TransformerState::Impl::show_documented(int which) {
  auto& buffer = documented[which];
  if (!buffer) {
    auto fresh = std::make_shared<std::vector<float>>(static_cast<size_t>(buffer_size()));
    export_to(which, *fresh);
    buffer = std::move(fresh);
  }
  return buffer;
}

void TransformerState::Impl::begin_call() {
  std::vector<float> current[2];
  bool held = false;
  for (auto& buffer : documented) {
    if (buffer && buffer.use_count() == 1) buffer.reset();
    held = held || buffer;
  }
  if (!held) return;
  for (int which = 0; which < 2; ++which)
    if (!documented[which]) {
      current[which].resize(static_cast<size_t>(buffer_size()));
      export_to(which, current[which]);
    }
  for (const auto& buffer : documented)
    expect(!buffer || static_cast<int64_t>(buffer->size()) == buffer_size(), kWho, "k_cache and v_cache",
           std::to_string(buffer_size()) + " float32 values each",
           std::to_string(buffer ? buffer->size() : 0));
  import_from(documented[0] ? documented[0]->data() : current[0].data(),
              documented[1] ? documented[1]->data() : current[1].data());
}

void TransformerState::Impl::end_call() {
  for (int which = 0; which < 2; ++which)
    if (documented[which]) export_to(which, *documented[which]);
}

void TransformerState::Impl::reset() {
  std::fill(tokens.begin(), tokens.end(), 0);
  end_call();
}

std::unique_ptr<LayerState::Transaction> TransformerState::Impl::begin(std::span<const int64_t> appended) {
  return std::make_unique<StateTransaction>(*this, appended);
}

StateTransaction::StateTransaction(TransformerState::Impl& state, std::span<const int64_t> appended)
    : state_(state),
      appended_(appended.begin(), appended.end()),
      held_from_(state.held_from),
      numeric_profile_(state.numeric_profile) {
  state_.begin_call();
  if (!state_.cache.wraps()) return;
  const int64_t slots = state_.cache.slots();
  for (size_t row = 0; row < appended_.size(); ++row) {
    if (state_.tokens[row] > 0 && appended_[row] > slots - state_.window && !saved_)
      saved_ = state_.cache.copy();
    state_.held_from[row] = std::max(held_from_[row], state_.tokens[row] + appended_[row] - slots);
  }
}

StateTransaction::~StateTransaction() {
  if (committed_) return;
  state_.numeric_profile = numeric_profile_;
  if (saved_) std::swap(state_.cache, *saved_);
  for (size_t row = 0; row < appended_.size(); ++row)
    if (saved_ || state_.tokens[row] == 0) state_.held_from[row] = held_from_[row];
}

void StateTransaction::commit() {
  committed_ = true;
  for (size_t row = 0; row < appended_.size(); ++row) state_.tokens[row] += appended_[row];
  state_.end_call();
}

TransformerState::TransformerState(int64_t batch_size, int64_t n_kv_heads, int64_t head_dim,
                                   int64_t max_tokens, int64_t window, NumericProfile numeric_profile)
    : impl_(make(batch_size, n_kv_heads, head_dim, max_tokens, window, numeric_profile)) {}

TransformerState::TransformerState(int64_t batch_size, int64_t n_kv_heads, int64_t head_dim,
                                   int64_t max_tokens, const float* k_cache, const float* v_cache,
                                   int64_t buffer_size, int64_t cached_tokens, int64_t window,
                                   NumericProfile numeric_profile)
    : impl_(make(batch_size, n_kv_heads, head_dim, max_tokens, window, numeric_profile)) {
  expect(buffer_size == impl_->buffer_size(), kWho, "k_cache and v_cache",
         std::to_string(impl_->buffer_size()) + " float32 values each", std::to_string(buffer_size));
  expect(cached_tokens >= 0 && cached_tokens <= max_tokens, kWho, "cached_tokens",
         "0.." + std::to_string(max_tokens), std::to_string(cached_tokens));
  std::fill(impl_->tokens.begin(), impl_->tokens.end(), cached_tokens);
  std::fill(impl_->held_from.begin(), impl_->held_from.end(), impl_->oldest(0));
  impl_->import_from(k_cache, v_cache);
}

TransformerState::~TransformerState() = default;
TransformerState::TransformerState(TransformerState&&) noexcept = default;
TransformerState& TransformerState::operator=(TransformerState&&) noexcept = default;

int64_t TransformerState::batch_size() const { return impl_->cache.batch(); }
int64_t TransformerState::n_kv_heads() const { return impl_->cache.kv_heads(); }
int64_t TransformerState::head_dim() const { return impl_->cache.head_dim(); }
int64_t TransformerState::max_tokens() const { return impl_->max_tokens; }
int64_t TransformerState::window() const { return impl_->window; }
int64_t TransformerState::capacity() const { return impl_->capacity(); }
int64_t TransformerState::cached_tokens() const { return impl_->cached(); }
NumericProfile TransformerState::numeric_profile() const { return impl_->numeric_profile; }
int64_t TransformerState::tokens(int64_t row) const {
  expect(row >= 0 && row < batch_size(), kWho, "row", "0.." + std::to_string(batch_size() - 1),
         std::to_string(row));
  return impl_->tokens_of(row);
}

void TransformerState::set_cached_tokens(int64_t n) {
  expect(n >= 0 && n <= impl_->cached(), kWho, "cached_tokens", "0.." + std::to_string(impl_->cached()),
         std::to_string(n));
  for (int64_t row = 0; row < batch_size(); ++row) {
    const int64_t left = std::min(n, impl_->tokens_of(row));
    const int64_t needed = impl_->window > 0 ? std::max<int64_t>(0, left - impl_->window) : 0;
    expect(left == 0 || needed >= impl_->held_from[static_cast<size_t>(row)], kWho, "cached_tokens",
           "a number of tokens whose window is still cached", std::to_string(n));
  }
  impl_->begin_call();
  for (int64_t& tokens : impl_->tokens) tokens = std::min(tokens, n);
  if (n == 0) std::fill(impl_->held_from.begin(), impl_->held_from.end(), 0);
  impl_->end_call();
}

void TransformerState::reset() { impl_->reset(); }

TransformerState TransformerState::copy() {
  impl_->begin_call();
  TransformerState other(batch_size(), n_kv_heads(), head_dim(), 1, 0, impl_->numeric_profile);
  Impl& to = other.impl();
  to.max_tokens = impl_->max_tokens;
  to.window = impl_->window;
  to.tokens = impl_->tokens;
  to.held_from = impl_->held_from;
  to.cache = impl_->cache.copy();
  return other;
}

std::shared_ptr<std::vector<float>> TransformerState::k_cache() { return impl_->show_documented(0); }
std::shared_ptr<std::vector<float>> TransformerState::v_cache() { return impl_->show_documented(1); }
void TransformerState::set_k_cache(std::span<const float> values) { impl_->set_documented(0, values); }
void TransformerState::set_v_cache(std::span<const float> values) { impl_->set_documented(1, values); }

namespace {

// Rows that are shorter than others end with zeros.
std::vector<float> chronological(TransformerState::Impl& state, int which) {
  state.begin_call();
  const KvCache& cache = state.cache;
  const int64_t hd = cache.head_dim();
  const int64_t count = std::min(state.cached(), state.capacity());
  std::vector<float> out(static_cast<size_t>(cache.batch() * cache.kv_heads() * count * hd));
  std::vector<float> other(static_cast<size_t>(hd));
  float* head_out = out.data();
  for (int64_t row = 0; row < cache.batch(); ++row)
    for (int64_t head = 0; head < cache.kv_heads(); ++head, head_out += count * hd) {
      float* next = head_out;
      for (int64_t p = state.oldest(row); p < state.tokens_of(row); ++p, next += hd)
        cache.read(row, head, p, which == 0 ? next : other.data(), which == 1 ? next : other.data());
    }
  return out;
}

}  // namespace

std::vector<float> TransformerState::keys() { return chronological(*impl_, 0); }
std::vector<float> TransformerState::values() { return chronological(*impl_, 1); }

}  // namespace isobit

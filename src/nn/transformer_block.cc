// SPDX-License-Identifier: Apache-2.0
#include "isobit/transformer_block.h"

#include <algorithm>

#include "core/checked.h"
#include "core/fp_env.h"
#include "nn/check_call.h"
#include "nn/transformer_layer.h"
#include "state/transformer_state.h"

namespace isobit {
namespace {

constexpr const char* kWho = "TransformerBlock";

std::shared_ptr<const TransformerLayer> make_layer(const WeightMap& weights,
                                                   const TransformerOptions& options) {
  const FpEnv environment;
  expect(options.rope_dim.value_or(2) != 0, kWho, "rope_dim", "an even number > 0", "0");
  return std::make_shared<const TransformerLayer>(weights, resolve_options(options, weights, kWho), kWho);
}

}  // namespace

struct TransformerBlock::Impl {
  explicit Impl(std::shared_ptr<const TransformerLayer> layer) : layer(std::move(layer)) {}
  std::shared_ptr<const TransformerLayer> layer;
  WorkspacePool workspaces;
};

TransformerBlock::TransformerBlock(const WeightMap& weights, const TransformerOptions& options)
    : TransformerBlock(make_layer(weights, options)) {}
TransformerBlock::TransformerBlock(std::shared_ptr<const TransformerLayer> layer)
    : impl_(std::make_unique<Impl>(std::move(layer))) {}
TransformerBlock::~TransformerBlock() = default;
TransformerBlock::TransformerBlock(TransformerBlock&&) noexcept = default;

void TransformerBlock::forward(const float* x, int64_t batch, int64_t length, float* out,
                               TransformerState* state, std::span<const int64_t> lengths) const {
  const FpEnv environment;
  const TransformerLayer& layer = *impl_->layer;
  const TransformerOptions& options = layer.options();
  const std::vector<int64_t> more = check_tokens(kWho, batch, length, lengths);
  expect(lengths.empty() || state == nullptr, kWho, "lengths", "no state", "a state");
  const std::vector<int64_t> none(more.size(), 0);
  check_room(kWho, more, options.max_positions,
             state && state->batch_size() == batch ? state->impl().tokens : none);
  std::optional<TransformerState> fresh;
  TransformerState::Impl& s =
      (state ? *state : fresh.emplace(allocate_state(batch, *std::max_element(more.begin(), more.end()))))
          .impl();
  layer.check_state(kWho, {.attention = &s}, more);
  run_alone(layer, kWho, x, length, more, out, {.attention = &s}, state != nullptr, impl_->workspaces);
}

TransformerState TransformerBlock::allocate_state(int64_t batch_size, int64_t max_tokens) const {
  const TransformerOptions& o = impl_->layer->options();
  expect(max_tokens <= o.max_positions, kWho, "max_tokens",
         "at most max_positions = " + std::to_string(o.max_positions), std::to_string(max_tokens));
  return {batch_size, *o.n_kv_heads, *o.head_dim, max_tokens, o.window, o.numeric_profile};
}

const TransformerOptions& TransformerBlock::options() const { return impl_->layer->options(); }
int64_t TransformerBlock::d_model() const { return impl_->layer->d_model(); }
int64_t TransformerBlock::intermediate() const { return impl_->layer->intermediate(); }
std::vector<std::string> TransformerBlock::weight_names() const { return impl_->layer->weight_names(); }
std::vector<int64_t> TransformerBlock::weight_shape(const std::string& name) const {
  return impl_->layer->weight_shape(name);
}
std::vector<float> TransformerBlock::weight(const std::string& name) const {
  return impl_->layer->weight(name);
}

}  // namespace isobit

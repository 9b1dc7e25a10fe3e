// SPDX-License-Identifier: Apache-2.0
#include "isobit/mamba_block.h"

#include <optional>

#include "core/fp_env.h"
#include "nn/check_call.h"
#include "nn/mamba_layer.h"

namespace isobit {
namespace {

std::string class_name(const MambaOptions& options) {
  return "Mamba" + std::to_string(options.index() + 1) + "Block";
}

std::shared_ptr<const MambaLayer> make_layer(const WeightMap& weights, const MambaOptions& options) {
  const FpEnv environment;
  return make_mamba_layer(weights, options, class_name(options).c_str());
}

}  // namespace

struct MambaBlock::Impl {
  explicit Impl(std::shared_ptr<const MambaLayer> layer)
      : layer(std::move(layer)), who(class_name(this->layer->options())) {}
  std::shared_ptr<const MambaLayer> layer;
  std::string who;
  WorkspacePool workspaces;
};

MambaBlock::MambaBlock(const WeightMap& weights, const MambaOptions& options)
    : MambaBlock(make_layer(weights, options)) {}
MambaBlock::MambaBlock(std::shared_ptr<const MambaLayer> layer)
    : impl_(std::make_unique<Impl>(std::move(layer))) {}
MambaBlock::~MambaBlock() = default;
MambaBlock::MambaBlock(MambaBlock&&) noexcept = default;

void MambaBlock::forward(const float* x, int64_t batch, int64_t length, float* out, MambaState* state,
                         std::span<const int64_t> lengths) const {
  const FpEnv environment;
  const MambaLayer& layer = *impl_->layer;
  const char* who = impl_->who.c_str();
  const std::vector<int64_t> more = check_tokens(who, batch, length, lengths);
  if (state) layer.check_state(who, {.mamba = &state->impl()}, more);
  std::optional<MambaState> fresh;
  MambaState::Impl& s = (state ? *state : fresh.emplace(allocate_state(batch))).impl();
  run_alone(layer, who, x, length, more, out, {.mamba = &s}, state != nullptr, impl_->workspaces);
}

MambaState MambaBlock::allocate_state(int64_t batch_size) const {
  return {impl_->layer->shape(), batch_size};
}

int MambaBlock::version() const { return impl_->layer->shape().version; }
const MambaOptions& MambaBlock::options() const { return impl_->layer->options(); }
const MambaShape& MambaBlock::shape() const { return impl_->layer->shape(); }
int64_t MambaBlock::d_model() const { return impl_->layer->d_model(); }
std::vector<std::string> MambaBlock::weight_names() const { return impl_->layer->weight_names(); }
std::vector<int64_t> MambaBlock::weight_shape(const std::string& name) const {
  return impl_->layer->weight_shape(name);
}
std::vector<float> MambaBlock::weight(const std::string& name) const { return impl_->layer->weight(name); }

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
#include "isobit/mamba_block.h"

#include <algorithm>
#include <optional>

#include "core/checked.h"
#include "core/fp_env.h"
#include "core/interrupt.h"
#include "kernels/table.h"
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
  const int64_t d = layer.d_model();
  const std::vector<int64_t> more = check_tokens(who, batch, length, lengths);
  if (state) layer.check_state(who, {.mamba = &state->impl()}, more);
  // Padding is neither tested nor read.
  for (int64_t row = 0; row < batch; ++row) {
    const int64_t n = more[static_cast<size_t>(row)] * d;
    expect(kernels::active_table().first_nonfinite(x + row * length * d, n) == n, who, "x", "finite values",
           "NaN or infinity");
  }
  std::optional<MambaState> fresh;
  MambaState::Impl& s = (state ? *state : fresh.emplace(allocate_state(batch))).impl();

  WorkspacePool::Lease workspace(impl_->workspaces);
  const auto transaction = s.begin(more);
  Faults faults;
  if (!lengths.empty()) std::fill_n(out, batch * length * d, 0.0f);
  for (const TokenBatch& pass : make_passes(batch, length, s.tokens, lengths)) {
    check_interrupt();
    float* h = (*workspace).x.at_least(pass.tokens * d);
    for (const Segment& g : pass.segments) std::copy_n(x + g.source * d, g.count * d, h + g.offset * d);
    layer.forward(h, pass, {.mamba = &s}, *workspace, faults, 0);
    for (const Segment& g : pass.segments) std::copy_n(h + g.offset * d, g.count * d, out + g.source * d);
  }
  faults.raise_if_any(who, state != nullptr);
  transaction->commit();
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

// SPDX-License-Identifier: Apache-2.0
// A loaded model's parts: its layers as blocks, and its parameters by checkpoint name, unpacked to the values
// the checkpoint gave.
#include "core/checked.h"
#include "model/causal_lm_impl.h"

namespace isobit {

std::vector<std::string> CausalLM::parameter_names() const {
  std::vector<std::string> names = impl_->plan.checkpoint_names();
  if (impl_->tied) std::erase(names, impl_->plan.head_name);
  return names;
}

namespace {

template <typename Kind>
std::shared_ptr<const Kind> layer_as(const std::vector<std::shared_ptr<const Layer>>& layers, int64_t i,
                                     const char* wanted) {
  const auto n = static_cast<int64_t>(layers.size());
  expect(i >= 0 && i < n, "CausalLM", "block", "0.." + std::to_string(n - 1), std::to_string(i));
  auto layer = std::dynamic_pointer_cast<const Kind>(layers[static_cast<size_t>(i)]);
  expect(layer != nullptr, "CausalLM", "block", wanted, "another kind of layer");
  return layer;
}

}  // namespace

TransformerBlock CausalLM::block(int64_t i) const {
  auto layer = layer_as<TransformerLayer>(impl_->layers, i, "a transformer layer");
  expect(impl_->plan.parts_of(i).mixer, "CausalLM", "block", "a layer with attention",
         "an MLP alone in layer " + std::to_string(i));
  return TransformerBlock(std::move(layer));
}

MambaBlock CausalLM::mamba_block(int64_t i) const {
  auto layer = layer_as<MambaLayer>(impl_->layers, i, "a Mamba layer");
  const LayerParts parts = impl_->plan.parts_of(i);
  expect(!parts.attention_beside && parts.shared_block < 0, "CausalLM", "block",
         "a layer without attention beside its mixer", "layer " + std::to_string(i));
  return MambaBlock(std::move(layer));
}

std::vector<int64_t> CausalLM::parameter_shape(const std::string& name) const {
  const ModelPlan& plan = impl_->plan;
  if (name == plan.embed_name || name == plan.head_name) return {plan.vocab_size, plan.d_model};
  if (name == plan.norm_name) return {plan.d_model};
  std::vector<int64_t> shape;
  for (size_t i = 0; i < plan.layer_weights.size(); ++i)
    for (const WeightSource& w : plan.layer_weights[i]) {
      if (w.checkpoint_name != name) continue;
      const std::vector<int64_t> part = impl_->layers[i]->weight_shape(w.block_key);
      if (shape.empty())
        shape = part;
      else
        shape[0] += part[0];  // a fused tensor is the slices below each other
    }
  if (shape.empty())
    throw ValueError(refusal("CausalLM", "parameter", "a checkpoint name of this model", "'" + name + "'"));
  return shape;
}

std::vector<float> CausalLM::parameter(const std::string& name) const {
  const ModelPlan& plan = impl_->plan;
  if (name == plan.norm_name) return impl_->final_norm.weight;
  if (name == plan.embed_name || name == plan.head_name) {
    const PackedMatrix& w = impl_->tied || name == plan.embed_name ? impl_->embedding : impl_->head();
    std::vector<float> out(static_cast<size_t>(w.n * w.k));
    ops::unpack_rows(w, 0, w.n, out.data());
    return out;
  }
  parameter_shape(name);  // refuses unknown names
  std::vector<float> out;
  for (size_t i = 0; i < plan.layer_weights.size(); ++i)
    for (const WeightSource& w : plan.layer_weights[i])
      if (w.checkpoint_name == name) {
        const std::vector<float> part = impl_->layers[i]->weight(w.block_key);
        out.insert(out.end(), part.begin(), part.end());
      }
  return out;
}

}  // namespace isobit

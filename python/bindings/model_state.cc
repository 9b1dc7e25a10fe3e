// SPDX-License-Identifier: Apache-2.0
// isobit.models.CausalLMState.
#include "model_state.h"

#include <nanobind/stl/string.h>

#include "errors.h"
#include "input.h"
#include "isobit/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

constexpr const char* kOp = "CausalLMState";

ModelState copy(const ModelState& source) {
  InUse use(source.in_use, kOp);
  ModelState result(source.model, source.impl->batch_size(), source.impl->max_tokens());
  for (int64_t i = 0; i < source.impl->n_layers(); ++i) {
    if (source.impl->is_mamba(i)) result.impl->mamba_layer(i) = source.impl->mamba_layer(i).copy();
    if (source.impl->has_attention(i)) result.impl->layer(i) = source.impl->layer(i).copy();
  }
  return result;
}

nb::object wrap(const LayerCores& layer) {
  if (layer.attention == nullptr) return layer.mamba ? wrap_mamba_state(layer.mamba) : nb::none();
  nb::object attention = nb::cast(State{layer.attention});
  return layer.mamba ? nb::make_tuple(attention, wrap_mamba_state(layer.mamba)) : attention;
}

std::string repr(const ModelState& state) {
  return "CausalLMState(batch_size=" + std::to_string(state.impl->batch_size()) +
         ", max_tokens=" + std::to_string(state.impl->max_tokens()) +
         ", positions=" + std::to_string(state.impl->position()) + ")";
}

}  // namespace

ModelState::ModelState(std::shared_ptr<const isobit::CausalLM> of, int64_t batch_size, int64_t max_tokens)
    : model(std::move(of)),
      impl(std::make_shared<isobit::CausalLMState>(model->allocate_state(batch_size, max_tokens))),
      in_use(std::make_shared<bool>(false)) {
  for (int64_t i = 0; i < impl->n_layers(); ++i) {
    LayerCores& layer = layers.emplace_back();
    if (impl->is_mamba(i)) {
      layer.mamba = std::make_shared<MambaCore>();
      layer.mamba->impl = std::shared_ptr<isobit::MambaState>(impl, &impl->mamba_layer(i));
      layer.mamba->in_use = in_use;
    }
    if (impl->has_attention(i)) {
      layer.attention = std::make_shared<StateCore>();
      layer.attention->impl = std::shared_ptr<isobit::TransformerState>(impl, &impl->layer(i));
      layer.attention->in_use = in_use;
    }
  }
}

void ModelState::release_buffers() {
  for (const LayerCores& layer : layers) {
    if (layer.mamba) layer.mamba->held.clear();
    if (layer.attention) layer.attention->held.clear();
  }
}

ModelState* read_model_state(nb::handle object, const std::string& op, bool none_allowed) {
  if (none_allowed && object.is_none()) return nullptr;
  if (!nb::isinstance<ModelState>(object) || !nb::inst_ready(object))
    throw TypeError(message(op, "state", "a CausalLMState", class_name(object)));
  ModelState* state = nb::cast<ModelState*>(object);
  for (const LayerCores& layer : state->layers) {
    if ((layer.mamba && layer.mamba->has_session) || (layer.attention && layer.attention->has_session))
      throw ValueError(message(op, "state", "layers without an open decode session", "one with"));
  }
  return state;
}

void bind_model_state(nb::module_& m) {
  nb::class_<ModelState> cls(m, "CausalLMState", nb::type_slots(kNamesReadOnly),
                             "One state a layer, all at the same position. Belongs to the model "
                             "that allocated it; a copy\n"
                             "(copy.copy or copy.deepcopy) continues on its own from where this one is.");
  cls.def_prop_ro("batch_size", [](const ModelState& s) { return s.impl->batch_size(); });
  cls.def_prop_ro("max_tokens", [](const ModelState& s) { return s.impl->max_tokens(); });
  cls.def_prop_ro(
      "positions", [](const ModelState& s) { return s.impl->position(); },
      "Tokens consumed so far, of the row that is furthest.");
  cls.def_prop_ro(
      "row_positions",
      [](const ModelState& s) {
        nb::list result;
        for (int64_t row = 0; row < s.impl->batch_size(); ++row) result.append(s.impl->position(row));
        return result;
      },
      nb::sig("def row_positions(self) -> list[int]"),
      "Tokens consumed so far by each row: they differ after a call with lengths.");
  cls.def_prop_ro(
      "layers",
      [](const ModelState& s) {
        nb::list result;
        for (const LayerCores& layer : s.layers) result.append(wrap(layer));
        return result;
      },
      nb::sig("def layers(self) -> list[typing.Any]"),
      "The state of each layer: a TransformerState, a Mamba state, a tuple of both where attention stands "
      "beside\nthe mixer, or None for an MLP alone.");
  cls.def("__copy__", copy);
  cls.def(
      "__deepcopy__", [](const ModelState& s, nb::handle) { return copy(s); }, "memo"_a,
      nb::sig("def __deepcopy__(self, memo: typing.Any, /) -> CausalLMState"));
  cls.def("__repr__", repr);
}

}  // namespace isobit::python

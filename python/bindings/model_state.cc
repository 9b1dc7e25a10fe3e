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

// Goes through the documented buffers, which hold every bit of a layer's state.
ModelState copy(const ModelState& source) {
  InUse use(source.in_use, kOp);
  ModelState result(source.model, source.impl->batch_size(), source.impl->max_tokens());
  for (int64_t i = 0; i < source.impl->n_layers(); ++i) {
    if (source.impl->is_mamba(i)) {
      result.impl->mamba_layer(i) = source.impl->mamba_layer(i).copy();
      continue;
    }
    isobit::TransformerState& layer = source.impl->layer(i);
    const auto k = layer.k_cache(), v = layer.v_cache();
    result.impl->layer(i) = isobit::TransformerState(
        layer.batch_size(), layer.n_kv_heads(), layer.head_dim(), layer.max_tokens(), k->data(), v->data(),
        static_cast<int64_t>(k->size()), layer.cached_tokens(), layer.window());
  }
  return result;
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
    if (impl->is_mamba(i)) {
      auto core = std::make_shared<MambaCore>();
      core->impl = std::shared_ptr<isobit::MambaState>(impl, &impl->mamba_layer(i));
      core->in_use = in_use;
      layers.emplace_back(std::move(core));
    } else {
      auto core = std::make_shared<StateCore>();
      core->impl = std::shared_ptr<isobit::TransformerState>(impl, &impl->layer(i));
      core->in_use = in_use;
      layers.emplace_back(std::move(core));
    }
  }
}

void ModelState::release_buffers() {
  for (const auto& layer : layers) {
    if (const auto* mamba = std::get_if<std::shared_ptr<MambaCore>>(&layer)) {
      (*mamba)->held.clear();
    } else {
      const auto& core = std::get<std::shared_ptr<StateCore>>(layer);
      core->k_buffer.reset();
      core->v_buffer.reset();
    }
  }
}

ModelState* read_model_state(nb::handle object, const std::string& op, bool none_allowed) {
  if (none_allowed && object.is_none()) return nullptr;
  if (!nb::isinstance<ModelState>(object))
    throw TypeError(message(op, "state", "a CausalLMState", class_name(object)));
  ModelState* state = nb::cast<ModelState*>(object);
  for (const auto& layer : state->layers) {
    if (std::visit([](const auto& core) { return core->has_session; }, layer))
      throw ValueError(message(op, "state", "layers without an open decode session", "one with"));
  }
  return state;
}

void bind_model_state(nb::module_& m) {
  nb::class_<ModelState> cls(m, "CausalLMState",
                             "One state a layer, all at the same position. Belongs to the model "
                             "that allocated it; a copy\n"
                             "(copy.copy or copy.deepcopy) continues on its own from where this one is.");
  cls.def_prop_ro("batch_size", [](const ModelState& s) { return s.impl->batch_size(); });
  cls.def_prop_ro("max_tokens", [](const ModelState& s) { return s.impl->max_tokens(); });
  cls.def_prop_ro(
      "positions", [](const ModelState& s) { return s.impl->position(); }, "Tokens consumed so far.");
  cls.def_prop_ro(
      "layers",
      [](const ModelState& s) {
        nb::list result;
        for (const auto& layer : s.layers)
          if (const auto* mamba = std::get_if<std::shared_ptr<MambaCore>>(&layer))
            result.append(wrap_mamba_state(*mamba));
          else
            result.append(nb::cast(State{std::get<std::shared_ptr<StateCore>>(layer)}));
        return result;
      },
      nb::sig("def layers(self) -> list[typing.Any]"), "The state of each layer.");
  cls.def("__copy__", copy);
  cls.def(
      "__deepcopy__", [](const ModelState& s, nb::handle) { return copy(s); }, "memo"_a,
      nb::sig("def __deepcopy__(self, memo: typing.Any, /) -> CausalLMState"));
  cls.def("__repr__", repr);
}

}  // namespace isobit::python

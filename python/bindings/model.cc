// SPDX-License-Identifier: Apache-2.0
// The compiled half of isobit.models.CausalLM: load, forward, step, generate. Keywords that only choose are
// in python/isobit/models.py.
#include "model.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "array.h"
#include "errors.h"
#include "ids.h"
#include "input.h"
#include "instance.h"
#include "isobit/causal_lm.h"
#include "isobit/error.h"
#include "mamba.h"
#include "model_state.h"
#include "plan.h"
#include "transformer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {

struct Model {
  std::shared_ptr<const isobit::CausalLM> impl;
};

}  // namespace isobit::python

template <>
struct nanobind::detail::type_caster<isobit::python::Model>
    : isobit::python::InstanceCaster<isobit::python::Model> {};

namespace isobit::python {
namespace {

constexpr const char* kOp = "CausalLM";

// [B, L] with B, L >= 1, or with `one_token` [B] or [B, 1]. Says whether the rows are the state's, where
// there is one, before anything is copied.
Ids measured(const Model& self, nb::handle object, bool one_token, const ModelState* state) {
  Ids ids(object, kOp, "ids", one_token ? 1 : 2, 2);
  const std::vector<int64_t>& shape = ids.shape();
  if (std::find(shape.begin(), shape.end(), 0) != shape.end() ||
      (one_token && shape.size() == 2 && shape[1] != 1))
    throw ValueError(message(kOp, "ids",
                             one_token ? "shape (B,) or (B, 1) with B >= 1" : "shape (B, L) with B, L >= 1",
                             shape_text(shape)));
  const int64_t longest = self.impl->max_positions();
  if (!one_token && shape[1] > longest)
    throw ValueError(message(kOp, "ids", "at most " + std::to_string(longest) + " positions (max_positions)",
                             "shape " + shape_text(shape)));
  if (state != nullptr && state->impl->batch_size() != shape[0])
    throw ValueError(message(kOp, "state.batch_size", std::to_string(shape[0]),
                             std::to_string(state->impl->batch_size())));
  return ids;
}

// Uninitialised, of this shape by the vocabulary. Made before ids are copied: of a batch for which there is
// no memory, neither the ids need be.
Array new_logits(const Model& self, const Ids& ids, std::vector<int64_t> shape) {
  shape.push_back(self.impl->plan().vocab_size);
  return named_memory(kOp, "ids", "shape " + shape_text(ids.shape()),
                      [&] { return Array::empty(DType::F32, std::move(shape)); });
}

Array forward(const Model& self, nb::handle object, nb::handle state, nb::handle lengths, bool last_only) {
  const auto model = self.impl;
  ModelState* carried = read_model_state(state, kOp, true);
  std::optional<InUse> use;
  if (carried != nullptr) use.emplace(carried->in_use, kOp);
  const Ids ids = measured(self, object, false, carried);
  const int64_t batch = ids.shape()[0], length = ids.shape()[1];
  const std::vector<int64_t> rows = read_lengths(lengths, kOp, batch);
  Array logits = new_logits(self, ids, last_only ? std::vector{batch} : ids.shape());
  const std::vector<int64_t> values = ids.values();
  {
    nb::gil_scoped_release release;
    model->forward(values, batch, length, reinterpret_cast<float*>(logits.data),
                   carried ? carried->impl.get() : nullptr, last_only, rows);
  }
  if (carried != nullptr) carried->release_buffers();
  return logits;
}

Array step(const Model& self, nb::handle object, nb::handle state) {
  const auto model = self.impl;
  ModelState* carried = read_model_state(state, kOp, false);
  InUse use(carried->in_use, kOp);
  const Ids ids = measured(self, object, true, carried);
  Array logits = new_logits(self, ids, {ids.shape()[0]});
  const std::vector<int64_t> values = ids.values();
  {
    nb::gil_scoped_release release;
    model->step(values, *carried->impl, reinterpret_cast<float*>(logits.data));
  }
  carried->release_buffers();
  return logits;
}

using OnToken = std::function<bool(int64_t, std::span<const int32_t>, std::span<const float>)>;

// on_token(step, [id of each row], logits (B, vocab)); False stops.
OnToken python_callback(nb::handle on_token, int64_t vocab) {
  if (on_token.is_none()) return {};
  return [on_token, vocab](int64_t index, std::span<const int32_t> ids, std::span<const float> logits) {
    nb::gil_scoped_acquire gil;
    nb::list column;
    for (int32_t id : ids) column.append(id);
    Array copy = Array::empty(DType::F32, {static_cast<int64_t>(ids.size()), vocab});
    std::memcpy(copy.data, logits.data(), logits.size_bytes());
    nb::object answer = on_token(index, column, nb::cast(std::move(copy)));
    return answer.ptr() != Py_False;
  };
}

Array generate(const Model& self, nb::handle object, nb::handle max_new_tokens, nb::handle on_token) {
  const auto model = self.impl;
  const Ids ids = measured(self, object, false, nullptr);
  const int64_t batch = ids.shape()[0], length = ids.shape()[1],
                n = read_int(max_new_tokens, kOp, "max_new_tokens");
  new_logits(self, ids, {batch});
  const std::vector<int64_t> prompt = ids.values();
  const OnToken callback = python_callback(on_token, model->plan().vocab_size);
  std::vector<int32_t> tokens;
  {
    nb::gil_scoped_release release;
    tokens = model->generate(prompt, batch, length, n, callback);
  }
  Array result = Array::empty(DType::I32, {batch, static_cast<int64_t>(tokens.size()) / batch});
  std::memcpy(result.data, tokens.data(), static_cast<size_t>(result.nbytes()));
  return result;
}

nb::dict parameters(const Model& self) {
  const isobit::CausalLM& model = *self.impl;
  return named_arrays(
      model.parameter_names(), [&](const std::string& name) { return model.parameter_shape(name); },
      [&](const std::string& name) { return model.parameter(name); });
}

LoadOptions load_options(nb::handle max_positions, nb::handle progress, const std::string& weight_format,
                         const std::string& embed_format, const std::string& numeric_profile) {
  LoadOptions options;
  options.numeric_profile = parse_numeric_profile(numeric_profile);
  options.weight_format = parse_weight_format(weight_format);
  options.embed_format = parse_weight_format(embed_format);
  if (!max_positions.is_none()) options.max_positions = read_int(max_positions, kOp, "max_positions");
  if (!progress.is_none()) {
    options.progress = [progress](int64_t done, int64_t all) {
      nb::gil_scoped_acquire gil;
      progress(done, all);
    };
  }
  return options;
}

Model load(nb::handle path_object, const LoadOptions& options) {
  const std::filesystem::path path = read_path(path_object, kOp, "path");
  nb::gil_scoped_release release;
  return Model{std::make_shared<const isobit::CausalLM>(isobit::CausalLM::load(path, options))};
}

Model build(const ModelPlan& plan, nb::handle weights, const LoadOptions& options) {
  const Weights read = read_weights(weights, kOp);
  nb::gil_scoped_release release;
  return Model{std::make_shared<const isobit::CausalLM>(plan, read.map, options)};
}

}  // namespace

void bind_model(nb::module_& m) {
  bind_model_state(m);
  nb::class_<Model> model(m, "CausalLM", nb::type_slots(kNamesReadOnly),
                          "The compiled half of isobit.models.CausalLM.");
  model.def(
      "__init__",
      [](Model* self, nb::handle path, nb::handle max_positions, nb::handle progress,
         const std::string& weight_format, const std::string& embed_format,
         const std::string& numeric_profile) {
        new (self) Model(
            load(path, load_options(max_positions, progress, weight_format, embed_format, numeric_profile)));
      },
      "path"_a.none(), "max_positions"_a.none(), "progress"_a.none(), "weight_format"_a, "embed_format"_a,
      "numeric_profile"_a,
      nb::sig("def __init__(self, path: str | os.PathLike[str], max_positions: int | None, progress: "
              "typing.Any, weight_format: str, embed_format: str, numeric_profile: str) -> None"));
  model.def_static(
      "check", [](nb::handle path) { return isobit::CausalLM::check(read_path(path, kOp, "path")); },
      "path"_a.none(), nb::sig("def check(path: str | os.PathLike[str]) -> list[str]"),
      "Raises what load would for the config and the tensors' names, shapes and dtypes, without reading a "
      "weight. Returns the\nnames that load would leave unread.");
  model.def(
      "__init__",
      [](Model* self, const ModelPlan& plan, nb::handle weights, nb::handle max_positions,
         nb::handle progress, const std::string& weight_format, const std::string& embed_format,
         const std::string& numeric_profile) {
        new (self)
            Model(build(plan, weights,
                        load_options(max_positions, progress, weight_format, embed_format, numeric_profile)));
      },
      "plan"_a, "weights"_a.none(), "max_positions"_a.none(), "progress"_a.none(), "weight_format"_a,
      "embed_format"_a, "numeric_profile"_a,
      nb::sig("def __init__(self, plan: ModelPlan, weights: dict[str, typing.Any], max_positions: int | "
              "None, progress: typing.Any, weight_format: str, embed_format: str, numeric_profile: str) -> "
              "None"));
  for (const char* name : {"forward", "__call__"}) {
    const std::string sig = "def " + std::string(name) +
                            "(self, ids: typing.Any, state: CausalLMState | None = None, *, lengths: "
                            "typing.Any = None, last_only: bool = False) -> Array";
    model.def(
        name, forward, "ids"_a.none(), "state"_a.none() = nb::none(), nb::kw_only(),
        "lengths"_a.none() = nb::none(), "last_only"_a = false, nb::sig(sig.c_str()),
        "ids: (B, L) integers (an array of any integer dtype, or nested lists) in 0..vocab_size-1 -> "
        "float32 logits\n"
        "(B, L, vocab_size), or (B, vocab_size) of each row's last position with last_only. With a "
        "state the ids continue\n"
        "it. lengths: B integers in 1..L; logits past a row's length are 0, and its state ends there. "
        "TypeError for bool or\n"
        "float ids, ValueError for ids out of range, ragged lists, a state of another model or too many "
        "positions, all\n"
        "before any work.");
  }
  model.def("step", step, "ids"_a.none(), "state"_a.none(),
            nb::sig("def step(self, ids: typing.Any, state: CausalLMState) -> Array"),
            "One token a row: ids (B,) or (B, 1) -> logits (B, vocab_size); the bits that forward gives.");
  model.def(
      "allocate_state",
      [](const Model& self, nb::handle batch_size, nb::handle max_tokens) {
        const int64_t batch = read_int(batch_size, kOp, "batch_size"),
                      tokens = read_int(max_tokens, kOp, "max_tokens");
        return named_memory(kOp, "batch_size, max_tokens",
                            std::to_string(batch) + " rows of " + std::to_string(tokens) + " tokens",
                            [&] { return ModelState(self.impl, batch, tokens); });
      },
      "batch_size"_a.none(), "max_tokens"_a.none(),
      nb::sig("def allocate_state(self, batch_size: int, max_tokens: int) -> CausalLMState"),
      "An empty state for up to max_tokens positions (at most max_positions).");
  model.def(
      "reset_state",
      [](const Model& self, nb::handle state) {
        ModelState* read = read_model_state(state, kOp, false);
        InUse use(read->in_use, kOp);
        self.impl->reset_state(*read->impl);
        read->release_buffers();
      },
      "state"_a.none(), nb::sig("def reset_state(self, state: CausalLMState) -> None"),
      "Back to zero tokens.");
  model.def(
      "_generate_stream", generate, "ids"_a.none(), "max_new_tokens"_a.none(), "on_token"_a.none(),
      nb::sig(
          "def _generate_stream(self, ids: typing.Any, max_new_tokens: int, on_token: typing.Any) -> Array"),
      "generate, calling on_token(step, [id of each row], logits (B, vocab_size)) after each column; False "
      "stops.");
  model.def(
      "_block",
      [](const Model& m, int64_t i) -> nb::object {
        const ModelPlan& plan = m.impl->plan();
        const bool there = i >= 0 && i < plan.n_layers;
        const LayerParts parts = there ? plan.parts_of(i) : LayerParts{};
        if (!parts.mixer || parts.attention_beside || parts.shared_block >= 0) return nb::none();
        if (there && plan.is_mamba(i))
          return nb::cast(MambaObject{std::make_shared<const isobit::MambaBlock>(m.impl->mamba_block(i))});
        return nb::cast(
            TransformerObject{std::make_shared<const isobit::TransformerBlock>(m.impl->block(i))});
      },
      "i"_a, nb::sig("def _block(self, i: int) -> typing.Any"),
      "Layer i, sharing its weights; None for one\nthat no block class describes.");
  model.def("parameters", parameters, nb::sig("def parameters(self) -> dict[str, Array]"),
            "Copies of all weights by checkpoint name.");
  model.def_prop_ro("plan", [](const Model& m) { return m.impl->plan(); });
  model.def_prop_ro(
      "weight_format", [](const Model& m) { return to_string(m.impl->weight_format()); },
      "In which format the projections are kept.");
  model.def_prop_ro(
      "numeric_profile", [](const Model& m) { return to_string(m.impl->numeric_profile()); },
      "The arithmetic of the products.");
  model.def_prop_ro(
      "embed_format", [](const Model& m) { return to_string(m.impl->embed_format()); },
      "In which format embedding and head are kept.");
  model.def_prop_ro(
      "projection_elements", [](const Model& m) { return m.impl->projection_elements(); },
      "Elements of all matrices but embedding and head: a token takes two operations with each.");
  model.def_prop_ro(
      "weight_bytes", [](const Model& m) { return m.impl->weight_bytes(); },
      "Memory of all weights in their stored form.");
  model.def_prop_ro(
      "step_bytes", [](const Model& m) { return m.impl->step_bytes(); },
      "Memory of the weights that a step reads: all but a table that only the embedding uses.");
  model.def_prop_ro("max_positions", [](const Model& m) { return m.impl->max_positions(); });
  model.def_prop_ro(
      "unused_names", [](const Model& m) { return m.impl->unused_names(); },
      "Checkpoint tensors known to be harmless that were not read.");
  model.def_prop_ro(
      "tied", [](const Model& m) { return m.impl->tied(); }, "Whether head and embedding are one tensor.");
  model.def_prop_ro("vocab_size", [](const Model& m) { return m.impl->plan().vocab_size; });
  model.def_prop_ro("d_model", [](const Model& m) { return m.impl->plan().d_model; });
  model.def_prop_ro("n_layers", [](const Model& m) { return m.impl->plan().n_layers; });
  model.def_prop_ro("kind", [](const Model& m) { return m.impl->plan().kind; });
}

}  // namespace isobit::python

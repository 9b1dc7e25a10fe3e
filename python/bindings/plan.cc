// SPDX-License-Identifier: Apache-2.0
// A parsed config.json and the plan that the library makes of it, as Python classes.
#include "plan.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "errors.h"
#include "ids.h"
#include "isobit/error.h"
#include "isobit/model_plan.h"
#include "mamba.h"
#include "options.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

size_t layer_index(const ModelPlan& plan, nb::handle object) {
  const int64_t i = read_int(object, "ModelPlan", "i");
  if (i < 0 || i >= plan.n_layers || static_cast<size_t>(i) >= plan.layer_weights.size()) {
    throw nb::index_error(
        message("ModelPlan", "layer", "0.." + std::to_string(plan.n_layers - 1), std::to_string(i)).c_str());
  }
  return static_cast<size_t>(i);
}

nb::list layer_weights(const ModelPlan& plan, nb::handle i) {
  nb::list result;
  for (const WeightSource& source : plan.layer_weights[layer_index(plan, i)]) {
    nb::object rows = nb::none();
    if (source.row_begin != 0 || source.row_end >= 0)
      rows = nb::slice(nb::int_(source.row_begin),
                       source.row_end < 0 ? nb::object(nb::none()) : nb::int_(source.row_end), nb::none());
    result.append(nb::make_tuple(source.block_key, source.checkpoint_name, rows));
  }
  return result;
}

// Keywords of TransformerBlock for one layer; `sizes` also the head counts.
nb::dict keywords(const ModelPlan& plan, size_t layer, bool sizes) {
  if (plan.is_mamba(static_cast<int64_t>(layer))) return mamba_options_dict(*plan.mamba_layers[layer]);
  nb::dict d = options_dict(plan.layers[layer]);
  if (!sizes) {
    for (const char* key : {"n_heads", "n_kv_heads", "head_dim"}) nb::del(d[key]);
  }
  return d;
}

nb::list layer_kinds(const ModelPlan& plan) {
  nb::list kinds;
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    const LayerParts parts = plan.parts_of(i);
    const bool both = parts.attention_beside || parts.shared_block >= 0;
    kinds.append(!parts.mixer ? "mlp" : both ? "both" : plan.is_mamba(i) ? "mamba" : "attention");
  }
  return kinds;
}

nb::object mamba_shape(const ModelPlan& plan) {
  if (plan.mamba_layers.empty()) return nb::none();
  const MambaShape& shape = plan.mamba_shape;
  nb::dict d;
  d["version"] = shape.version;
  d["channels"] = shape.channels;
  d["states"] = shape.states;
  d["conv_channels"] = shape.conv_channels;
  d["conv_width"] = shape.conv_width;
  d["heads"] = shape.heads;
  d["head_dim"] = shape.head_dim;
  d["rank"] = shape.rank;
  d["angles"] = shape.angles;
  return d;
}

}  // namespace

void bind_plan(nb::module_& m) {
  nb::class_<HFConfig>(m, "HFConfig", "A parsed config.json.")
      .def_static(
          "from_text",
          [](const std::string& text, nb::handle path) {
            return HFConfig::from_text(
                text, path.is_none() ? std::filesystem::path() : read_path(path, "HFConfig", "path"));
          },
          "text"_a, "path"_a.none(),
          nb::sig("def from_text(text: str, path: str | os.PathLike[str] | None) -> HFConfig"))
      .def_static(
          "from_json",
          [](nb::handle path) { return HFConfig::from_json(read_path(path, "HFConfig", "path")); },
          "path"_a.none(), nb::sig("def from_json(path: str | os.PathLike[str]) -> HFConfig"))
      .def_prop_ro("model_type", &HFConfig::model_type)
      .def_prop_ro(
          "path",
          [](const HFConfig& c) -> nb::object { return c.path().empty() ? nb::none() : nb::cast(c.path()); },
          nb::sig("def path(self) -> pathlib.Path | None"))
      .def("text", &HFConfig::text);

  nb::class_<ModelPlan> plan(m, "ModelPlan",
                             "What a config.json means: sizes, the options of each layer, and where each "
                             "weight lies in the checkpoint.");
  plan.def_ro("model_type", &ModelPlan::model_type);
  plan.def_ro("kind", &ModelPlan::kind, "'transformer', 'mamba1', 'mamba2', 'mamba3' or 'hybrid'.");
  plan.def_ro("n_layers", &ModelPlan::n_layers);
  plan.def_ro("d_model", &ModelPlan::d_model);
  plan.def_ro("vocab_size", &ModelPlan::vocab_size);
  plan.def_ro("intermediate", &ModelPlan::intermediate);
  plan.def_ro("n_heads", &ModelPlan::n_heads);
  plan.def_ro("n_kv_heads", &ModelPlan::n_kv_heads);
  plan.def_ro("head_dim", &ModelPlan::head_dim);
  plan.def_ro("tie_embeddings", &ModelPlan::tie_embeddings);
  plan.def_ro("norm_eps", &ModelPlan::norm_eps, "Of the final norm.");
  plan.def_ro("max_position_embeddings", &ModelPlan::max_position_embeddings);
  plan.def_ro("embed_name", &ModelPlan::embed_name);
  plan.def_ro("norm_name", &ModelPlan::norm_name);
  plan.def_prop_ro(
      "head_name",
      [](const ModelPlan& p) -> nb::object { return p.tie_embeddings ? nb::none() : nb::cast(p.head_name); },
      nb::sig("def head_name(self) -> str | None"), "None when the head is tied to the embedding.");
  plan.def_prop_ro(
      "block_options", [](const ModelPlan& p) { return keywords(p, 0, false); },
      nb::sig("def block_options(self) -> dict[str, typing.Any]"),
      "The options of layer 0 without the head counts.");
  plan.def_prop_ro(
      "block_kwargs", [](const ModelPlan& p) { return keywords(p, 0, true); },
      nb::sig("def block_kwargs(self) -> dict[str, typing.Any]"),
      "The keywords that build layer 0 as a block.");
  plan.def(
      "layer_kwargs", [](const ModelPlan& p, nb::handle i) { return keywords(p, layer_index(p, i), true); },
      "i"_a.none(), nb::sig("def layer_kwargs(self, i: int) -> dict[str, typing.Any]"),
      "The keywords that build layer i (windows can differ).");
  plan.def_prop_ro("layer_kinds", layer_kinds, nb::sig("def layer_kinds(self) -> list[str]"),
                   "Of each layer 'attention', 'mamba', 'both' or 'mlp'.");
  plan.def_prop_ro("mamba_shape", mamba_shape, nb::sig("def mamba_shape(self) -> dict[str, int] | None"),
                   "The sizes of the Mamba layers' states; None without such layers.");
  plan.def("layer_weights", layer_weights, "i"_a.none(),
           nb::sig("def layer_weights(self, i: int) -> list[tuple[str, str, slice | None]]"),
           "[(block key, checkpoint name, rows or None for all)] of layer i.");
  plan.def("checkpoint_names", &ModelPlan::checkpoint_names,
           "Every name the plan reads, in order, each once.");
  plan.def("__repr__", [](const ModelPlan& p) {
    return "ModelPlan(model_type='" + p.model_type + "', n_layers=" + std::to_string(p.n_layers) +
           ", d_model=" + std::to_string(p.d_model) + ", vocab_size=" + std::to_string(p.vocab_size) + ")";
  });
  m.def("plan_for", &plan_for, "config"_a);
  m.def("known_model_types", &known_model_types, "The model types that plan_for knows, sorted.");
}

}  // namespace isobit::python

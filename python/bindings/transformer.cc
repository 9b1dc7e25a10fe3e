// SPDX-License-Identifier: Apache-2.0
// The compiled half of isobit.TransformerBlock: weights in, forward and step out. Keywords, modes and
// pickling are in python/isobit/transformer.py.
#include "transformer.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "errors.h"
#include "ids.h"
#include "input.h"
#include "instance.h"
#include "isobit/error.h"
#include "options.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

constexpr const char* kOp = "TransformerBlock";

std::shared_ptr<const isobit::TransformerBlock> build(nb::handle weights, const nb::dict& options) {
  const TransformerOptions parsed = read_options(options);
  const Weights read = read_weights(weights, kOp);
  for (const auto& [name, view] : read.map) {
    if (view.dtype != DType::F32)
      throw TypeError(message(kOp, "'" + name + "'", "dtype float32", dtype_name(view.dtype)));
  }
  nb::gil_scoped_release release;
  return std::make_shared<const isobit::TransformerBlock>(read.map, parsed);
}

State allocate_state(const TransformerObject& self, nb::handle batch_size, nb::handle max_tokens) {
  auto core = std::make_shared<StateCore>();
  const int64_t batch = read_int(batch_size, kOp, "batch_size"),
                tokens = read_int(max_tokens, kOp, "max_tokens");
  const TransformerOptions& o = self.impl->options();
  const int64_t heads = o.n_kv_heads.value_or(o.n_heads), kept = o.window > 0 ? o.window : tokens;
  core->impl = named_memory(
      kOp, "batch_size, max_tokens", bytes_of({2, batch, heads, kept, o.head_dim.value_or(1)}),
      [&] { return std::make_shared<isobit::TransformerState>(self.impl->allocate_state(batch, tokens)); });
  return State{std::move(core)};
}

}  // namespace

Weights read_weights(nb::handle weights, const std::string& op) {
  if (!PyMapping_Check(weights.ptr()) || !nb::hasattr(weights, "items"))
    throw TypeError(message(op, "weights", "a dict of arrays by name", class_name(weights)));
  Weights result;
  for (nb::handle pair : nb::iter(weights.attr("items")())) {
    const std::string name = read_string(pair[0], op, "weight name");
    const StridedView view = made_contiguous(require_array(pair[1], op, "'" + name + "'"));
    result.map[name] = TensorView{view.dtype, view.shape, view.data};
    result.keep.push_back(view.keep);
  }
  return result;
}

void bind_transformer(nb::module_& m) {
  nb::class_<TransformerObject> cls(m, "TransformerBlock", nb::type_slots(kNamesReadOnly),
                                    "The compiled half of isobit.TransformerBlock.");
  cls.def(
      "__init__",
      [](TransformerObject* self, nb::handle weights, const nb::dict& options) {
        new (self) TransformerObject{build(weights, options)};
      },
      "weights"_a.none(), "options"_a,
      nb::sig("def __init__(self, weights: collections.abc.Mapping[str, typing.Any], options: dict[str, "
              "typing.Any]) -> None"));
  bind_block<isobit::TransformerBlock>(
      cls, "TransformerBlock", "TransformerState",
      "x: (B, L, d_model) float32 -> hidden states of the same shape. With a state the tokens continue it; "
      "without, they\n"
      "start at position 0. lengths: B integers in 1..L, only without a state; outputs past a row's length "
      "are +0 and the\n"
      "others equal the row alone, bit for bit. TypeError for another dtype, ValueError for a wrong shape, a "
      "state that\n"
      "does not fit, non-finite values or positions past max_tokens or max_positions, all before any work.");
  cls.def("allocate_state", allocate_state, "batch_size"_a.none(), "max_tokens"_a.none(),
          nb::sig("def allocate_state(self, batch_size: int, max_tokens: int) -> TransformerState"),
          "An empty state for up to max_tokens positions (at most max_positions).");
  cls.def(
      "_options", [](const TransformerObject& self) { return options_dict(self.impl->options()); },
      nb::sig("def _options(self) -> dict[str, typing.Any]"));
  cls.def_prop_ro(
      "weight_format", [](const TransformerObject& b) { return to_string(b.impl->options().weight_format); },
      "In which format the projections are kept.");
  cls.def_prop_ro(
      "numeric_profile",
      [](const TransformerObject& b) { return to_string(b.impl->options().numeric_profile); },
      "The arithmetic of the products.");
  cls.def_prop_ro("d_model", [](const TransformerObject& b) { return b.impl->d_model(); });
  cls.def_prop_ro("intermediate", [](const TransformerObject& b) { return b.impl->intermediate(); });
}

}  // namespace isobit::python

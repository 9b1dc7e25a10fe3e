// SPDX-License-Identifier: Apache-2.0
// The compiled half of isobit.TransformerBlock: weights in, forward and step out. Keywords, modes and
// pickling are in python/isobit/transformer.py.
#include "transformer.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "errors.h"
#include "ids.h"
#include "input.h"
#include "isobit/error.h"
#include "options.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

constexpr const char* kOp = "TransformerBlock";

const float* floats(const StridedView& view) { return reinterpret_cast<const float*>(view.data); }

Array compute(const isobit::TransformerBlock& block, const StridedView& x, int64_t batch, int64_t length,
              StateCore* state, const std::vector<int64_t>& lengths) {
  Array out = Array::empty(DType::F32, x.shape);
  {
    nb::gil_scoped_release release;
    block.forward(floats(x), batch, length, reinterpret_cast<float*>(out.data),
                  state ? state->impl.get() : nullptr, lengths);
  }
  if (state != nullptr) {
    state->k_buffer.reset();
    state->v_buffer.reset();
  }
  return out;
}

void refuse_open_session(const StateCore& state) {
  if (state.has_session)
    throw ValueError(message(kOp, "state", "a state without an open decode session",
                             "one with (step the session, or close it)"));
}

Array forward(const Block& self, nb::handle x, nb::handle state, nb::handle lengths) {
  const auto block = self.impl;  // another thread may set weights meanwhile
  StateCore* core = read_state(state, kOp, true);
  if (core == nullptr) return run_forward(*block, x, nullptr, lengths, kOp);
  InUse use(core->in_use, kOp);
  refuse_open_session(*core);
  return run_forward(*block, x, core, lengths, kOp);
}

Array step(const Block& self, nb::handle x, nb::handle state) {
  const auto block = self.impl;
  StateCore* core = read_state(state, kOp, false);
  InUse use(core->in_use, kOp);
  refuse_open_session(*core);
  return run_step(*block, x, *core, kOp);
}

nb::dict parameters(const Block& self) {
  nb::dict result;
  for (const std::string& name : self.impl->weight_names()) {
    const std::vector<float> values = self.impl->weight(name);
    Array a = Array::empty(DType::F32, self.impl->weight_shape(name));
    std::memcpy(a.data, values.data(), static_cast<size_t>(a.nbytes()));
    result[name.c_str()] = nb::cast(std::move(a));
  }
  return result;
}

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

State allocate_state(const Block& self, nb::handle batch_size, nb::handle max_tokens) {
  auto core = std::make_shared<StateCore>();
  core->in_use = std::make_shared<bool>(false);
  core->impl = std::make_shared<isobit::TransformerState>(self.impl->allocate_state(
      read_int(batch_size, kOp, "batch_size"), read_int(max_tokens, kOp, "max_tokens")));
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

Array run_forward(const isobit::TransformerBlock& block, nb::handle x, StateCore* state, nb::handle lengths,
                  const std::string& op) {
  const StridedView view = require_float32(x, op, "x");
  if (view.shape.size() != 3 || view.shape[0] < 1 || view.shape[1] < 1 || view.shape[2] != block.d_model())
    throw ValueError(message(op, "x", "shape (B, L, " + std::to_string(block.d_model()) + ") with B, L >= 1",
                             shape_text(view.shape)));
  std::vector<int64_t> rows;
  if (!lengths.is_none()) {
    rows = read_ids(lengths, op, "lengths", 1, 1).values;
    if (static_cast<int64_t>(rows.size()) != view.shape[0])
      throw ValueError(
          message(op, "lengths", std::to_string(view.shape[0]) + " entries", std::to_string(rows.size())));
  }
  return compute(block, view, view.shape[0], view.shape[1], state, rows);
}

Array run_step(const isobit::TransformerBlock& block, nb::handle x, StateCore& state, const std::string& op) {
  const StridedView view = require_float32(x, op, "x");
  const auto& shape = view.shape;
  const bool flat = shape.size() == 2 && shape[0] >= 1 && shape[1] == block.d_model();
  const bool column = shape.size() == 3 && shape[0] >= 1 && shape[1] == 1 && shape[2] == block.d_model();
  if (!flat && !column) {
    const std::string d = std::to_string(block.d_model());
    throw ValueError(
        message(op, "x", "shape (B, " + d + ") or (B, 1, " + d + ") with B >= 1", shape_text(shape)));
  }
  return compute(block, view, shape[0], 1, &state, {});
}

void bind_transformer(nb::module_& m) {
  nb::class_<Block> cls(m, "TransformerBlock", "The compiled half of isobit.TransformerBlock.");
  cls.def(
      "__init__",
      [](Block* self, nb::handle weights, const nb::dict& options) {
        new (self) Block{build(weights, options)};
      },
      "weights"_a.none(), "options"_a,
      nb::sig("def __init__(self, weights: collections.abc.Mapping[str, typing.Any], options: dict[str, "
              "typing.Any]) -> None"));
  cls.def(
      "__init__", [](Block* self, const Block& other) { new (self) Block(other); }, "other"_a,
      nb::sig("def __init__(self, other: TransformerBlock) -> None"));
  cls.def(
      "_replace", [](Block& self, const Block& other) { self.impl = other.impl; }, "other"_a,
      "Takes the weights and options of another block.");
  cls.def(
      "forward", forward, "x"_a.none(), "state"_a.none() = nb::none(), nb::kw_only(),
      "lengths"_a.none() = nb::none(),
      nb::sig("def forward(self, x: typing.Any, state: TransformerState | None = None, *, lengths: "
              "typing.Any = None) -> Array"),
      "x: (B, L, d_model) float32 -> hidden states of the same shape. With a state the tokens continue it; "
      "without, they\n"
      "start at position 0. lengths: B integers in 1..L, only without a state; outputs past a row's length "
      "are +0 and the\n"
      "others equal the row alone, bit for bit. TypeError for another dtype, ValueError for a wrong shape, a "
      "state that\n"
      "does not fit, non-finite values or positions past max_tokens or max_positions, all before any work.");
  cls.def("__call__", forward, "x"_a.none(), "state"_a.none() = nb::none(), nb::kw_only(),
          "lengths"_a.none() = nb::none(),
          nb::sig("def __call__(self, x: typing.Any, state: TransformerState | None = None, *, lengths: "
                  "typing.Any = None) -> Array"),
          "The same as forward.");
  cls.def("step", step, "x"_a.none(), "state"_a.none(),
          nb::sig("def step(self, x: typing.Any, state: TransformerState) -> Array"),
          "One token a row: x (B, d_model) or (B, 1, d_model) float32 -> the same shape; the bits that "
          "forward gives.");
  cls.def("allocate_state", allocate_state, "batch_size"_a.none(), "max_tokens"_a.none(),
          nb::sig("def allocate_state(self, batch_size: int, max_tokens: int) -> TransformerState"),
          "An empty state for up to max_tokens positions (at most max_positions).");
  cls.def("parameters", parameters, nb::sig("def parameters(self) -> dict[str, Array]"),
          "Float32 copies of the weights by name, exactly as given or as their stored form widens; where an "
          "integer profile\n"
          "keeps codes, values that have the same codes.");
  cls.def(
      "_options", [](const Block& self) { return options_dict(self.impl->options()); },
      nb::sig("def _options(self) -> dict[str, typing.Any]"));
  cls.def_prop_ro(
      "weight_format", [](const Block& b) { return to_string(b.impl->options().weight_format); },
      "In which format the projections are kept.");
  cls.def_prop_ro(
      "numeric_profile", [](const Block& b) { return to_string(b.impl->options().numeric_profile); },
      "The arithmetic of the products.");
  cls.def_prop_ro("d_model", [](const Block& b) { return b.impl->d_model(); });
  cls.def_prop_ro("intermediate", [](const Block& b) { return b.impl->intermediate(); });
}

}  // namespace isobit::python

// SPDX-License-Identifier: Apache-2.0
// What Python's transformer and Mamba blocks share: how they hold a block of the library, run it, and give
// its weights back. What differs between the kinds is in their BlockKind.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "errors.h"
#include "ids.h"
#include "input.h"
#include "isobit/error.h"
#include "state.h"

namespace isobit::python {

/// The base class of a block in Python. Replaced as a whole when weights or options are set, so that a
/// session that is open keeps what it was opened with.
template <class Block>
struct BlockObject {
  std::shared_ptr<const Block> impl;
};

/// Specialised for each kind of block with: State, the library's class; kState, what messages call one;
/// op(block), the name in messages; longest(block), the most positions of a row.
template <class Block>
struct BlockKind;

template <class Block>
using CarriedBy = Carried<typename BlockKind<Block>::State>;

/// {name: array-like} -> views, which the returned holders keep alive.
struct Weights {
  WeightMap map;
  std::vector<std::shared_ptr<void>> keep;
};
Weights read_weights(nanobind::handle dict, const std::string& op);

/// {name: a copy of the values}
template <class ShapeOf, class ValuesOf>
nanobind::dict named_arrays(const std::vector<std::string>& names, ShapeOf shape_of, ValuesOf values_of) {
  nanobind::dict result;
  for (const std::string& name : names) {
    const std::vector<float> values = values_of(name);
    Array a = Array::empty(DType::F32, shape_of(name));
    std::memcpy(a.data, values.data(), static_cast<size_t>(a.nbytes()));
    result[name.c_str()] = nanobind::cast(std::move(a));
  }
  return result;
}

/// The state behind a Python argument; TypeError for another class. `none_allowed`: nullptr for None.
template <class Block>
std::shared_ptr<CarriedBy<Block>> read_state(nanobind::handle object, const std::string& op,
                                             bool none_allowed) {
  using Object = StateObject<typename BlockKind<Block>::State>;
  if (none_allowed && object.is_none()) return nullptr;
  if (!nanobind::isinstance<Object>(object) || !nanobind::inst_ready(object))
    throw TypeError(message(op, "state", BlockKind<Block>::kState, class_name(object)));
  return nanobind::cast<const Object&>(object).core;
}

/// x: [B, L, d_model], or with `one_token` [B, d_model] or [B, 1, d_model], float32 -> the same shape. The
/// caller holds the state in use. Sizes are checked and the result is allocated before anything is copied.
template <class Block>
Array run(const Block& block, nanobind::handle x, CarriedBy<Block>* state, nanobind::handle lengths,
          bool one_token, const std::string& op) {
  StridedView view = require_array(x, op, "x", DType::F32);
  const std::vector<int64_t> shape = view.shape;
  const std::string d = std::to_string(block.d_model());
  const bool flat = one_token && shape.size() == 2;
  if ((shape.size() != 3 && !flat) || shape[0] < 1 || shape.back() != block.d_model() ||
      (!flat && (shape[1] < 1 || (one_token && shape[1] != 1))))
    throw ValueError(message(op, "x",
                             one_token ? "shape (B, " + d + ") or (B, 1, " + d + ") with B >= 1"
                                       : "shape (B, L, " + d + ") with B, L >= 1",
                             shape_text(shape)));
  const int64_t length = flat ? 1 : shape[1], longest = BlockKind<Block>::longest(block);
  if (length > longest)
    throw ValueError(
        message(op, "x", "at most " + std::to_string(longest) + " more positions (max_positions) in a row",
                shape_text(shape)));
  if (state != nullptr && state->impl->batch_size() != shape[0])
    throw ValueError(
        message(op, "state.batch_size", std::to_string(shape[0]), std::to_string(state->impl->batch_size())));
  const std::vector<int64_t> rows = read_lengths(lengths, op, shape[0]);
  Array out = Array::empty(DType::F32, shape);
  view = made_contiguous(std::move(view));
  {
    nanobind::gil_scoped_release release;
    block.forward(reinterpret_cast<const float*>(view.data), shape[0], length,
                  reinterpret_cast<float*>(out.data), state ? state->impl.get() : nullptr, rows);
  }
  if (state != nullptr) state->held.clear();
  return out;
}

/// forward and step of a block: as run, but not on a state that a session owns.
template <class Block>
Array call(const BlockObject<Block>& self, nanobind::handle x, nanobind::handle state,
           nanobind::handle lengths, bool one_token) {
  const auto block = self.impl;  // another thread may set weights meanwhile
  const std::string op = BlockKind<Block>::op(*block);
  const auto core = read_state<Block>(state, op, !one_token);
  if (core == nullptr) return run<Block>(*block, x, nullptr, lengths, one_token, op);
  InUse use(core->in_use, op);
  if (core->has_session)
    throw ValueError(message(op, "state", "a state without an open decode session",
                             "one with (step the session, or close it)"));
  return run<Block>(*block, x, core.get(), lengths, one_token, op);
}

/// The methods of both kinds. `state` is the class of states in signatures; `forward_doc` is of forward.
template <class Block>
void bind_block(nanobind::class_<BlockObject<Block>>& cls, const std::string& name, const std::string& state,
                const char* forward_doc) {
  namespace nb = nanobind;
  using namespace nb::literals;
  using Object = BlockObject<Block>;
  cls.def(
      "__init__", [](Object* self, const Object& other) { new (self) Object(other); }, "other"_a,
      nb::sig(("def __init__(self, other: " + name + ") -> None").c_str()));
  cls.def(
      "_replace", [](Object& self, const Object& other) { self.impl = other.impl; }, "other"_a,
      "Takes the weights and options of another block.");
  for (const char* method : {"forward", "__call__"}) {
    const std::string signature = "def " + std::string(method) + "(self, x: typing.Any, state: " + state +
                                  " | None = None, *, lengths: typing.Any = None) -> Array";
    cls.def(
        method,
        [](const Object& self, nb::handle x, nb::handle state, nb::handle lengths) {
          return call<Block>(self, x, state, lengths, false);
        },
        "x"_a.none(), "state"_a.none() = nb::none(), nb::kw_only(), "lengths"_a.none() = nb::none(),
        nb::sig(signature.c_str()), forward_doc);
  }
  cls.def(
      "step",
      [](const Object& self, nb::handle x, nb::handle state) {
        return call<Block>(self, x, state, nb::none(), true);
      },
      "x"_a.none(), "state"_a.none(),
      nb::sig(("def step(self, x: typing.Any, state: " + state + ") -> Array").c_str()),
      "One token a row: x (B, d_model) or (B, 1, d_model) float32 -> the same shape; the bits that "
      "forward gives.");
  cls.def(
      "parameters",
      [](const Object& self) {
        const auto block = self.impl;
        return named_arrays(
            block->weight_names(), [&](const std::string& n) { return block->weight_shape(n); },
            [&](const std::string& n) { return block->weight(n); });
      },
      nb::sig("def parameters(self) -> dict[str, Array]"),
      "Float32 copies of the weights by name, exactly as given or as their stored form widens; where an "
      "integer profile\n"
      "keeps codes, values that have the same codes.");
}

}  // namespace isobit::python

template <class Block>
struct nanobind::detail::type_caster<isobit::python::BlockObject<Block>>
    : isobit::python::InstanceCaster<isobit::python::BlockObject<Block>> {};

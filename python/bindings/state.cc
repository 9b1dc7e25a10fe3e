// SPDX-License-Identifier: Apache-2.0
// isobit.TransformerState.
#include "state.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "array.h"
#include "errors.h"
#include "ids.h"
#include "input.h"
#include "instance.h"
#include "isobit/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

constexpr const char* kOp = "TransformerState";

Array share(const std::shared_ptr<std::vector<float>>& buffer) {
  StridedView view;
  view.shape = {static_cast<int64_t>(buffer->size())};
  view.strides = {static_cast<int64_t>(sizeof(float))};
  view.data = reinterpret_cast<std::byte*>(buffer->data());
  view.keep = buffer;
  return Array::borrow(std::move(view));
}

// float32, one axis, exactly `size` elements; never a silent conversion or copy of strided memory.
StridedView read_buffer(nb::handle object, const char* argument, int64_t size) {
  StridedView view = require_array(object, kOp, argument, DType::F32);
  if (view.shape != std::vector<int64_t>{size})
    throw ValueError(message(kOp, argument, "shape " + shape_text({size}), shape_text(view.shape)));
  if (!view.c_contiguous()) throw ValueError(message(kOp, argument, "C-contiguous memory", "a strided view"));
  return made_contiguous(std::move(view));
}

State make_state(nb::handle batch_size, nb::handle n_kv_heads, nb::handle head_dim, nb::handle max_tokens,
                 nb::handle k_cache, nb::handle v_cache, nb::handle cached_tokens, nb::handle window,
                 nb::handle numeric_profile) {
  const int64_t batch = read_int(batch_size, kOp, "batch_size"),
                heads = read_int(n_kv_heads, kOp, "n_kv_heads"), dim = read_int(head_dim, kOp, "head_dim"),
                tokens = read_int(max_tokens, kOp, "max_tokens"),
                cached = read_int(cached_tokens, kOp, "cached_tokens"),
                span = read_int(window, kOp, "window");
  const NumericProfile profile =
      parse_numeric_profile(read_string(numeric_profile, kOp, "numeric_profile"), kOp);
  auto core = std::make_shared<StateCore>();
  if (k_cache.is_none() != v_cache.is_none())
    throw ValueError(message(kOp, "v_cache", "both of k_cache and v_cache or neither", "one"));
  if (k_cache.is_none()) {
    if (cached != 0)
      throw ValueError(message(kOp, "cached_tokens", "0 without buffers", std::to_string(cached)));
    core->impl = named_memory(
        kOp, "batch_size, n_kv_heads, head_dim, max_tokens",
        bytes_of({2, batch, heads, span > 0 ? span : tokens, dim}),
        [&] { return std::make_shared<isobit::TransformerState>(batch, heads, dim, tokens, span, profile); });
  } else {
    const StridedView k = require_array(k_cache, kOp, "k_cache");
    const int64_t capacity = span > 0 ? span : tokens;
    int64_t size = 0;
    if (batch > 0 && heads > 0 && dim > 0 && capacity > 0)
      size = checked_size({batch, heads, capacity, dim}, sizeof(float));
    const StridedView keys = read_buffer(k_cache, "k_cache", size),
                      values = read_buffer(v_cache, "v_cache", size);
    core->impl = std::make_shared<isobit::TransformerState>(
        batch, heads, dim, tokens, reinterpret_cast<const float*>(keys.data),
        reinterpret_cast<const float*>(values.data), size, cached, span, profile);
  }
  return State{std::move(core)};
}

Array cache(const State& self, bool keys) {
  StateCore& core = *self.core;
  InUse use(core.in_use, kOp);
  const auto buffer = keys ? core.impl->k_cache() : core.impl->v_cache();
  core.hold(buffer);
  return share(buffer);
}

void set_cache(const State& self, nb::handle object, bool keys) {
  isobit::TransformerState& state = *self.core->impl;
  InUse use(self.core->in_use, kOp);
  const int64_t size = state.batch_size() * state.n_kv_heads() * state.capacity() * state.head_dim();
  const StridedView view = read_buffer(object, keys ? "k_cache" : "v_cache", size);
  const std::span values(reinterpret_cast<const float*>(view.data), static_cast<size_t>(size));
  if (keys)
    state.set_k_cache(values);
  else
    state.set_v_cache(values);
}

Array chronological(const State& self, bool keys) {
  isobit::TransformerState& state = *self.core->impl;
  InUse use(self.core->in_use, kOp);
  const std::vector<float> flat = keys ? state.keys() : state.values();
  Array a = Array::empty(DType::F32, {state.batch_size(), state.n_kv_heads(),
                                      std::min(state.cached_tokens(), state.capacity()), state.head_dim()});
  std::memcpy(a.data, flat.data(), static_cast<size_t>(a.nbytes()));
  return a;
}

nb::tuple constructor_arguments(const State& self) {
  const isobit::TransformerState& s = *self.core->impl;
  for (int64_t row = 0; row < s.batch_size(); ++row)
    if (s.tokens(row) != s.cached_tokens())
      throw ValueError(message(kOp, "state", "rows at the same number of tokens, to be copied or pickled",
                               std::to_string(s.tokens(row)) + " and " + std::to_string(s.cached_tokens())));
  Array k = Array::copy_of(cache(self, true)), v = Array::copy_of(cache(self, false));
  const nb::tuple common = nb::make_tuple(s.batch_size(), s.n_kv_heads(), s.head_dim(), s.max_tokens(),
                                          std::move(k), std::move(v), s.cached_tokens(), s.window());
  if (s.numeric_profile() == NumericProfile::kFp32V1) return common;
  return nb::tuple(common + nb::make_tuple(to_string(s.numeric_profile())));
}

std::string repr(const State& self) {
  const isobit::TransformerState& s = *self.core->impl;
  return "TransformerState(batch_size=" + std::to_string(s.batch_size()) +
         ", n_kv_heads=" + std::to_string(s.n_kv_heads()) + ", head_dim=" + std::to_string(s.head_dim()) +
         ", max_tokens=" + std::to_string(s.max_tokens()) +
         ", cached_tokens=" + std::to_string(s.cached_tokens()) + ", window=" + std::to_string(s.window()) +
         ")";
}

constexpr const char* kDoc =
    "The key/value cache of one TransformerBlock.\n\n"
    "``k_cache`` and ``v_cache`` are flat float32 arrays of batch_size * n_kv_heads * capacity * head_dim "
    "elements, where\n"
    "capacity is ``window`` if that is positive and else ``max_tokens``. window == 0: the used part is "
    "packed as\n"
    "[batch, kv head, cached_tokens, head_dim]. window > 0: a ring of ``window`` slots, position p in slot p "
    "% window.\n"
    "They are shared memory: what is written into them is honoured by the next call, which also updates "
    "arrays that are\n"
    "still held. Buffers given to the constructor are copied. ValueError for a wrong length, cached_tokens "
    "outside\n"
    "0..max_tokens or non-finite values; TypeError for another dtype than float32. Pickles and copies byte "
    "for byte.\n"
    "``numeric_profile``: of the block that filled the buffers. Blocks of another one refuse a state with "
    "tokens; an empty\n"
    "one takes the profile of the block that fills it. Pickles hold it unless it is fp32_v1.";

}  // namespace

InUse::InUse(std::shared_ptr<bool> flag, const std::string& op) : flag_(std::move(flag)) {
  if (*flag_) throw ValueError(message(op, "state", "a state that no other call is using", "one in use"));
  *flag_ = true;
}

void bind_state(nb::module_& m) {
  nb::class_<State> cls(m, "TransformerState", nb::type_slots(kNamesReadOnly), kDoc);
  cls.def(
      "__init__",
      [](State* self, nb::handle batch_size, nb::handle n_kv_heads, nb::handle head_dim,
         nb::handle max_tokens, nb::handle k_cache, nb::handle v_cache, nb::handle cached_tokens,
         nb::handle window, nb::handle numeric_profile) {
        new (self) State(make_state(batch_size, n_kv_heads, head_dim, max_tokens, k_cache, v_cache,
                                    cached_tokens, window, numeric_profile));
      },
      "batch_size"_a.none(), "n_kv_heads"_a.none(), "head_dim"_a.none(), "max_tokens"_a.none(),
      "k_cache"_a.none() = nb::none(), "v_cache"_a.none() = nb::none(), "cached_tokens"_a.none() = 0,
      "window"_a.none() = 0, "numeric_profile"_a.none() = "fp32_v1",
      nb::sig("def __init__(self, batch_size: int, n_kv_heads: int, head_dim: int, max_tokens: int, k_cache: "
              "typing.Any = None, "
              "v_cache: typing.Any = None, cached_tokens: int = 0, window: int = 0, numeric_profile: str = "
              "'fp32_v1') -> None"));
  cls.def_prop_ro("batch_size", [](const State& s) { return s.core->impl->batch_size(); });
  cls.def_prop_ro("n_kv_heads", [](const State& s) { return s.core->impl->n_kv_heads(); });
  cls.def_prop_ro("head_dim", [](const State& s) { return s.core->impl->head_dim(); });
  cls.def_prop_ro("max_tokens", [](const State& s) { return s.core->impl->max_tokens(); });
  cls.def_prop_ro("window", [](const State& s) { return s.core->impl->window(); });
  cls.def_prop_ro(
      "capacity", [](const State& s) { return s.core->impl->capacity(); },
      "Positions kept: window if positive, else max_tokens.");
  cls.def_prop_ro(
      "numeric_profile", [](const State& s) { return to_string(s.core->impl->numeric_profile()); },
      "Under which the tokens were computed.");
  cls.def_prop_rw(
      "cached_tokens", [](const State& s) { return s.core->impl->cached_tokens(); },
      [](const State& s, nb::handle n) {
        InUse use(s.core->in_use, kOp);
        s.core->impl->set_cached_tokens(read_int(n, kOp, "cached_tokens"));
      },
      nb::for_setter("n"_a.none()), nb::for_setter(nb::sig("def cached_tokens(self, n: int, /) -> None")),
      "Tokens consumed. Setting a smaller number forgets the newest; a larger one is refused.");
  cls.def_prop_rw(
      "k_cache", [](const State& s) { return cache(s, true); },
      [](const State& s, nb::handle a) { set_cache(s, a, true); }, nb::for_setter("buffer"_a.none()),
      nb::for_setter(nb::sig("def k_cache(self, buffer: typing.Any, /) -> None")),
      "The keys, flat, in the documented layout.");
  cls.def_prop_rw(
      "v_cache", [](const State& s) { return cache(s, false); },
      [](const State& s, nb::handle a) { set_cache(s, a, false); }, nb::for_setter("buffer"_a.none()),
      nb::for_setter(nb::sig("def v_cache(self, buffer: typing.Any, /) -> None")),
      "The values, flat, in the documented layout.");
  cls.def(
      "keys", [](const State& s) { return chronological(s, true); },
      "A copy of the visible keys in order: (batch, kv heads, min(cached_tokens, capacity), head_dim).");
  cls.def(
      "values", [](const State& s) { return chronological(s, false); }, "As keys(), for the values.");
  cls.def(
      "reset",
      [](const State& s) {
        InUse use(s.core->in_use, kOp);
        s.core->impl->reset();
        s.core->held.clear();
      },
      "Back to zero tokens.");
  cls.def(
      "__reduce__",
      [](nb::handle self) {
        return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(Py_TYPE(self.ptr()))),
                              constructor_arguments(nb::cast<const State&>(self)));
      },
      nb::sig("def __reduce__(self) -> typing.Any"));
  cls.def("__repr__", repr);
}

}  // namespace isobit::python

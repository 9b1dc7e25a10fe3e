// SPDX-License-Identifier: Apache-2.0
// isobit.Mamba1State, Mamba2State and Mamba3State.
#include <nanobind/stl/string.h>

#include <cstring>

#include "array.h"
#include "errors.h"
#include "input.h"
#include "instance.h"
#include "isobit/error.h"
#include "mamba.h"
#include "state.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {

template <int Version>
struct StateOf : MambaStateObject {};

}  // namespace isobit::python

template <int Version>
struct nanobind::detail::type_caster<isobit::python::StateOf<Version>>
    : isobit::python::InstanceCaster<isobit::python::StateOf<Version>> {};

namespace isobit::python {
namespace {

std::string op_of(int version) { return "Mamba" + std::to_string(version) + "State"; }
std::string op_of(const MambaCore& core) { return op_of(core.impl->shape().version); }

// float32 of the given rank.
StridedView read_part(nb::handle object, const std::string& op, const char* name, size_t rank) {
  StridedView view = require_array(object, op, name, DType::F32);
  bool positive = view.shape.size() == rank;
  for (const int64_t n : view.shape) positive = positive && n > 0;
  if (!positive)
    throw ValueError(
        message(op, name, "a non-empty array of " + std::to_string(rank) + " axes", shape_text(view.shape)));
  return view;
}

// The shape is checked before anything is copied.
void set_buffer(MambaCore& core, const std::string& name, const StridedView& given) {
  const std::vector<int64_t> wanted = core.impl->buffer_shape(name);
  if (given.shape != wanted)
    throw ValueError(message(op_of(core), name, "shape " + shape_text(wanted), shape_text(given.shape)));
  const StridedView view = made_contiguous(given);
  core.impl->set_buffer(name, {reinterpret_cast<const float*>(view.data), static_cast<size_t>(view.size())});
}

template <size_t N>
std::shared_ptr<MambaCore> make_core(const MambaShape& shape, int64_t batch, const char* const (&names)[N],
                                     const StridedView (&views)[N]) {
  auto core = std::make_shared<MambaCore>();
  core->impl = std::make_shared<isobit::MambaState>(shape, batch);
  for (size_t i = 0; i < N; ++i) set_buffer(*core, names[i], views[i]);
  return core;
}

std::shared_ptr<MambaCore> make1(nb::handle window, nb::handle h) {
  const StridedView views[] = {read_part(window, op_of(1), "conv_window", 3), read_part(h, op_of(1), "h", 3)};
  const auto &w = views[0].shape, &s = views[1].shape;
  return make_core(
      {.version = 1, .channels = s[1], .states = s[2], .conv_channels = s[1], .conv_width = w[2]}, s[0],
      {"conv_window", "h"}, views);
}

std::shared_ptr<MambaCore> make2(nb::handle window, nb::handle h) {
  const StridedView views[] = {read_part(window, op_of(2), "conv_window", 3), read_part(h, op_of(2), "h", 4)};
  const auto &w = views[0].shape, &s = views[1].shape;
  return make_core({.version = 2,
                    .channels = s[1] * s[2],
                    .states = s[3],
                    .conv_channels = w[1],
                    .conv_width = w[2],
                    .heads = s[1],
                    .head_dim = s[2]},
                   s[0], {"conv_window", "h"}, views);
}

std::shared_ptr<MambaCore> make3(nb::handle theta, nb::handle h, nb::handle k, nb::handle v) {
  const StridedView state = read_part(h, op_of(3), "h", 4), angles = read_part(theta, op_of(3), "theta", 3);
  const size_t axes = require_array(k, op_of(3), "k", DType::F32).shape.size() == 4 ? 4 : 3;
  const StridedView keys = read_part(k, op_of(3), "k", axes);
  const StridedView views[] = {angles, state, keys, read_part(v, op_of(3), "v", 3)};
  const auto& s = state.shape;
  return make_core({.version = 3,
                    .channels = s[1] * s[2],
                    .states = s[3],
                    .heads = s[1],
                    .head_dim = s[2],
                    .rank = axes == 4 ? keys.shape[1] : 1,
                    .angles = angles.shape[2]},
                   s[0], {"theta", "h", "k", "v"}, views);
}

Array get(const MambaStateObject& self, const std::string& name) {
  MambaCore& core = *self.core;
  InUse use(core.in_use, op_of(core));
  const auto buffer = core.impl->buffer(name);
  core.hold(buffer);
  StridedView view;
  view.shape = core.impl->buffer_shape(name);
  view.strides = contiguous_strides(view.shape, sizeof(float), false);
  view.data = reinterpret_cast<std::byte*>(buffer->data());
  view.keep = buffer;
  return Array::borrow(std::move(view));
}

void set(const MambaStateObject& self, const std::string& name, nb::handle object) {
  MambaCore& core = *self.core;
  InUse use(core.in_use, op_of(core));
  set_buffer(core, name, require_array(object, op_of(core), name, DType::F32));
}

MambaCore copy_core(const MambaCore& source) {
  InUse use(source.in_use, op_of(source));
  MambaCore copy;
  copy.impl = std::make_shared<isobit::MambaState>(source.impl->copy());
  return copy;
}

template <int Version, typename... Names>
void bind_version(nb::module_& m, const char* doc, const Names*... names) {
  using Object = StateOf<Version>;
  nb::class_<Object, MambaStateObject> cls(m, op_of(Version).c_str(), nb::type_slots(kNamesReadOnly), doc);
  if constexpr (Version == 3) {
    cls.def(
        "__init__",
        [](Object* self, nb::handle theta, nb::handle h, nb::handle k, nb::handle v) {
          new (self) Object{{make3(theta, h, k, v)}};
        },
        "theta"_a.none(), "h"_a.none(), "k"_a.none(), "v"_a.none(),
        nb::sig(
            "def __init__(self, theta: typing.Any, h: typing.Any, k: typing.Any, v: typing.Any) -> None"));
    cls.def(
        "set_input_states",
        [](const Object& self, nb::handle theta, nb::handle h, nb::handle k, nb::handle v) {
          const std::shared_ptr<MambaCore> given = make3(theta, h, k, v);
          if (given->impl->shape() != self.core->impl->shape() ||
              given->impl->batch_size() != self.core->impl->batch_size())
            throw ValueError(message(op_of(3), "theta, h, k, v", "the shapes of this state", "others"));
          InUse use(self.core->in_use, op_of(3));
          for (const std::string& name : given->impl->buffer_names())
            self.core->impl->set_buffer(name, *given->impl->buffer(name));
        },
        "theta"_a.none(), "h"_a.none(), "k"_a.none(), "v"_a.none(),
        nb::sig("def set_input_states(self, theta: typing.Any, h: typing.Any, k: typing.Any, v: typing.Any) "
                "-> None"),
        "Replaces all four buffers: what follows continues bit for bit from where they were taken.");
  } else {
    cls.def(
        "__init__",
        [](Object* self, nb::handle window, nb::handle h) {
          new (self) Object{{Version == 1 ? make1(window, h) : make2(window, h)}};
        },
        "conv_window"_a.none(), "h"_a.none(),
        nb::sig("def __init__(self, conv_window: typing.Any, h: typing.Any) -> None"));
  }
  const auto property = [&cls](const char* name) {
    const std::string setter = "def " + std::string(name) + "(self, buffer: typing.Any, /) -> None";
    cls.def_prop_rw(
        name, [name](const Object& s) { return get(s, name); },
        [name](const Object& s, nb::handle a) { set(s, name, a); }, nb::for_setter(nb::sig(setter.c_str())),
        nb::for_setter(nb::arg("buffer").none()));
  };
  (property(names), ...);
  cls.def("__copy__",
          [](const Object& s) { return Object{{std::make_shared<MambaCore>(copy_core(*s.core))}}; });
  cls.def(
      "__deepcopy__",
      [](const Object& s, nb::handle) { return Object{{std::make_shared<MambaCore>(copy_core(*s.core))}}; },
      "memo"_a, nb::sig(("def __deepcopy__(self, memo: typing.Any, /) -> " + op_of(Version)).c_str()));
}

constexpr const char* kRules =
    "\n\nThe buffers are shared memory, exact after every token: what is written into them is honoured by "
    "the "
    "next call, which\n"
    "also updates arrays that are still held. Arrays given to the constructor are copied. ValueError for "
    "shapes that do not\n"
    "fit each other or non-finite values; TypeError for another dtype than float32. Pickles byte for byte.";

}  // namespace

nb::object wrap_mamba_state(std::shared_ptr<MambaCore> core) {
  switch (core->impl->shape().version) {
    case 1:
      return nb::cast(StateOf<1>{{std::move(core)}});
    case 2:
      return nb::cast(StateOf<2>{{std::move(core)}});
    default:
      return nb::cast(StateOf<3>{{std::move(core)}});
  }
}

void bind_mamba_state(nb::module_& m) {
  nb::class_<MambaStateObject> base(m, "MambaState", nb::type_slots(kNamesReadOnly),
                                    "What the states of Mamba blocks share.");
  base.def_prop_ro("batch_size", [](const MambaStateObject& s) { return s.core->impl->batch_size(); });
  base.def(
      "tokens",
      [](const MambaStateObject& s) {
        nb::list counts;
        for (int64_t row = 0; row < s.core->impl->batch_size(); ++row)
          counts.append(s.core->impl->tokens(row));
        return counts;
      },
      nb::sig("def tokens(self) -> list[int]"), "Tokens each row has consumed since it was made or reset.");
  base.def(
      "reset",
      [](const MambaStateObject& s) {
        InUse use(s.core->in_use, op_of(*s.core));
        s.core->impl->reset();
        s.core->held.clear();
      },
      "Back to zeros.");
  base.def(
      "__reduce__",
      [](nb::handle self) {
        const auto& object = nb::cast<const MambaStateObject&>(self);
        nb::list parts;
        for (const std::string& name : object.core->impl->buffer_names())
          parts.append(nb::cast(Array::copy_of(get(object, name))));
        return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(Py_TYPE(self.ptr()))), nb::tuple(parts));
      },
      nb::sig("def __reduce__(self) -> typing.Any"));
  base.def("__repr__", [](const MambaStateObject& s) {
    std::string text = op_of(*s.core) + "(batch_size=" + std::to_string(s.core->impl->batch_size());
    for (const std::string& name : s.core->impl->buffer_names())
      text += ", " + name + "=" + shape_text(s.core->impl->buffer_shape(name));
    return text + ")";
  });
  const std::string one = std::string(
                              "conv_window (B, channels, width): the last inputs of the convolution, "
                              "oldest first; h (B, channels, states).") +
                          kRules;
  const std::string two = std::string(
                              "conv_window (B, channels of x, B and C, width): the last inputs of the "
                              "convolution, oldest first; h\n(B, heads, head_dim, states).") +
                          kRules;
  const std::string three =
      std::string(
          "theta (B, heads, angles), h (B, heads, head_dim, states), k (B, heads, states), or (B, rank, "
          "heads, states) where the\nrank is above 1: the last token's rotated key; v (B, heads, "
          "head_dim): its input.") +
      kRules;
  bind_version<1>(m, one.c_str(), "conv_window", "h");
  bind_version<2>(m, two.c_str(), "conv_window", "h");
  bind_version<3>(m, three.c_str(), "theta", "h", "k", "v");
}

}  // namespace isobit::python

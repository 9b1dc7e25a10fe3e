// SPDX-License-Identifier: Apache-2.0
// The compiled half of isobit.Mamba1Block, Mamba2Block and Mamba3Block, and their decode session. Keywords,
// modes and pickling are in python/isobit/mamba.py.
#include "mamba.h"

#include <nanobind/stl/string.h>

#include <cstring>

#include "errors.h"
#include "ids.h"
#include "input.h"
#include "isobit/error.h"
#include "state.h"
#include "transformer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

std::string op_of(const isobit::MambaBlock& block) {
  return "Mamba" + std::to_string(block.version()) + "Block";
}

MambaOptions read_version_options(int version, const nb::dict& d, const std::string& op) {
  const auto number = [&](const char* key) { return read_double(d[key], op, key); };
  const auto flag = [&](const char* key) { return read_bool(d[key], op, key); };
  if (version == 1)
    return Mamba1Options{.norm_eps = number("norm_eps"),
                         .inner_norm = flag("inner_norm"),
                         .inner_norm_eps = number("inner_norm_eps")};
  if (version == 2) {
    nb::object limit = d["dt_limit"];
    if (!PySequence_Check(limit.ptr()) || nb::len(limit) != 2)
      throw ValueError(message(op, "dt_limit", "a pair of numbers", class_name(limit)));
    return Mamba2Options{.norm_eps = number("norm_eps"),
                         .gated_norm_eps = number("gated_norm_eps"),
                         .n_groups = read_int(d["n_groups"], op, "n_groups"),
                         .dt_min = read_double(nb::object(limit[0]), op, "dt_limit"),
                         .dt_max = read_double(nb::object(limit[1]), op, "dt_limit"),
                         .norm_before_gate = flag("norm_before_gate"),
                         .grouped_norm = flag("grouped_norm")};
  }
  const std::string a = read_string(d["a_function"], op, "a_function");
  if (a != "heavy_tail" && a != "softplus")
    throw ValueError(message(op, "a_function", "'heavy_tail' or 'softplus'", "'" + a + "'"));
  return Mamba3Options{.norm_eps = number("norm_eps"),
                       .rope_fraction = number("rope_fraction"),
                       .heavy_tail = a == "heavy_tail",
                       .a_floor = number("a_floor")};
}

MambaOptions read_options(int version, const nb::dict& d, const std::string& op) {
  MambaOptions options = read_version_options(version, d, op);
  if (d.contains("weight_format"))
    set_weight_format(options, parse_weight_format(read_string(d["weight_format"], op, "weight_format")));
  return options;
}

nb::dict sizes(const isobit::MambaBlock& block) {
  const MambaShape& s = block.shape();
  nb::dict d;
  for (const auto& [name, value] : {std::pair{"d_model", block.d_model()},
                                    {"d_inner", s.channels},
                                    {"d_state", s.states},
                                    {"d_conv", s.conv_width},
                                    {"n_heads", s.heads},
                                    {"head_dim", s.head_dim},
                                    {"mimo_rank", s.rank},
                                    {"n_angles", s.angles}})
    d[name] = value;
  return d;
}

void refuse_open_session(const MambaCore& core, const std::string& op) {
  if (core.has_session)
    throw ValueError(message(op, "state", "a state without an open decode session",
                             "one with (step the session, or close it)"));
}

Array call(const MambaObject& self, nb::handle x, nb::handle state, nb::handle lengths, bool one_token) {
  const auto block = self.impl;  // another thread may set weights meanwhile
  const std::string op = op_of(*block);
  const std::shared_ptr<MambaCore> core = read_mamba_state(state, op, !one_token);
  if (core == nullptr) return run_mamba(*block, x, nullptr, lengths, one_token, op);
  InUse use(core->in_use, op);
  refuse_open_session(*core, op);
  return run_mamba(*block, x, core.get(), lengths, one_token, op);
}

nb::dict parameters(const MambaObject& self) {
  nb::dict result;
  for (const std::string& name : self.impl->weight_names()) {
    const std::vector<float> values = self.impl->weight(name);
    Array a = Array::empty(DType::F32, self.impl->weight_shape(name));
    std::memcpy(a.data, values.data(), static_cast<size_t>(a.nbytes()));
    result[name.c_str()] = nb::cast(std::move(a));
  }
  return result;
}

std::shared_ptr<const isobit::MambaBlock> build(nb::handle weights, int64_t version,
                                                const nb::dict& options) {
  const std::string op = "Mamba" + std::to_string(version) + "Block";
  const MambaOptions parsed = read_options(static_cast<int>(version), options, op);
  const Weights read = read_weights(weights, op);
  nb::gil_scoped_release release;
  return std::make_shared<const isobit::MambaBlock>(read.map, parsed);
}

class MambaSession {
 public:
  MambaSession(nb::handle block_object, nb::handle state_object) {
    if (!nb::isinstance<MambaObject>(block_object))
      throw TypeError(message(kOp, "block", "a Mamba block", class_name(block_object)));
    block_ = nb::cast<const MambaObject&>(block_object).impl;
    core_ = read_mamba_state(state_object, kOp, false);
    InUse use(core_->in_use, kOp);
    if (core_->impl->shape() != block_->shape())
      throw ValueError(message(kOp, "state", "a state with the sizes of the block", "other sizes"));
    if (core_->has_session)
      throw ValueError(message(kOp, "state", "a state without an open session", "one with"));
    state_object_ = nb::borrow(state_object);
    core_->has_session = true;
    open_ = true;
  }
  ~MambaSession() {
    if (open_) core_->has_session = false;
  }
  MambaSession(const MambaSession&) = delete;

  Array step(nb::handle x) {
    InUse use(opened().in_use, kOp);
    return run_mamba(*block_, x, core_.get(), nb::none(), true, kOp);
  }
  Array forward(nb::handle x) {
    InUse use(opened().in_use, kOp);
    return run_mamba(*block_, x, core_.get(), nb::none(), false, kOp);
  }
  // The session works in the state itself, so there is nothing to move either way.
  void sync() { InUse use(opened().in_use, kOp); }
  void close() {
    if (!open_) return;
    InUse use(core_->in_use, kOp);
    core_->has_session = false;
    open_ = false;
  }
  bool is_open() const { return open_; }
  nb::object state() const { return state_object_; }
  MambaCore& opened() {
    if (!open_) throw ValueError(message(kOp, "session", "an open session", "a closed one"));
    return *core_;
  }

 private:
  static constexpr const char* kOp = "MambaDecodeSession";
  std::shared_ptr<const isobit::MambaBlock> block_;
  std::shared_ptr<MambaCore> core_;
  nb::object state_object_;
  bool open_ = false;
};

void bind_mamba_session(nb::module_& m) {
  nb::class_<MambaSession> cls(
      m, "MambaDecodeSession",
      "Many steps on one state: ``with block.decode_session(state) as session: "
      "session.step(x)``. Outputs equal\n"
      "block.step and block.forward byte for byte. While it is open the session owns the "
      "state and uses the weights\n"
      "that the block had when it was opened.");
  cls.def(nb::init<nb::handle, nb::handle>(), "block"_a.none(), "state"_a.none(),
          nb::sig("def __init__(self, block: MambaBlock, state: MambaState) -> None"));
  cls.def("step", &MambaSession::step, "x"_a.none(), nb::sig("def step(self, x: typing.Any) -> Array"),
          "As block.step(x, state).");
  cls.def("forward", &MambaSession::forward, "x"_a.none(),
          nb::sig("def forward(self, x: typing.Any) -> Array"), "As block.forward(x, state).");
  cls.def("sync_state", &MambaSession::sync, "Makes the state's buffers current.");
  cls.def("load_state", &MambaSession::sync, "Takes over edits of the state's buffers.");
  cls.def("close", &MambaSession::close, "Gives the state back, current. Does nothing when closed already.");
  cls.def("discard", &MambaSession::close, "As close(): on the CPU the state is current anyway.");
  cls.def_prop_ro("is_open", &MambaSession::is_open);
  cls.def_prop_ro("state", &MambaSession::state, nb::sig("def state(self) -> MambaState"));
  cls.def(
      "__enter__",
      [](nb::handle self) {
        nb::cast<MambaSession&>(self).opened();
        return nb::borrow(self);
      },
      nb::sig("def __enter__(self) -> typing.Self"));
  cls.def(
      "__exit__", [](MambaSession& self, nb::args) { self.close(); },
      nb::sig("def __exit__(self, *exception: typing.Any) -> None"));
}

}  // namespace

nb::dict mamba_options_dict(const MambaOptions& options) {
  nb::dict d;
  if (const auto* one = std::get_if<Mamba1Options>(&options)) {
    d["norm_eps"] = one->norm_eps;
    d["inner_norm"] = one->inner_norm;
    d["inner_norm_eps"] = one->inner_norm_eps;
  } else if (const auto* two = std::get_if<Mamba2Options>(&options)) {
    d["norm_eps"] = two->norm_eps;
    d["gated_norm_eps"] = two->gated_norm_eps;
    d["n_groups"] = two->n_groups;
    d["dt_limit"] = nb::make_tuple(two->dt_min, two->dt_max);
    d["norm_before_gate"] = two->norm_before_gate;
    d["grouped_norm"] = two->grouped_norm;
  } else {
    const auto& three = std::get<Mamba3Options>(options);
    d["norm_eps"] = three.norm_eps;
    d["rope_fraction"] = three.rope_fraction;
    d["a_function"] = three.heavy_tail ? "heavy_tail" : "softplus";
    d["a_floor"] = three.a_floor;
  }
  return d;
}

Array run_mamba(const isobit::MambaBlock& block, nb::handle x, MambaCore* state, nb::handle lengths,
                bool one_token, const std::string& op) {
  StridedView view = require_float32_view(x, op, "x");
  const std::vector<int64_t> shape = view.shape;
  const std::string d = std::to_string(block.d_model());
  const bool flat = one_token && shape.size() == 2;
  if ((shape.size() != 3 && !flat) || shape[0] < 1 || shape.back() != block.d_model() ||
      (!flat && (shape[1] < 1 || (one_token && shape[1] != 1))))
    throw ValueError(message(op, "x",
                             one_token ? "shape (B, " + d + ") or (B, 1, " + d + ") with B >= 1"
                                       : "shape (B, L, " + d + ") with B, L >= 1",
                             shape_text(shape)));
  view = made_contiguous(std::move(view));
  std::vector<int64_t> rows;
  if (!lengths.is_none()) {
    rows = read_ids(lengths, op, "lengths", 1, 1).values;
    if (static_cast<int64_t>(rows.size()) != shape[0])
      throw ValueError(
          message(op, "lengths", std::to_string(shape[0]) + " entries", std::to_string(rows.size())));
  }
  Array out = Array::empty(DType::F32, shape);
  {
    nb::gil_scoped_release release;
    block.forward(reinterpret_cast<const float*>(view.data), shape[0], flat ? 1 : shape[1],
                  reinterpret_cast<float*>(out.data), state ? state->impl.get() : nullptr, rows);
  }
  if (state != nullptr) state->held.clear();
  return out;
}

void bind_mamba(nb::module_& m) {
  nb::class_<MambaObject> cls(m, "MambaBlock", "The compiled half of the Mamba blocks.");
  cls.def(
      "__init__",
      [](MambaObject* self, nb::handle weights, int64_t version, const nb::dict& options) {
        new (self) MambaObject{build(weights, version, options)};
      },
      "weights"_a.none(), "version"_a, "options"_a,
      nb::sig("def __init__(self, weights: collections.abc.Mapping[str, typing.Any], version: int, options: "
              "dict[str, typing.Any]) -> None"));
  cls.def(
      "__init__", [](MambaObject* self, const MambaObject& other) { new (self) MambaObject(other); },
      "other"_a, nb::sig("def __init__(self, other: MambaBlock) -> None"));
  cls.def(
      "_replace", [](MambaObject& self, const MambaObject& other) { self.impl = other.impl; }, "other"_a,
      "Takes the weights and options of another block.");
  for (const char* name : {"forward", "__call__"}) {
    const std::string sig = "def " + std::string(name) +
                            "(self, x: typing.Any, state: MambaState | None = None, *, lengths: typing.Any = "
                            "None) -> Array";
    cls.def(
        name,
        [](const MambaObject& self, nb::handle x, nb::handle state, nb::handle lengths) {
          return call(self, x, state, lengths, false);
        },
        "x"_a.none(), "state"_a.none() = nb::none(), nb::kw_only(), "lengths"_a.none() = nb::none(),
        nb::sig(sig.c_str()),
        "x: (B, L, d_model) float32 -> hidden states of the same shape. With a state the tokens continue it; "
        "without, they\n"
        "begin. lengths: B integers in 1..L; outputs past a row's length are +0, a row's state ends at its "
        "own "
        "length, and\n"
        "all else equals the row alone, bit for bit. TypeError for another dtype, ValueError for a wrong "
        "shape, "
        "a state that\n"
        "does not fit or non-finite values, all before any work.");
  }
  cls.def(
      "step",
      [](const MambaObject& self, nb::handle x, nb::handle state) {
        return call(self, x, state, nb::none(), true);
      },
      "x"_a.none(), "state"_a.none(), nb::sig("def step(self, x: typing.Any, state: MambaState) -> Array"),
      "One token a row: x (B, d_model) or (B, 1, d_model) float32 -> the same shape; the bits that forward "
      "gives.");
  cls.def(
      "allocate_state",
      [](const MambaObject& self, nb::handle batch_size) {
        auto core = std::make_shared<MambaCore>();
        core->in_use = std::make_shared<bool>(false);
        core->impl = std::make_shared<isobit::MambaState>(
            self.impl->allocate_state(read_int(batch_size, op_of(*self.impl), "batch_size")));
        return wrap_mamba_state(std::move(core));
      },
      "batch_size"_a.none(), nb::sig("def allocate_state(self, batch_size: int) -> typing.Any"),
      "A state of zeros.");
  cls.def("parameters", parameters, nb::sig("def parameters(self) -> dict[str, Array]"),
          "Float32 copies of the weights by name, exactly as given or as their stored form widens.");
  cls.def(
      "_options", [](const MambaObject& self) { return mamba_options_dict(self.impl->options()); },
      nb::sig("def _options(self) -> dict[str, typing.Any]"));
  cls.def(
      "_sizes", [](const MambaObject& self) { return sizes(*self.impl); },
      nb::sig("def _sizes(self) -> dict[str, int]"));
  cls.def_prop_ro(
      "weight_format",
      [](const MambaObject& self) { return to_string(weight_format_of(self.impl->options())); },
      "In which format the projections are kept.");
  cls.def_prop_ro("_version", [](const MambaObject& self) { return self.impl->version(); });
  bind_mamba_session(m);
}

}  // namespace isobit::python

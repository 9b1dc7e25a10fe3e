// SPDX-License-Identifier: Apache-2.0
// isobit.transformer.TransformerDecodeSession and the base of isobit.mamba's sessions: a block's weights as
// they are at open, and sole ownership of one state until close. On the CPU both are shared, not copied, so
// that nothing has to be moved on sync.
#include "session.h"

#include "errors.h"
#include "input.h"
#include "instance.h"
#include "isobit/error.h"
#include "mamba.h"
#include "transformer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {

template <class Block>
class Session;

}  // namespace isobit::python

template <class Block>
struct nanobind::detail::type_caster<isobit::python::Session<Block>>
    : isobit::python::InstanceCaster<isobit::python::Session<Block>> {};

namespace isobit::python {
namespace {

struct Names {
  const char* session;
  const char* block;  // as messages call one
};
constexpr Names names_of(const isobit::TransformerBlock*) {
  return {"TransformerDecodeSession", "a TransformerBlock"};
}
constexpr Names names_of(const isobit::MambaBlock*) { return {"MambaDecodeSession", "a Mamba block"}; }

void match(const char* what, int64_t of_block, int64_t of_state) {
  if (of_block != of_state)
    throw ValueError(message("TransformerDecodeSession", "state",
                             std::string(what) + " " + std::to_string(of_block) + " as the block has",
                             std::to_string(of_state)));
}

void check_fits(const isobit::TransformerBlock& block, const isobit::TransformerState& state) {
  const TransformerOptions& options = block.options();
  match("window", options.window, state.window());
  match("n_kv_heads", options.n_kv_heads.value_or(options.n_heads), state.n_kv_heads());
  match("head_dim", options.head_dim.value_or(state.head_dim()), state.head_dim());
  if (state.cached_tokens() > 0 && state.numeric_profile() != options.numeric_profile)
    throw ValueError(
        message("TransformerDecodeSession", "state",
                std::string("numeric_profile ") + to_string(options.numeric_profile) + " as the block has",
                to_string(state.numeric_profile())));
}

void check_fits(const isobit::MambaBlock& block, const isobit::MambaState& state) {
  if (block.shape() != state.shape())
    throw ValueError(
        message("MambaDecodeSession", "state", "a state with the sizes of the block", "other sizes"));
}

}  // namespace

template <class Block>
class Session {
 public:
  static constexpr Names kNames = names_of(static_cast<const Block*>(nullptr));

  Session(nb::handle block_object, nb::handle state_object) {
    using Object = BlockObject<Block>;
    if (!nb::isinstance<Object>(block_object))
      throw TypeError(message(kOp, "block", kNames.block, class_name(block_object)));
    block_ = nb::cast<const Object&>(block_object).impl;
    core_ = read_state<Block>(state_object, kOp, false);
    InUse use(core_->in_use, kOp);
    check_fits(*block_, *core_->impl);
    if (core_->has_session)
      throw ValueError(message(kOp, "state", "a state without an open session", "one with"));
    state_object_ = nb::borrow(state_object);
    core_->has_session = true;
    open_ = true;
  }
  ~Session() {
    if (open_) core_->has_session = false;
  }
  Session(const Session&) = delete;

  Array run(nb::handle x, bool one_token) {
    InUse use(opened().in_use, kOp);
    return python::run<Block>(*block_, x, core_.get(), nb::none(), one_token, kOp);
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
  CarriedBy<Block>& opened() {
    if (!open_) throw ValueError(message(kOp, "session", "an open session", "a closed one"));
    return *core_;
  }

 private:
  static constexpr const char* kOp = kNames.session;
  std::shared_ptr<const Block> block_;
  std::shared_ptr<CarriedBy<Block>> core_;
  nb::object state_object_;
  bool open_ = false;
};

namespace {

constexpr const char* kDoc =
    "Many steps on one state: ``with block.decode_session(state) as session: session.step(x)``.\n\n"
    "Outputs equal block.step and block.forward byte for byte. While it is open the session owns the state "
    "(the block\n"
    "refuses it, a second session is refused) and uses the weights that the block had when it was opened. "
    "Not for two\n"
    "threads at once: a call during another call is a ValueError. After an edit of the state's buffers call "
    "load_state();\n"
    "call sync_state() before reading them. ValueError for a closed session or a state that does not fit the "
    "block.";

// `block` and `state`: the classes in signatures.
template <class Block>
void bind(nb::module_& m, const std::string& block, const std::string& state) {
  using Class = Session<Block>;
  nb::class_<Class> cls(m, Class::kNames.session, nb::type_slots(kNamesReadOnly), kDoc);
  cls.def(
      "__init__", [](Class* self, nb::handle block, nb::handle state) { new (self) Class(block, state); },
      "block"_a.none(), "state"_a.none(),
      nb::sig(("def __init__(self, block: " + block + ", state: " + state + ") -> None").c_str()));
  cls.def(
      "step", [](Class& self, nb::handle x) { return self.run(x, true); }, "x"_a.none(),
      nb::sig("def step(self, x: typing.Any) -> Array"), "As block.step(x, state).");
  cls.def(
      "forward", [](Class& self, nb::handle x) { return self.run(x, false); }, "x"_a.none(),
      nb::sig("def forward(self, x: typing.Any) -> Array"), "As block.forward(x, state).");
  cls.def("sync_state", &Class::sync, "Makes the state's buffers current.");
  cls.def("load_state", &Class::sync, "Takes over edits of the state's buffers.");
  cls.def("close", &Class::close, "Gives the state back, current. Does nothing when closed already.");
  cls.def("discard", &Class::close,
          "Gives the state up without a sync_state(). On the CPU the state is current anyway.");
  cls.def_prop_ro("is_open", &Class::is_open);
  cls.def_prop_ro("state", &Class::state, nb::sig(("def state(self) -> " + state).c_str()));
  cls.def(
      "__enter__",
      [](nb::handle self) {
        nb::cast<Class&>(self).opened();
        return nb::borrow(self);
      },
      nb::sig("def __enter__(self) -> typing.Self"));
  cls.def(
      "__exit__", [](Class& self, nb::args) { self.close(); },
      nb::sig("def __exit__(self, *exception: typing.Any) -> None"));
}

}  // namespace

void bind_session(nb::module_& m) {
  bind<isobit::TransformerBlock>(m, "TransformerBlock", "TransformerState");
  bind<isobit::MambaBlock>(m, "MambaBlock", "MambaState");
}

}  // namespace isobit::python

// SPDX-License-Identifier: Apache-2.0
// isobit.transformer.TransformerDecodeSession: a block's weights as they are at open, and sole ownership of
// one state until close. On the CPU both are shared, not copied, so that nothing has to be moved on sync.
#include "session.h"

#include "errors.h"
#include "input.h"
#include "isobit/error.h"
#include "state.h"
#include "transformer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace isobit::python {
namespace {

constexpr const char* kOp = "TransformerDecodeSession";

void match(const char* what, int64_t of_block, int64_t of_state) {
  if (of_block != of_state) {
    throw ValueError(message(kOp, "state",
                             std::string(what) + " " + std::to_string(of_block) + " as the block has",
                             std::to_string(of_state)));
  }
}

class Session {
 public:
  Session(nb::handle block_object, nb::handle state_object) {
    if (!nb::isinstance<Block>(block_object) || !nb::inst_ready(block_object))
      throw TypeError(message(kOp, "block", "a TransformerBlock", class_name(block_object)));
    block_ = nb::cast<const Block&>(block_object).impl;
    read_state(state_object, kOp, false);
    core_ = nb::cast<const State&>(state_object).core;
    InUse use(core_->in_use, kOp);
    const TransformerOptions& options = block_->options();
    match("window", options.window, core_->impl->window());
    match("n_kv_heads", options.n_kv_heads.value_or(options.n_heads), core_->impl->n_kv_heads());
    match("head_dim", options.head_dim.value_or(core_->impl->head_dim()), core_->impl->head_dim());
    if (core_->impl->cached_tokens() > 0 && core_->impl->numeric_profile() != options.numeric_profile)
      throw ValueError(
          message(kOp, "state",
                  std::string("numeric_profile ") + to_string(options.numeric_profile) + " as the block has",
                  to_string(core_->impl->numeric_profile())));
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

  Array step(nb::handle x) {
    InUse use(opened().in_use, kOp);
    return run_step(*block_, x, *core_, kOp);
  }
  Array forward(nb::handle x) {
    InUse use(opened().in_use, kOp);
    return run_forward(*block_, x, core_.get(), nb::none(), kOp);
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
  StateCore& opened() {
    if (!open_) throw ValueError(message(kOp, "session", "an open session", "a closed one"));
    return *core_;
  }

 private:
  std::shared_ptr<const isobit::TransformerBlock> block_;
  std::shared_ptr<StateCore> core_;
  nb::object state_object_;
  bool open_ = false;
};

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

}  // namespace

void bind_session(nb::module_& m) {
  nb::class_<Session> cls(m, "TransformerDecodeSession", kDoc);
  cls.def(nb::init<nb::handle, nb::handle>(), "block"_a.none(), "state"_a.none(),
          nb::sig("def __init__(self, block: TransformerBlock, state: TransformerState) -> None"));
  cls.def("step", &Session::step, "x"_a.none(), nb::sig("def step(self, x: typing.Any) -> Array"),
          "As block.step(x, state).");
  cls.def("forward", &Session::forward, "x"_a.none(), nb::sig("def forward(self, x: typing.Any) -> Array"),
          "As block.forward(x, state).");
  cls.def("sync_state", &Session::sync, "Makes the state's buffers current.");
  cls.def("load_state", &Session::sync, "Takes over edits of the state's buffers.");
  cls.def("close", &Session::close, "Gives the state back, current. Does nothing when closed already.");
  cls.def("discard", &Session::close,
          "Gives the state up without a sync_state(). On the CPU the state is current anyway.");
  cls.def_prop_ro("is_open", &Session::is_open);
  cls.def_prop_ro("state", &Session::state, nb::sig("def state(self) -> TransformerState"));
  cls.def(
      "__enter__",
      [](nb::handle self) {
        nb::cast<Session&>(self).opened();
        return nb::borrow(self);
      },
      nb::sig("def __enter__(self) -> TransformerDecodeSession"));
  cls.def(
      "__exit__", [](Session& self, nb::args) { self.close(); },
      nb::sig("def __exit__(self, *exception: typing.Any) -> None"));
}

}  // namespace isobit::python

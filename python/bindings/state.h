// SPDX-License-Identifier: Apache-2.0
// The state of a block as Python holds it: who is using it, and the documented buffers that Python has looked
// at.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "instance.h"
#include "isobit/transformer_state.h"

namespace isobit::python {

template <class State>
struct Carried {
  std::shared_ptr<State> impl;                                   // may be a layer of a CausalLMState
  std::shared_ptr<bool> in_use = std::make_shared<bool>(false);  // shared by the layers of a CausalLMState
  bool has_session = false;
  // What the buffers' properties handed out since the last call, so that an edit made through a temporary is
  // still there for the next call to read.
  std::vector<std::shared_ptr<std::vector<float>>> held;

  void hold(const std::shared_ptr<std::vector<float>>& buffer) {
    if (std::find(held.begin(), held.end(), buffer) == held.end()) held.push_back(buffer);
  }
};

/// The Python object; the states of the three versions of Mamba derive from one.
template <class State>
struct StateObject {
  std::shared_ptr<Carried<State>> core;
};

using StateCore = Carried<isobit::TransformerState>;
using State = StateObject<isobit::TransformerState>;

/// Marks a state as being used by one call; a second call at the same time (another thread, a callback) is a
/// ValueError.
class InUse {
 public:
  InUse(std::shared_ptr<bool> flag, const std::string& op);
  ~InUse() { *flag_ = false; }
  InUse(const InUse&) = delete;

 private:
  std::shared_ptr<bool> flag_;
};

void bind_state(nanobind::module_& m);

}  // namespace isobit::python

template <class State>
struct nanobind::detail::type_caster<isobit::python::StateObject<State>>
    : isobit::python::InstanceCaster<isobit::python::StateObject<State>> {};

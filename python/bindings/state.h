// SPDX-License-Identifier: Apache-2.0
// A TransformerState as Python holds it: who is using it, and the documented buffers that Python has looked
// at.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "isobit/transformer_state.h"

namespace isobit::python {

struct StateCore {
  std::shared_ptr<isobit::TransformerState> impl;  // may be a layer of a CausalLMState that it keeps alive
  std::shared_ptr<bool> in_use;                    // shared by the layers of one CausalLMState
  bool has_session = false;
  // What k_cache and v_cache handed out since the last call. Held here so that an edit made through a
  // temporary is still there for the next call to read.
  std::shared_ptr<std::vector<float>> k_buffer, v_buffer;
};

/// The Python class isobit.TransformerState.
struct State {
  std::shared_ptr<StateCore> core;
};

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

/// The state behind a Python argument; TypeError for another class. `none_allowed`: nullptr for None.
StateCore* read_state(nanobind::handle object, const std::string& op, bool none_allowed);

void bind_state(nanobind::module_& m);

}  // namespace isobit::python

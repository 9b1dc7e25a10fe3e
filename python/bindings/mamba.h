// SPDX-License-Identifier: Apache-2.0
// Mamba blocks and their states as Python holds them.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "array.h"
#include "isobit/mamba_block.h"
#include "isobit/mamba_state.h"

namespace isobit::python {

struct MambaCore {
  std::shared_ptr<isobit::MambaState> impl;  // may be a layer of a CausalLMState that it keeps alive
  std::shared_ptr<bool> in_use;              // shared by the layers of one CausalLMState
  bool has_session = false;
  // What the buffers' properties handed out since the last call, so that an edit made through a temporary is
  // still there for the next call to read.
  std::vector<std::shared_ptr<std::vector<float>>> held;
};

/// What the Python classes Mamba1State, Mamba2State and Mamba3State share.
struct MambaStateObject {
  std::shared_ptr<MambaCore> core;
};

/// The base class of isobit.Mamba1Block and its like.
struct MambaObject {
  std::shared_ptr<const isobit::MambaBlock> impl;
};

/// A core as an object of its version's class.
nanobind::object wrap_mamba_state(std::shared_ptr<MambaCore> core);
/// The state behind a Python argument; TypeError for another class. `none_allowed`: nullptr for None.
std::shared_ptr<MambaCore> read_mamba_state(nanobind::handle object, const std::string& op,
                                            bool none_allowed);

/// The keywords of a block's class.
nanobind::dict mamba_options_dict(const MambaOptions& options);

/// x: [B, L, d_model], or with `one_token` [B, d_model] or [B, 1, d_model], float32 -> the same shape. The
/// caller holds the state in use.
Array run_mamba(const isobit::MambaBlock& block, nanobind::handle x, MambaCore* state,
                nanobind::handle lengths, bool one_token, const std::string& op);

void bind_mamba_state(nanobind::module_& m);
void bind_mamba(nanobind::module_& m);

}  // namespace isobit::python

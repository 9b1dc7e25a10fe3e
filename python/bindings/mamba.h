// SPDX-License-Identifier: Apache-2.0
// Mamba blocks and their states as Python holds them.
#pragma once

#include <nanobind/nanobind.h>

#include <limits>
#include <memory>
#include <string>

#include "block.h"
#include "isobit/mamba_block.h"
#include "isobit/mamba_state.h"
#include "state.h"

namespace isobit::python {

using MambaCore = Carried<isobit::MambaState>;
using MambaStateObject = StateObject<isobit::MambaState>;
using MambaObject = BlockObject<isobit::MambaBlock>;

template <>
struct BlockKind<isobit::MambaBlock> {
  using State = isobit::MambaState;
  static constexpr const char* kState = "a state of a Mamba block";
  static std::string op(const isobit::MambaBlock& block) {
    return "Mamba" + std::to_string(block.version()) + "Block";
  }
  static int64_t longest(const isobit::MambaBlock&) { return std::numeric_limits<int64_t>::max(); }
};

/// A core as an object of its version's class.
nanobind::object wrap_mamba_state(std::shared_ptr<MambaCore> core);

/// The keywords of a block's class.
nanobind::dict mamba_options_dict(const MambaOptions& options);

void bind_mamba_state(nanobind::module_& m);
void bind_mamba(nanobind::module_& m);

}  // namespace isobit::python

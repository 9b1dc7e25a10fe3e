// SPDX-License-Identifier: Apache-2.0
// A TransformerBlock as Python holds it.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "block.h"
#include "isobit/transformer_block.h"
#include "state.h"

namespace isobit::python {

using TransformerObject = BlockObject<isobit::TransformerBlock>;

template <>
struct BlockKind<isobit::TransformerBlock> {
  using State = isobit::TransformerState;
  static constexpr const char* kState = "a TransformerState";
  static std::string op(const isobit::TransformerBlock&) { return "TransformerBlock"; }
  static int64_t longest(const isobit::TransformerBlock& block) { return block.options().max_positions; }
};

void bind_transformer(nanobind::module_& m);

}  // namespace isobit::python

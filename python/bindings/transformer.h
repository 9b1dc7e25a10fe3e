// SPDX-License-Identifier: Apache-2.0
// A TransformerBlock as Python holds it, and the one way in which Python runs it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "array.h"
#include "isobit/transformer_block.h"
#include "state.h"

namespace isobit::python {

/// The base class of isobit.TransformerBlock. Replaced as a whole when weights or options are set, so that a
/// session that is open keeps what it was opened with.
struct Block {
  std::shared_ptr<const isobit::TransformerBlock> impl;
};

/// {name: array-like} -> views, which the returned holders keep alive.
struct Weights {
  WeightMap map;
  std::vector<std::shared_ptr<void>> keep;
};
Weights read_weights(nanobind::handle dict, const std::string& op);

/// x: [B, L, d_model] float32 -> the same shape. `state` may be null; the caller holds it in use.
Array run_forward(const isobit::TransformerBlock& block, nanobind::handle x, StateCore* state,
                  nanobind::handle lengths, const std::string& op);
/// x: [B, d_model] or [B, 1, d_model] -> the same shape.
Array run_step(const isobit::TransformerBlock& block, nanobind::handle x, StateCore& state,
               const std::string& op);

void bind_transformer(nanobind::module_& m);

}  // namespace isobit::python

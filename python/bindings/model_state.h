// SPDX-License-Identifier: Apache-2.0
// A CausalLMState as Python holds it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "isobit/causal_lm.h"
#include "mamba.h"
#include "state.h"

namespace isobit::python {

/// The parts that a layer's state has; null: not there.
struct LayerCores {
  std::shared_ptr<StateCore> attention;
  std::shared_ptr<MambaCore> mamba;
};

struct ModelState {
  ModelState(std::shared_ptr<const isobit::CausalLM> of, int64_t batch_size, int64_t max_tokens);

  std::shared_ptr<const isobit::CausalLM> model;  // alive, so that no later model can be taken for it
  std::shared_ptr<isobit::CausalLMState> impl;
  std::shared_ptr<bool> in_use;
  std::vector<LayerCores> layers;

  /// After a call that read the edits of the layers' documented buffers.
  void release_buffers();
};

/// The state behind a Python argument. TypeError for another class, ValueError when a layer has an open
/// session; nullptr for None where that is allowed.
ModelState* read_model_state(nanobind::handle object, const std::string& op, bool none_allowed);

void bind_model_state(nanobind::module_& m);

}  // namespace isobit::python

template <>
struct nanobind::detail::type_caster<isobit::python::ModelState>
    : isobit::python::InstanceCaster<isobit::python::ModelState> {};

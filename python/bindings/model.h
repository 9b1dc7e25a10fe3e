// SPDX-License-Identifier: Apache-2.0
// CausalLM and CausalLMState as Python classes.
#pragma once

#include <nanobind/nanobind.h>

namespace isobit::python {

void bind_model(nanobind::module_& m);

}  // namespace isobit::python

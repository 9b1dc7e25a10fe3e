// SPDX-License-Identifier: Apache-2.0
// HFConfig, plan_for and ModelPlan as Python classes.
#pragma once

#include <nanobind/nanobind.h>

namespace isobit::python {

void bind_plan(nanobind::module_& m);

}  // namespace isobit::python

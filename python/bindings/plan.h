// SPDX-License-Identifier: Apache-2.0
// HFConfig, plan_for and ModelPlan as Python classes.
#pragma once

#include <nanobind/nanobind.h>

#include "instance.h"
#include "isobit/model_plan.h"

namespace isobit::python {

void bind_plan(nanobind::module_& m);

}  // namespace isobit::python

template <>
struct nanobind::detail::type_caster<isobit::ModelPlan> : isobit::python::InstanceCaster<isobit::ModelPlan> {
};
template <>
struct nanobind::detail::type_caster<isobit::HFConfig> : isobit::python::InstanceCaster<isobit::HFConfig> {};

// SPDX-License-Identifier: Apache-2.0
// isobit.self_test and isobit.measure.
#pragma once

#include <nanobind/nanobind.h>

namespace isobit::python {

void bind_diagnostics(nanobind::module_& m);

}  // namespace isobit::python

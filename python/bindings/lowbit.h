// SPDX-License-Identifier: Apache-2.0
// The arithmetic of stored weights for isobit.lowbit.
#pragma once

#include <nanobind/nanobind.h>

namespace isobit::python {

void bind_lowbit(nanobind::module_& m);

}  // namespace isobit::python

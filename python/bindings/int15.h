// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace isobit::python {

void bind_int15(nanobind::module_& m);

}  // namespace isobit::python

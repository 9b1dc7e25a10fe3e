// SPDX-License-Identifier: Apache-2.0
// Process-wide functions: instruction sets, threads, versions, and Ctrl-C in long calls.
#pragma once

#include <nanobind/nanobind.h>

namespace isobit::python {

void bind_runtime(nanobind::module_& m);

}  // namespace isobit::python

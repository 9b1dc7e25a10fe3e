// SPDX-License-Identifier: Apache-2.0
// SafetensorsFile, Checkpoint and write_safetensors as Python classes.
#pragma once

#include <nanobind/nanobind.h>

namespace isobit::python {

void bind_checkpoint(nanobind::module_& m);

}  // namespace isobit::python

// SPDX-License-Identifier: Apache-2.0
// isobit.transformer.TransformerDecodeSession and the base of isobit.mamba's sessions.
#pragma once

#include <nanobind/nanobind.h>

namespace isobit::python {

void bind_session(nanobind::module_& m);

}  // namespace isobit::python

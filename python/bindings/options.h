// SPDX-License-Identifier: Apache-2.0
// Constructor keywords of a block <-> TransformerOptions.
#pragma once

#include <nanobind/nanobind.h>

#include "isobit/transformer_options.h"

namespace isobit::python {

/// Keywords by their documented names; TypeError for a wrong kind, ValueError for a name or choice that does
/// not exist.
TransformerOptions read_options(const nanobind::dict& keywords);
/// Every keyword, with the defaults filled in as far as `options` has them.
nanobind::dict options_dict(const TransformerOptions& options);

}  // namespace isobit::python

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "array.h"

namespace isobit::python {

/// The argument `out`: nothing for None, else a writable row-major float32 array of this shape.
std::optional<StridedView> read_out(nanobind::handle object, const std::string& op,
                                    const std::vector<int64_t>& shape);
/// The result, or `object` filled with it.
nanobind::object deliver(Array&& result, nanobind::handle object, const std::optional<StridedView>& out);

void bind_linalg(nanobind::module_& m);

}  // namespace isobit::python

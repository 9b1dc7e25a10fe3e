// SPDX-License-Identifier: Apache-2.0
// How the library's exceptions become Python's.
#pragma once

#include <string>

namespace isobit::python {

/// isobit::ValueError -> ValueError, UnsupportedModel -> isobit.models.UnsupportedModel, and so on.
void register_errors();

/// "[op] argument: expected ..., got ..."
std::string message(const std::string& op, const std::string& argument, const std::string& expected,
                    const std::string& got);

}  // namespace isobit::python

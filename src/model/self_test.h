// SPDX-License-Identifier: Apache-2.0
// The stages of self_test() that are kernels, for any table.
#pragma once

#include <vector>

#include "isobit/diagnostics.h"
#include "kernels/table.h"

namespace isobit {

std::vector<StageDigest> test_kernels(const kernels::KernelTable& table);

}  // namespace isobit

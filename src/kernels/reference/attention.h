// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/table.h"

namespace isobit::kernels::reference {

int64_t attention(const AttentionArgs& args);

}  // namespace isobit::kernels::reference

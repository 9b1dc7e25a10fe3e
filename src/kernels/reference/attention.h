// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/table.h"

namespace isobit::kernels::reference {

int64_t attention(const AttentionArgs& args);
void attention_join(const AttentionArgs& args, int64_t blocks);

}  // namespace isobit::kernels::reference

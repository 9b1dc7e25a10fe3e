// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/table.h"
namespace isobit::kernels::reference {
float exp_ref(float x);
float tanh_ref(float x);
float silu_ref(float x);
float gelu_ref(float x);
float gelu_tanh_ref(float x);
float unary_ref(Unary kind, float x);
}  // namespace isobit::kernels::reference

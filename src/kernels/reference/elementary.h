// SPDX-License-Identifier: Apache-2.0
// The functions of one number (contract 5, formulas and error bounds in docs/functions.md), one number at a
// time: what every instruction set must equal bit for bit. A NaN gives a NaN.
#pragma once

#include "kernels/table.h"

namespace isobit::kernels::reference {

float exp_ref(float x);
float log_ref(float x);
float log1p_ref(float x);
float expm1_ref(float x);
float tanh_ref(float x);
float erf_ref(float x);
float erfc_ref(float x);
float sigmoid_ref(float x);
float softplus_ref(float x);
float silu_ref(float x);
float gelu_ref(float x);       ///< x Phi(x), the erf form
float gelu_tanh_ref(float x);  ///< its tanh approximation
float sin_ref(float x);        ///< |x| <= 2^31, else NaN
float cos_ref(float x);        ///< |x| <= 2^31, else NaN
float relu_ref(float x);

/// The function that `kind` names.
float unary_ref(Unary kind, float x);

}  // namespace isobit::kernels::reference

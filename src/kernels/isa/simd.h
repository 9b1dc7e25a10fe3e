// SPDX-License-Identifier: Apache-2.0
// The 16-lane type of the instruction set being compiled (README.md beside this file).
#pragma once

#include ISOBIT_SIMD_HEADER

// SPDX-License-Identifier: Apache-2.0
// ISOBIT_INLINE: every function of the 16-lane types is inlined, so that no copy compiled for one instruction
// set can be called from code compiled for another, and a value never travels through memory.
#pragma once

#define ISOBIT_INLINE [[gnu::always_inline]] inline

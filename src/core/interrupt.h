// SPDX-License-Identifier: Apache-2.0
// Lets a host abandon long work (Ctrl-C in Python): the check set by set_interrupt_check may throw.
#pragma once

namespace isobit {

void check_interrupt();

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Constants of Mamba 3's angles (contract 7b.4).
#pragma once

namespace isobit::kernels {

constexpr float kHalfTurn = 0x1.921fb6p+1f;  // pi, rounded
constexpr float kTurnHi = 0x1.921fb6p+2f;    // 2 pi, rounded
constexpr float kTurnLo = -0x1.777a5cp-23f;  // what that leaves out, rounded
constexpr float kTurnLimit = 8.0f;           // above every remainder of an angle that still has a fraction

}  // namespace isobit::kernels

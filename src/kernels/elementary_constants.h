// SPDX-License-Identifier: Apache-2.0
// The constants of the functions of one number (docs/functions.md), shared by the reference and the fast
// kernels.
#pragma once

namespace isobit::kernels {

constexpr float kInfinity = __builtin_inff();

// 1.5 * 2^23: adding it leaves a number of magnitude below 2^22 rounded to nearest even in the low bits.
constexpr float kRoundMagic = 0x1.8p23f;

constexpr float kExpMin = -0x1.5d589ep+6f;  // below: exp is +0
constexpr float kExpMax = 89.0f;            // from here on: exp is inf
constexpr float kLog2E = 0x1.715476p+0f;
constexpr float kLn2Hi = 0x1.62e4p-1f;  // 15 bits: n * kLn2Hi is exact
constexpr float kLn2Lo = 0x1.7f7d1cp-20f;
constexpr float kExp[] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f, 0x1.1239d6p-7f,
                          0x1.6a2446p-10f};  // r^2 .. r^6

}  // namespace isobit::kernels

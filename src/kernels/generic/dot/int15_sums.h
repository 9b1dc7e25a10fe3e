// SPDX-License-Identifier: Apache-2.0
// Exact dot products of 15-bit codes, rounded once to binary32 (contract 7c.1), for a register tile: lanes
// run over outputs, a 32-bit word of a lane holds two neighbouring k.
#pragma once

#include "kernels/isa/simd.h"
#include "kernels/table.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

/// sums[r][v] = float of the sum over 2*pairs k of codes[r][k] * w[v][k]. Row r begins at codes + r*ld;
/// w[v] is [pairs] words of 16 outputs, `step` int16 apart.
template <int ROWS, int VECS>
ISOBIT_INLINE void int15_sums(const int16_t* codes, int64_t ld, const int16_t* const* w, int64_t step,
                              int64_t pairs, f32x16 (&sums)[ROWS][VECS]) {
  // Eight products of 2^28 at most fit int32; then their halves of 16 bits go into two sums, which hold
  // 8192 of them.
  constexpr int64_t kGroup = 4;
  constexpr int64_t kAhead = ROWS <= 2 ? 512 : 4096;  // int16; near where few rows wait for memory
  i32x16 high[ROWS][VECS], low[ROWS][VECS];
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECS; ++v) high[r][v] = low[r][v] = broadcast_i(0);
  const auto add_group = [&](int64_t begin, int64_t count) __attribute__((always_inline)) {
    i32x16 acc[ROWS][VECS];
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECS; ++v) acc[r][v] = broadcast_i(0);
    for (int64_t i = begin; i < begin + count; ++i) {
      i32x16 words[VECS];
      for (int v = 0; v < VECS; ++v) {
        words[v] = load_words(w[v] + i * step);
        prefetch_l2(w[v] + i * step + kAhead);
      }
      for (int r = 0; r < ROWS; ++r) {
        int32_t pair;
        __builtin_memcpy(&pair, codes + r * ld + 2 * i, sizeof pair);
        for (int v = 0; v < VECS; ++v) acc[r][v] = dot_pairs(acc[r][v], words[v], broadcast_i(pair));
      }
    }
    for (int r = 0; r < ROWS; ++r)
      for (int v = 0; v < VECS; ++v) {
        high[r][v] = high[r][v] + sar<16>(acc[r][v]);
        low[r][v] = low[r][v] + (acc[r][v] & broadcast_i(0xffff));
      }
  };
  int64_t i = 0;
  for (; i + kGroup <= pairs; i += kGroup) add_group(i, kGroup);
  if (i < pairs) add_group(i, pairs - i);
  for (int r = 0; r < ROWS; ++r)
    for (int v = 0; v < VECS; ++v) sums[r][v] = to_f32_wide(high[r][v], low[r][v]);
}

ISOBIT_INLINE i32x16 limit(i32x16 n, int32_t low, int32_t high) {
  const i32x16 above = select(broadcast_i(low) > n, broadcast_i(low), n);
  return select(above > broadcast_i(high), broadcast_i(high), above);
}

/// f * 2^e with one rounding, for f = 0 or 1 <= |f| <= 2^44: the first product is exact, or overflows as the
/// result does; below 2^-252 nothing is left but the sign.
ISOBIT_INLINE f32x16 times_power_of_two(f32x16 f, i32x16 e) {
  const auto power = [](i32x16 n) { return bitcast_f(shl<23>(n + broadcast_i(127))); };
  const i32x16 first = limit(e, -126, 127);
  return f * power(first) * power(limit(e - first, -126, 127));
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

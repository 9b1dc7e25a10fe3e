// SPDX-License-Identifier: Apache-2.0
// The functions of one number (docs/functions.md): every instruction set equals the reference bit for bit,
// the bits are the recorded ones, and the recorded worst inputs have the recorded errors.
#include "kernels/reference/elementary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/table.h"

namespace isobit::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

const char* const kNames[] = {"exp",      "log",  "log1p", "expm1",     "tanh", "erf", "erfc", "sigmoid",
                              "softplus", "silu", "gelu",  "gelu_tanh", "sin",  "cos", "relu"};
static_assert(std::size(kNames) == static_cast<size_t>(Unary::kCount));

uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
/// All NaNs are alike: none of them leaves the library.
uint32_t comparable(float x) { return std::isnan(x) ? 0x7fc00000u : bits_of(x); }

/// 2^22 numbers evenly over all bit patterns, and the neighbourhoods of where sequences change.
std::vector<float> dense_sample() {
  std::vector<float> x;
  for (uint64_t i = 0; i < (uint64_t{1} << 32); i += 1021) x.push_back(float_of(static_cast<uint32_t>(i)));
  for (float centre : {0.0f,
                       0x1p-126f,
                       0x1p-30f,
                       0.25f,
                       0.5f,
                       0.7f,
                       0x1.921fb6p-1f,
                       0.9f,
                       1.0f,
                       2.0f,
                       9.5f,
                       10.0f,
                       10.06f,
                       18.0f,
                       87.33654f,
                       88.0f,
                       88.722839f,
                       89.0f,
                       128.0f,
                       32768.0f,
                       8388608.0f,
                       0x1p24f,
                       0x1p31f,
                       0x1p126f,
                       0x1p127f,
                       std::numeric_limits<float>::max(),
                       kInf}) {
    for (int d = -40; d <= 40; ++d) {
      const uint32_t near = bits_of(centre) + static_cast<uint32_t>(d);
      x.push_back(float_of(near));
      x.push_back(float_of(near ^ 0x80000000u));
    }
  }
  return x;
}

TEST(Elementary, EveryTableEqualsTheReference) {
  const std::vector<float> x = dense_sample();
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<float> expected(x.size()), y(x.size());
  for (int kind = 0; kind < static_cast<int>(Unary::kCount); ++kind) {
    for (int64_t i = 0; i < n; ++i) expected[i] = reference::unary_ref(static_cast<Unary>(kind), x[i]);
    for (const KernelTable* table : available_tables()) {
      table->unary(static_cast<Unary>(kind), x.data(), n, y.data());
      int64_t differing = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (comparable(y[i]) == comparable(expected[i])) continue;
        if (differing++ == 0) {
          ADD_FAILURE() << kNames[kind] << " on " << table->isa << " at " << std::hexfloat << x[i]
                        << ": expected " << expected[i] << ", got " << y[i];
        }
      }
      EXPECT_EQ(differing, 0) << kNames[kind] << " on " << table->isa;
    }
  }
}

}  // namespace
}  // namespace isobit::kernels

// SPDX-License-Identifier: Apache-2.0
// Operands for kernel tests, and the loop over every table.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "core/fp_env.h"
#include "kernels/table.h"
#include "support/bits.h"
#include "support/guarded.h"
#include "support/random.h"

namespace isobit::testing {

/// Where rounding, overflow and the sign of zero show.
enum class Values { kNormal, kHuge, kTiny, kSignedZeros, kCancelling, kMixed };
inline const std::vector<Values>& all_values() {
  static const std::vector<Values> kinds = {Values::kNormal,      Values::kHuge,       Values::kTiny,
                                            Values::kSignedZeros, Values::kCancelling, Values::kMixed};
  return kinds;
}

inline float draw(Values kind, Random& random) {
  const float x = random.unit();
  switch (kind) {
    case Values::kNormal:
      return x;
    case Values::kHuge:
      return x * 3e38f;
    case Values::kTiny:  // subnormals, and numbers whose products are
      return random.coin() ? x * 0x1p-130f : x * 0x1p-70f;
    case Values::kSignedZeros:
      return random.in(0, 3) != 0 ? (random.coin() ? 0.0f : -0.0f) : x;
    case Values::kCancelling:  // few magnitudes of either sign: partial sums meet zero exactly
      return static_cast<float>(random.in(-2, 2)) * 0.5f;
    case Values::kMixed:
      return draw(static_cast<Values>(random.in(0, 4)), random);
  }
  return x;
}

inline std::vector<float> draw_n(Values kind, int64_t n, Random& random) {
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = draw(kind, random);
  return x;
}

/// What outputs hold before a call: wherever it is still there, nothing was written.
constexpr float kCanary = -7.25e11f;

/// check(table) for every table of this CPU, in the library's floating-point environment.
template <typename Check>
void each_table(const Check& check) {
  const FpEnv environment;
  for (const kernels::KernelTable* table : kernels::available_tables()) {
    SCOPED_TRACE(table->isa);
    check(*table);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace isobit::testing

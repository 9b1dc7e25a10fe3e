// SPDX-License-Identifier: Apache-2.0
// Comparing results bit for bit, and running under every instruction set and thread count.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "isobit/runtime.h"

namespace isobit::testing {

inline uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
inline float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }
/// All NaNs are alike: none of them leaves the library.
inline uint32_t comparable(float x) { return std::isnan(x) ? 0x7fc00000u : bits_of(x); }

/// Equal bytes; any NaN equals any other, since no NaN ever leaves the library.
inline ::testing::AssertionResult same_bits(std::span<const float> got, std::span<const float> expected) {
  if (got.size() != expected.size())
    return ::testing::AssertionFailure() << got.size() << " values instead of " << expected.size();
  for (size_t i = 0; i < got.size(); ++i) {
    if (comparable(got[i]) == comparable(expected[i])) continue;
    return ::testing::AssertionFailure() << std::hexfloat << "index " << i << " of " << got.size() << ": "
                                         << got[i] << " instead of " << expected[i];
  }
  return ::testing::AssertionSuccess();
}

/// ISOBIT_LONG_TESTS=1 widens the sweeps.
inline bool long_tests() {
  const char* value = std::getenv("ISOBIT_LONG_TESTS");
  return value && std::string(value) == "1";
}

/// Gives back the instruction set and the thread count that were in use.
class RestoreRuntime {
 public:
  RestoreRuntime() : isa_(active_isa()), threads_(num_threads()) {}
  ~RestoreRuntime() {
    set_isa(isa_);
    set_num_threads(threads_);
  }
  RestoreRuntime(const RestoreRuntime&) = delete;
  RestoreRuntime& operator=(const RestoreRuntime&) = delete;

 private:
  std::string isa_;
  int threads_;
};

/// body() under every instruction set, each with one and with three threads.
template <typename Body>
void on_every_isa(const Body& body) {
  const RestoreRuntime restore;
  for (const std::string& isa : available_isas())
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(isa + ", " + std::to_string(threads) + " threads");
      set_isa(isa);
      set_num_threads(threads);
      body();
    }
}

}  // namespace isobit::testing

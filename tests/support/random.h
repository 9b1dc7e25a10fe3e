// SPDX-License-Identifier: Apache-2.0
// Seeded draws for tests: the same on every machine, so that a failure can be run again.
#pragma once

#include <cstdint>
#include <vector>

#include "model/synthetic.h"

namespace isobit::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}

  uint64_t bits() { return synthetic::hash(seed_, count_++); }
  /// lo..hi, both included.
  int64_t in(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(bits() % static_cast<uint64_t>(hi - lo + 1));
  }
  bool coin() { return (bits() & 1) != 0; }
  template <typename T>
  const T& pick(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(in(0, static_cast<int64_t>(choices.size()) - 1))];
  }
  /// In [-1, 1).
  float unit() { return synthetic::value(seed_, count_++); }
  std::vector<float> units(int64_t n, float scale = 1.0f) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = unit() * scale;
    return x;
  }
  /// Positive parts of a whole.
  std::vector<int64_t> parts(int64_t whole, int64_t longest) {
    std::vector<int64_t> out;
    for (int64_t left = whole; left > 0; left -= out.back())
      out.push_back(in(1, left < longest ? left : longest));
    return out;
  }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

}  // namespace isobit::testing

// SPDX-License-Identifier: Apache-2.0
// Whether this machine computes the bits that every machine must compute, and how fast it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isobit {

/// One stage of the arithmetic on fixed operands: the digest it must have, and the one it had here.
struct StageDigest {
  std::string stage;
  std::string expected;
  std::string got;
};

/// Runs every stage with the active instruction set, from single functions to a decoder block, so that the
/// first stage that differs says where to look.
std::vector<StageDigest> self_test();

struct Speed {
  double bandwidth_gb_per_second = 0.0;  ///< reading a large array, all threads
  double gflop_per_second = 0.0;         ///< matrix products within the caches, all threads
};

/// Takes about a second.
Speed measure();

/// What one kind of operation took since profiling was switched on, over all layers and calls.
struct StageTime {
  std::string stage;  ///< "attention"; matrix products with the shape of their weight: "linear 1536 x 576"
  double seconds = 0.0;
  int64_t calls = 0;
  double flop = 0.0;  ///< of matrix products and attention
};

/// Starts (from zero) or stops the collection.
void set_profiling(bool on);
std::vector<StageTime> profile();

}  // namespace isobit

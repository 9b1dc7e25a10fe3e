// SPDX-License-Identifier: Apache-2.0
// Whether this machine computes the bits that every machine must compute, and how fast it is.
#pragma once

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

}  // namespace isobit

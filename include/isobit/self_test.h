// SPDX-License-Identifier: Apache-2.0
// Whether this machine computes the bits that every machine must compute, and how fast it is.
#pragma once

#include <string>
#include <vector>

namespace isobit {

/// One stage of the arithmetic on fixed operands: the SHA-256 that its result must have and the one it had
/// here.
struct StageResult {
  std::string stage;     ///< "exp", "matrix product", "block: window", "model: llama", ...
  std::string expected;  ///< 64 hexadecimal digits, committed with the version of the contract
  std::string got;
  bool ok;
};

/// Every stage with the active instruction set and threads, in the order of data flow: functions, kernels,
/// one block for every option, one model of every family. The first that differs says where to look. A second
/// or so.
std::vector<StageResult> self_test();

struct MachineRates {
  double read_gb_per_s;    ///< reading an array larger than the caches, all threads
  double fma_gflop_per_s;  ///< matrix products within the caches, all threads
  int threads;
};

/// Measures for about half a second.
MachineRates measure();

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Where a model's time goes, by operation. With ISOBIT_PROFILE=1 in the environment everything is collected
// from the start, and what is left of it when the process ends is printed to stderr.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isobit {

/// What one kind of operation took since profiling was switched on, over all layers and calls.
struct StageTime {
  std::string stage;  ///< "attention"; matrix products with the shape of their weight: "linear 1536 x 576"
  double seconds = 0.0;
  int64_t calls = 0;
  double flop = 0.0;  ///< of matrix products
};

/// Starts (from zero) or stops the collection.
void set_profiling(bool on);
std::vector<StageTime> profile();

/// One line a stage, the longest first: its part of the time, calls, and GFLOP/s where it counts them.
std::string profile_table(std::vector<StageTime> stages);

}  // namespace isobit

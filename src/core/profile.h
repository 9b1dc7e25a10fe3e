// SPDX-License-Identifier: Apache-2.0
// Where the time goes: each operation times itself while profiling is on, and costs one branch while it is
// off.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace isobit {

class StageTimer {
 public:
  /// `name`: of the operation; a matrix product also says its weight's shape. `flop`: multiplies and adds.
  explicit StageTimer(const char* name, int64_t n = 0, int64_t k = 0, double flop = 0)
      : name_(enabled.load(std::memory_order_relaxed) ? name : nullptr), n_(n), k_(k), flop_(flop) {
    if (name_) begin_ = Clock::now();
  }
  ~StageTimer() {
    if (name_) record();
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

  static std::atomic<bool> enabled;

 private:
  using Clock = std::chrono::steady_clock;
  void record() const;

  const char* name_;
  int64_t n_, k_;
  double flop_;
  Clock::time_point begin_;
};

}  // namespace isobit

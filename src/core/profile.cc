// SPDX-License-Identifier: Apache-2.0
#include "core/profile.h"

#include <map>
#include <mutex>
#include <string>

#include "isobit/profile.h"

namespace isobit {
namespace {

std::mutex mutex;
std::map<std::string, StageTime>& times() {
  static std::map<std::string, StageTime> map;
  return map;
}

}  // namespace

std::atomic<bool> StageTimer::enabled{false};

void StageTimer::record() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  std::string stage = name_;
  if (n_ > 0) stage.append(" ").append(std::to_string(n_)).append(" x ").append(std::to_string(k_));
  const std::lock_guard lock(mutex);
  StageTime& t = times()[stage];
  t.stage = stage;
  t.seconds += seconds;
  t.calls += 1;
  t.flop += flop_;
}

void set_profiling(bool on) {
  const std::lock_guard lock(mutex);
  times().clear();
  StageTimer::enabled = on;
}

std::vector<StageTime> profile() {
  const std::lock_guard lock(mutex);
  std::vector<StageTime> result;
  for (const auto& [stage, time] : times()) result.push_back(time);
  return result;
}

}  // namespace isobit

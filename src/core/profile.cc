// SPDX-License-Identifier: Apache-2.0
#include "core/profile.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

double seconds_of(const std::vector<StageTime>& stages) {
  double sum = 0.0;
  for (const StageTime& t : stages) sum += t.seconds;
  return sum;
}

void print_profile() {
  const std::vector<StageTime> stages = profile();
  if (stages.empty()) return;
  std::fprintf(stderr, "isobit: where %.3f s of computing went\n%s", seconds_of(stages),
               profile_table(stages).c_str());
}

// Runs before main, where nothing may throw.
bool asked_for() {
  const char* text = std::getenv("ISOBIT_PROFILE");
  if (text == nullptr || *text == '\0' || std::strcmp(text, "0") == 0) return false;
  if (std::strcmp(text, "1") != 0) {
    std::fprintf(stderr, "isobit: [ISOBIT_PROFILE] expected 0 or 1, got '%s': not profiling\n", text);
    return false;
  }
  times();  // lives until after print_profile, because it was made before
  std::atexit(print_profile);
  return true;
}

}  // namespace

std::atomic<bool> StageTimer::enabled{asked_for()};

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

std::string profile_table(std::vector<StageTime> stages) {
  const auto longer = [](const StageTime& a, const StageTime& b) { return a.seconds > b.seconds; };
  std::stable_sort(stages.begin(), stages.end(), longer);
  const double all = seconds_of(stages);
  std::string table;
  for (const StageTime& t : stages) {
    char figures[96], rate[48] = "";
    const double part = all > 0.0 ? 100.0 * t.seconds / all : 0.0;
    std::snprintf(figures, sizeof figures, "%6.1f%%%10lld calls", part, static_cast<long long>(t.calls));
    if (t.flop > 0.0 && t.seconds > 0.0)
      std::snprintf(rate, sizeof rate, "%9.1f GFLOP/s", t.flop / t.seconds * 1e-9);
    std::string stage = t.stage;
    stage.resize(std::max<size_t>(stage.size(), 24), ' ');
    table.append("    ").append(stage).append(figures).append(rate).append("\n");
  }
  return table;
}

}  // namespace isobit

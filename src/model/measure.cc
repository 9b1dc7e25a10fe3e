// SPDX-License-Identifier: Apache-2.0
// The two speeds that bound a language model: reading memory (decode) and multiply-adds (prefill).
#include <algorithm>
#include <chrono>

#include "backends/cpu/thread_pool.h"
#include "core/aligned_buffer.h"
#include "core/fp_env.h"
#include "isobit/self_test.h"
#include "kernels/table.h"

namespace isobit {
namespace {

/// The best of a few rounds, in units of work a second.
template <typename Work>
double best_rate(double work_per_call, const Work& work) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kRound = std::chrono::milliseconds(50);
  double best = 0.0;
  work();
  for (int round = 0; round < 5; ++round) {
    const Clock::time_point begin = Clock::now();
    double done = 0.0;
    Clock::duration elapsed{};
    do {
      work();
      done += work_per_call;
      elapsed = Clock::now() - begin;
    } while (elapsed < kRound);
    best = std::max(best, done / std::chrono::duration<double>(elapsed).count());
  }
  return best;
}

double read_rate() {
  constexpr int64_t kUnits = 256, kFloatsPerUnit = 1 << 18;  // 256 MiB: more than the caches hold
  AlignedBuffer memory(kUnits * kFloatsPerUnit);
  std::fill_n(memory.data(), kUnits * kFloatsPerUnit, 1.0f);
  const kernels::KernelTable& table = kernels::active_table();
  return best_rate(4.0 * kUnits * kFloatsPerUnit, [&] {
    cpu::parallel_for(kUnits, [&](int64_t i) {
      table.first_nonfinite(memory.data() + i * kFloatsPerUnit, kFloatsPerUnit);
    });
  });
}

double multiply_add_rate() {
  constexpr int64_t kRows = 64, kInner = 256, kCols = 64;
  const int64_t units = 8 * cpu::thread_count();
  AlignedBuffer a(kRows * kInner), panels(kInner * kCols), out(units * kRows * kCols);
  const kernels::KernelTable& table = kernels::active_table();
  return best_rate(2.0 * kRows * kInner * kCols * static_cast<double>(units), [&] {
    cpu::parallel_for(units, [&](int64_t i) {
      table.matmul(a.data(), kInner, kRows, panels.data(), kInner, kCols, nullptr,
                   out.data() + i * kRows * kCols, kCols);
    });
  });
}

}  // namespace

MachineRates measure() {
  const FpEnv environment;
  return {.read_gb_per_s = read_rate() * 1e-9,
          .fma_gflop_per_s = multiply_add_rate() * 1e-9,
          .threads = cpu::thread_count()};
}

}  // namespace isobit

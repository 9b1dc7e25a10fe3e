// SPDX-License-Identifier: Apache-2.0
// The kernels alone, one thread, on the shapes of real layers: GFLOP/s, percent of the FMA rate measured
// here, and GB/s of weights. ISOBIT_ISA chooses the instruction set.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/fp_env.h"
#include "kernels/table.h"

namespace isobit {
namespace {

using kernels::KernelTable;

void fill(float* x, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = static_cast<float>(static_cast<int32_t>(seed >> 8)) * 0x1p-23f - 1.0f;
  }
}

/// FMA rate of one thread in GFLOP/s: the matrix product on operands that stay in the first-level cache.
double peak() {
  static const double rate = [] {
    constexpr int64_t kRows = 12, kCols = 32, kK = 128;
    AlignedBuffer a(kRows * kK), w(kCols * kK), c(kRows * kCols);
    fill(a.data(), a.size(), 1);
    fill(w.data(), w.size(), 2);
    const KernelTable& table = kernels::active_table();
    double best = 0;
    for (int round = 0; round < 20; ++round) {
      timespec begin, end;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
      for (int i = 0; i < 2000; ++i)
        table.matmul(a.data(), kK, kRows, w.data(), kK, kCols, nullptr, c.data(), kCols);
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
      const double s = static_cast<double>(end.tv_sec - begin.tv_sec) +
                       1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
      best = std::max(best, 2.0 * kRows * kCols * kK * 2000 / s * 1e-9);
    }
    return best;
  }();
  return rate;
}

void report(benchmark::State& state, double flop, double bytes) {
  const double n = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(flop * n * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(bytes * n * 1e-9, benchmark::Counter::kIsRate);
  state.counters["peak"] = benchmark::Counter(flop * n * 1e-9 / peak(), benchmark::Counter::kIsRate);
}

void matmul(benchmark::State& state) {
  const FpEnv environment;
  const int64_t n = state.range(0), k = state.range(1), m = state.range(2);
  AlignedBuffer a(m * k), w((n + 31) / 32 * 32 * k), c(m * n);
  fill(a.data(), a.size(), 1);
  fill(w.data(), w.size(), 2);
  const KernelTable& table = kernels::active_table();
  for (auto _ : state) table.matmul(a.data(), k, m, w.data(), k, n, nullptr, c.data(), n);
  report(state, 2.0 * static_cast<double>(m * n * k), 4.0 * static_cast<double>(n * k));
}

void attention(benchmark::State& state) {
  const FpEnv environment;
  const int64_t length = state.range(0), hd = state.range(1), group = state.range(2), n_pos = state.range(3);
  const KernelTable& table = kernels::active_table();
  AlignedBuffer q(n_pos * group * hd), k((length + 15) / 16 * 16 * hd), v((length + 15) / 16 * 16 * hd),
      out(n_pos * group * hd), scratch(table.attention_scratch(hd));
  fill(q.data(), q.size(), 1);
  fill(k.data(), k.size(), 2);
  fill(v.data(), v.size(), 3);
  const auto run = [&](int64_t pos0) {
    table.attention({.q = q.data(),
                     .ldq = group * hd,
                     .k = k.data(),
                     .v = v.data(),
                     .slots = (length + 15) / 16 * 16,
                     .head_dim = hd,
                     .group = group,
                     .pos0 = pos0,
                     .n_pos = n_pos,
                     .window = 0,
                     .scale = 0.125f,
                     .softcap = 0.0f,
                     .out = out.data(),
                     .ldo = group * hd,
                     .scratch = scratch.data()});
  };
  double flop = 0;
  const int64_t first = n_pos == 1 ? length - 1 : 0;
  for (int64_t p = first; p < length; ++p) flop += 4.0 * static_cast<double>((p + 1) * hd * group);
  for (auto _ : state)
    for (int64_t p = first; p < length; p += n_pos) run(p);
  report(state, flop, n_pos == 1 ? 8.0 * static_cast<double>(length * hd) : 0.0);
}

void shapes(benchmark::internal::Benchmark* b) {
  const std::pair<int64_t, int64_t> layers[] = {
      {960, 576},   {576, 576},   {3072, 576},   {576, 1536},     // SmolLM2-135M
      {4096, 1024}, {1024, 2048}, {6144, 1024},  {1024, 3072},    // Qwen3-0.6B
      {6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};  // Llama-3-8B
  for (const auto& [n, k] : layers)
    for (const int64_t m : {1, 4, 8, 16, 64, 512}) b->Args({n, k, m});
}

BENCHMARK(matmul)->ArgNames({"N", "K", "M"})->Apply(shapes);
BENCHMARK(attention)
    ->ArgNames({"L", "head_dim", "group", "n_pos"})
    ->Args({512, 64, 3, 16})
    ->Args({4096, 64, 3, 16})
    ->Args({4096, 128, 2, 24})
    ->Args({2048, 64, 3, 1})
    ->Args({2048, 128, 2, 1});

}  // namespace
}  // namespace isobit

BENCHMARK_MAIN();

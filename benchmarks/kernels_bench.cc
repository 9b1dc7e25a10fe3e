// SPDX-License-Identifier: Apache-2.0
// The kernels alone, one thread, on the shapes of real layers: GFLOP/s and GB/s of weights, and their parts
// of the multiply-add and memory rates measured here. ISOBIT_ISA chooses the instruction set.
// openblas_bench.cc and onednn_bench.cc add the same products by those libraries where CMake finds them.
#include "kernels_bench.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "core/aligned_buffer.h"
#include "core/fp_env.h"
#include "isobit/runtime.h"
#include "isobit/self_test.h"
#include "kernels/table.h"
#include "ops/linear.h"

namespace isobit::bench {

void fill(float* x, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = static_cast<float>(static_cast<int32_t>(seed >> 8)) * 0x1p-23f - 1.0f;
  }
}

void layer_shapes(benchmark::internal::Benchmark* b) {
  const std::pair<int64_t, int64_t> layers[] = {
      {960, 576},   {576, 576},   {3072, 576},   {576, 1536},     // SmolLM2-135M
      {4096, 1024}, {1024, 2048}, {6144, 1024},  {1024, 3072},    // Qwen3-0.6B
      {6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};  // Llama-3-8B
  b->ArgNames({"N", "K", "M"});
  for (const auto& [n, k] : layers)
    for (const int64_t m : {1, 4, 8, 16, 64, 512}) b->Args({n, k, m});
}

namespace {

struct Peak {
  double gflop, gbyte;
};

const Peak& peak() {
  static const Peak most = [] {
    const std::string isa = active_isa();
    set_num_threads(1);
    return Peak{fma_peak(isa.starts_with("avx512") ? 64 : isa == "avx2" ? 32 : 16), measure().read_gb_per_s};
  }();
  return most;
}

}  // namespace

void report(benchmark::State& state, double flop, double bytes) {
  const auto rate = [&](double work) {
    return benchmark::Counter(work * static_cast<double>(state.iterations()) * 1e-9,
                              benchmark::Counter::kIsRate);
  };
  state.counters["GFLOP/s"] = rate(flop);
  state.counters["GB/s"] = rate(bytes);
  state.counters["of_fma_peak"] = rate(flop / peak().gflop);
  state.counters["of_read_rate"] = rate(bytes / peak().gbyte);
}

void report_product(benchmark::State& state) {
  const double nk = static_cast<double>(state.range(0) * state.range(1));
  report(state, 2.0 * nk * static_cast<double>(state.range(2)), 4.0 * nk);
}

namespace {

using kernels::KernelTable;

void matmul(benchmark::State& state) {
  const FpEnv environment;
  const int64_t n = state.range(0), k = state.range(1), m = state.range(2);
  AlignedBuffer a(m * k), w((n + 31) / 32 * 32 * k), c(m * n);
  fill(a.data(), a.size(), 1);
  fill(w.data(), w.size(), 2);
  fill(c.data(), c.size(), 3);  // its pages too are there when the clock starts
  const KernelTable& table = kernels::active_table();
  for (auto _ : state) table.matmul(a.data(), k, m, w.data(), k, n, nullptr, c.data(), n);
  report_product(state);
}

/// Weights in fewer bits: the whole product, activations quantized and results checked as in a model.
void stored(benchmark::State& state, WeightFormat format, NumericProfile profile) {
  const FpEnv environment;
  const int64_t n = state.range(0), k = state.range(1), m = state.range(2);
  AlignedBuffer a(m * k), w(n * k), c(m * n);
  fill(a.data(), a.size(), 1);
  fill(w.data(), w.size(), 2);
  fill(c.data(), c.size(), 3);  // its pages too are there when the clock starts
  const TensorView view{DType::F32, {n, k}, reinterpret_cast<const std::byte*>(w.data())};
  const std::string name = "w";
  const PackedMatrix packed = ops::pack({&view, 1}, {&name, 1}, "bench", format, profile);
  set_num_threads(1);
  for (auto _ : state) ops::linear(a.data(), k, m, packed, nullptr, c.data(), n);
  report(state, 2.0 * static_cast<double>(n * k * m), static_cast<double>(packed.bytes()));
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

BENCHMARK(matmul)->Name("isobit")->Apply(layer_shapes);
BENCHMARK_CAPTURE(stored, bfloat16, WeightFormat::kBfloat16, NumericProfile::kFp32V1)->Apply(layer_shapes);
BENCHMARK_CAPTURE(stored, int8, WeightFormat::kInt8, NumericProfile::kFp32V1)->Apply(layer_shapes);
BENCHMARK_CAPTURE(stored, fixed15_v1, WeightFormat::kFloat32, NumericProfile::kFixed15V1)
    ->Apply(layer_shapes);
BENCHMARK_CAPTURE(stored, int8x32_v1, WeightFormat::kFloat32, NumericProfile::kInt8x32V1)
    ->Apply(layer_shapes);
BENCHMARK(attention)
    ->ArgNames({"L", "head_dim", "group", "n_pos"})
    ->Args({512, 64, 3, 16})
    ->Args({4096, 64, 3, 16})
    ->Args({4096, 128, 2, 24})
    ->Args({2048, 64, 3, 1})
    ->Args({2048, 128, 2, 1});

/// Libraries read these when they are loaded, so the program starts once more where they are not as wanted:
/// one thread, and the kernels that the CPU allows, or AVX2 for everybody.
void restart_with_wanted_environment(char** argv) {
  const char* isa = std::getenv("ISOBIT_ISA");
  const bool avx2 = isa != nullptr && std::string(isa) == "avx2";
  const std::pair<const char*, const char*> wanted[] = {{"OMP_NUM_THREADS", "1"},
                                                        {"OPENBLAS_NUM_THREADS", "1"},
                                                        {"OPENBLAS_L2_SIZE", nullptr},
                                                        {"OPENBLAS_CORETYPE", avx2 ? "Zen" : nullptr},
                                                        {"ONEDNN_MAX_CPU_ISA", avx2 ? "AVX2" : nullptr}};
  bool changed = false;
  for (const auto& [name, value] : wanted) {
    const char* now = std::getenv(name);
    if (now == nullptr ? value == nullptr : value != nullptr && std::string(now) == value) continue;
    changed = true;
    if (value != nullptr)
      setenv(name, value, 1);
    else
      unsetenv(name);
  }
  if (changed) execv("/proc/self/exe", argv);
}

}  // namespace
}  // namespace isobit::bench

int main(int argc, char** argv) {
  isobit::bench::restart_with_wanted_environment(argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}

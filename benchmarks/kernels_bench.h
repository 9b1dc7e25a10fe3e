// SPDX-License-Identifier: Apache-2.0
// What the kernel benchmarks share: operands, the shapes of real layers, and the figures of a row.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>

namespace isobit::bench {

/// Numbers in [-1, 1), the same on every call.
void fill(float* x, int64_t n, uint32_t seed);

/// {N, K, M} of the matrix products of SmolLM2-135M, Qwen3-0.6B and Llama-3-8B.
void layer_shapes(benchmark::internal::Benchmark* b);

/// GFLOP/s and GB/s, and both as parts of what one thread of this machine does at most.
void report(benchmark::State& state, double flop, double bytes);
/// The same for an [M, K] by [N, K] product, whose weights are what it reads.
void report_product(benchmark::State& state);

/// Multiply-adds of one thread in GFLOP/s, in registers alone. `lane_bytes`: width of its vectors.
double fma_peak(int lane_bytes);

}  // namespace isobit::bench

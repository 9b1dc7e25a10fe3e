// SPDX-License-Identifier: Apache-2.0
// The products of kernels_bench.cc by OpenBLAS: sgemm on the weights as checkpoints hold them, [N, K].
#include <cblas.h>

#include "core/aligned_buffer.h"
#include "kernels_bench.h"

namespace isobit::bench {
namespace {

void openblas(benchmark::State& state) {
  const int64_t n = state.range(0), k = state.range(1), m = state.range(2);
  AlignedBuffer a(m * k), w(n * k), c(m * n);
  fill(a.data(), a.size(), 1);
  fill(w.data(), w.size(), 2);
  fill(c.data(), c.size(), 3);  // its pages too are there when the clock starts
  const auto run = [&](int rows, int outputs, int inner) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, outputs, inner, 1.0f, a.data(), inner,
                w.data(), inner, 0.0f, c.data(), outputs);
  };
  for (auto _ : state) run(static_cast<int>(m), static_cast<int>(n), static_cast<int>(k));
  report_product(state);
}

BENCHMARK(openblas)->Apply(layer_shapes);

}  // namespace
}  // namespace isobit::bench

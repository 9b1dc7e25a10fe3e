// SPDX-License-Identifier: Apache-2.0
// The products of kernels_bench.cc by oneDNN: its matmul primitive, on weights reordered beforehand into the
// layout that it asks for.
#include <dnnl.hpp>

#include "core/aligned_buffer.h"
#include "kernels_bench.h"

namespace isobit::bench {
namespace {

void onednn(benchmark::State& state) {
  using dnnl::memory;
  const int64_t n = state.range(0), k = state.range(1), m = state.range(2);
  AlignedBuffer a(m * k), w(n * k), c(m * n);
  fill(a.data(), a.size(), 1);
  fill(w.data(), w.size(), 2);
  fill(c.data(), c.size(), 3);  // its pages too are there when the clock starts

  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto row_major = [](int64_t rows, int64_t columns) {
    return memory::desc({rows, columns}, memory::data_type::f32, memory::format_tag::ab);
  };
  const memory::desc rows_by_k({k, n}, memory::data_type::f32, memory::format_tag::ba);  // [N, K], transposed
  const memory::desc any({k, n}, memory::data_type::f32, memory::format_tag::any);
  const dnnl::matmul::desc product(row_major(m, k), any, row_major(m, n));
  const dnnl::matmul::primitive_desc chosen(product, engine);
  memory from(rows_by_k, engine, w.data()), weights(chosen.weights_desc(), engine);
  dnnl::reorder(from, weights).execute(stream, from, weights);
  stream.wait();

  const memory inputs(row_major(m, k), engine, a.data()), outputs(row_major(m, n), engine, c.data());
  const dnnl::matmul primitive(chosen);
  for (auto _ : state) {
    primitive.execute(stream, {{DNNL_ARG_SRC, inputs}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, outputs}});
    stream.wait();
  }
  report_product(state);
}

BENCHMARK(onednn)->Apply(layer_shapes);

}  // namespace
}  // namespace isobit::bench

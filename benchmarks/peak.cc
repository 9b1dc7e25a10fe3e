// SPDX-License-Identifier: Apache-2.0
// The multiply-add rate of one thread: independent chains in registers, no memory. It computes nothing of
// use, so it is compiled for the machine it is built on and may fuse.
#include <algorithm>
#include <ctime>

#include "kernels_bench.h"

namespace isobit::bench {
namespace {

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

using Vector16 [[gnu::vector_size(64)]] = float;
using Vector8 [[gnu::vector_size(32)]] = float;
using Vector4 [[gnu::vector_size(16)]] = float;

volatile float in = 0.5f, out;  // so that nothing is known beforehand or unused afterwards

template <typename Vector>
double rate() {
  constexpr int kChains = 12, kSteps = 1 << 20, kLanes = sizeof(Vector) / sizeof(float);
  Vector chains[kChains] = {};
  for (Vector& chain : chains) chain += in;
  const Vector factor = Vector{} + in, term = Vector{} + in;
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    const double begin = thread_seconds();
    for (int step = 0; step < kSteps; ++step)
      for (Vector& chain : chains) chain = chain * factor + term;
    const double seconds = thread_seconds() - begin;
    for (Vector& chain : chains) out = chain[0];
    best = std::max(best, 2.0 * kChains * kLanes * kSteps / seconds * 1e-9);
  }
  return best;
}

}  // namespace

double fma_peak(int lane_bytes) {
  switch (lane_bytes) {
    case 64:
      return rate<Vector16>();
    case 32:
      return rate<Vector8>();
    default:
      return rate<Vector4>();
  }
}

}  // namespace isobit::bench

// SPDX-License-Identifier: Apache-2.0
// The library's own threads. Work is cut into units that never depend on the number of threads, and which
// thread runs a unit cannot change a bit, so units are handed out as threads become free.
#pragma once

#include <cstdint>

namespace isobit::cpu {

namespace detail {
using Unit = void (*)(const void* body, int64_t i);
void run(int64_t n, Unit unit, const void* body);
}  // namespace detail

/// Runs body(i) for every i in [0, n), on the calling thread and the pool's. The first exception is rethrown
/// after all units have ended. A call from inside a body, or while another host thread uses the pool, runs on
/// its own thread.
template <typename Body>
void parallel_for(int64_t n, const Body& body) {
  detail::run(
      n, [](const void* b, int64_t i) { (*static_cast<const Body*>(b))(i); }, &body);
}

/// As set by set_num_threads, ISOBIT_NUM_THREADS or the process's CPU affinity.
int thread_count();

}  // namespace isobit::cpu

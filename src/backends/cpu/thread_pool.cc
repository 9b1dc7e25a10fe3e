// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/fp_env.h"
#include "isobit/error.h"
#include "isobit/runtime.h"

namespace isobit::cpu {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kSpins =
    4000;  // some ten microseconds: stages of a decode step follow each other faster than a wake-up

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `value` differs from `old`: spinning at first, then asleep.
template <typename T>
T wait_change(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    const T now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    relax();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

class Pool {
 public:
  // Where the system refuses more threads, fewer do the same work.
  explicit Pool(int threads) {
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
    }
  }

  ~Pool() {
    stop_ = true;
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    for (std::thread& t : workers_) t.join();
  }

  void run(int64_t n, detail::Unit unit, const void* body) {
    n_ = n;
    unit_ = unit;
    body_ = body;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    take_units();
    for (int left = busy_.load(std::memory_order_acquire); left != 0;) left = wait_change(busy_, left);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void work() {
    const FpEnv environment;
    uint64_t seen = 0;
    for (;;) {
      seen = wait_change(epoch_, seen);
      if (stop_) return;
      take_units();
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_all();
    }
  }

  void take_units() {
    for (;;) {
      const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= n_) return;
      try {
        unit_(body_, i);
      } catch (...) {
        const std::lock_guard lock(error_mutex_);
        if (!error_) error_ = std::current_exception();
      }
    }
  }

  std::vector<std::thread> workers_;
  alignas(64) std::atomic<uint64_t> epoch_{0};
  alignas(64) std::atomic<int> busy_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  int64_t n_ = 0;
  detail::Unit unit_ = nullptr;
  const void* body_ = nullptr;
  std::atomic<bool> stop_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

int default_threads() {
  if (const char* text = std::getenv("ISOBIT_NUM_THREADS"); text && *text) {
    char* end = nullptr;
    const long n = std::strtol(text, &end, 10);
    if (*end || n < 1 || n > kMaxThreads)
      throw ValueError("[ISOBIT_NUM_THREADS] expected 1.." + std::to_string(kMaxThreads) + ", got '" + text +
                       "'");
    return static_cast<int>(n);
  }
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::clamp(CPU_COUNT(&set), 1, kMaxThreads);
#endif
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

// The pool of this process, made at first use. A forked child has none of its parent's threads: it abandons
// the pool it inherited (whose locks may be held by threads that no longer exist) and makes its own at first
// use.
struct Shared {
  std::mutex mutex;  // held by the host thread whose work is running
  std::unique_ptr<Pool> pool;
  std::atomic<int> threads{0};  // 0: not decided yet
};

Shared* shared = nullptr;
thread_local bool inside = false;

Shared& instance() {
  static const bool once = [] {
    shared = new Shared;
    pthread_atfork(nullptr, nullptr, [] {
      Shared* fresh = new Shared;
      fresh->threads = shared->threads.load();
      shared = fresh;
      inside = false;
    });
    return true;
  }();
  static_cast<void>(once);
  return *shared;
}

}  // namespace

int thread_count() {
  Shared& s = instance();
  int n = s.threads.load();
  if (n == 0) {
    n = default_threads();
    s.threads = n;
  }
  return n;
}

namespace detail {

void run(int64_t n, Unit unit, const void* body) {
  const int threads = thread_count();
  if (n > 1 && threads > 1 && !inside) {
    Shared& s = instance();
    if (std::unique_lock lock(s.mutex, std::try_to_lock); lock.owns_lock()) {
      if (!s.pool) s.pool = std::make_unique<Pool>(threads);
      inside = true;
      struct Leave {
        ~Leave() { inside = false; }
      } leave;
      s.pool->run(n, unit, body);
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i) unit(body, i);
}

}  // namespace detail
}  // namespace isobit::cpu

namespace isobit {

int num_threads() { return cpu::thread_count(); }

void set_num_threads(int n) {
  if (n < 1 || n > cpu::kMaxThreads)
    throw ValueError("[set_num_threads] n: expected 1.." + std::to_string(cpu::kMaxThreads) + ", got " +
                     std::to_string(n));
  cpu::Shared& s = cpu::instance();
  const std::lock_guard lock(s.mutex);
  if (s.threads.exchange(n) != n) s.pool.reset();
}

}  // namespace isobit

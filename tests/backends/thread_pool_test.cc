// SPDX-License-Identifier: Apache-2.0
// parallel_for and what hosts do around it: exceptions, nesting, two threads at once, a changed thread count,
// fork.
#include "backends/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "support/bits.h"
#include "support/block_cases.h"

namespace isobit::testing {
namespace {

TEST(ThreadPool, EveryUnitRunsOnce) {
  const RestoreRuntime restore;
  for (const int threads : {1, 2, 3, 7, 16}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
    for (const int64_t n : {0, 1, 2, 5, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
      cpu::parallel_for(n, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
      for (const auto& count : runs) ASSERT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, AnExceptionComesOutAndThePoolLivesOn) {
  const RestoreRuntime restore;
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    for (const int64_t at : {0, 1, 63}) {
      const auto fail = [at](int64_t i) {
        if (i == at) throw std::out_of_range("unit " + std::to_string(i));
      };
      expect_error<std::out_of_range>([&] { cpu::parallel_for(64, fail); }, {"unit " + std::to_string(at)});
    }
    EXPECT_THROW(cpu::parallel_for(64, [](int64_t) { throw 5; }), int);
    std::atomic<int64_t> sum{0};
    cpu::parallel_for(100, [&](int64_t i) { sum += i; });
    EXPECT_EQ(sum, 4950);
  }
}

TEST(ThreadPool, Nested) {
  const RestoreRuntime restore;
  set_num_threads(3);
  std::atomic<int64_t> count{0};
  cpu::parallel_for(6, [&](int64_t) {
    cpu::parallel_for(7, [&](int64_t) { cpu::parallel_for(2, [&](int64_t) { ++count; }); });
  });
  EXPECT_EQ(count, 84);
}

TEST(ThreadPool, SetNumThreadsRefuses) {
  const int before = num_threads();
  for (const int n : {0, -1, 1025})
    expect_error<ValueError>([n] { set_num_threads(n); },
                             {"[set_num_threads]", "1..1024", std::to_string(n)});
  EXPECT_EQ(num_threads(), before);
}

// More threads than the system may give: fewer do the work.
TEST(ThreadPool, ManyThreads) {
  const RestoreRuntime restore;
  set_num_threads(300);
  std::atomic<int64_t> sum{0};
  cpu::parallel_for(1000, [&](int64_t i) { sum += i; });
  EXPECT_EQ(sum, 499500);
}

class Hosts : public ::testing::Test {
 protected:
  static BlockCase block_case() {
    BlockCase c = option_cases().front();
    c.options.window = 200;
    return c;
  }
  const TransformerBlock block_ = block_case().block();
  const std::vector<float> x_ = block_case().input(1, 300);
  const std::vector<float> expected_ = run(block_, x_, 1, 300);

  /// Many small calls, some of them steps.
  bool computes_right(const TransformerBlock& block, int rounds) const {
    for (int i = 0; i < rounds; ++i)
      if (!same_bits(run_split(block, x_, 1, {250, 1, 48, 1}, 300), expected_)) return false;
    return true;
  }
};

TEST_F(Hosts, TwoThreadsOnOneBlockAndOnTwo) {
  const RestoreRuntime restore;
  set_num_threads(3);
  const TransformerBlock other = block_case().block();
  for (const TransformerBlock* second : {&block_, &other}) {
    std::atomic<int> right{0};
    std::thread a([&] { right += computes_right(block_, 8); });
    std::thread b([&] { right += computes_right(*second, 8); });
    std::thread c([&] { right += computes_right(block_, 8); });
    a.join(), b.join(), c.join();
    EXPECT_EQ(right, 3);
  }
}

TEST_F(Hosts, ThreadCountChangesWhileAnotherThreadComputes) {
  const RestoreRuntime restore;
  std::atomic<bool> done{false};
  std::atomic<bool> right{false};
  std::thread worker([&] {
    right = computes_right(block_, 20);
    done = true;
  });
  for (int n = 1; !done; n = n % 5 + 1) {
    set_num_threads(n);
    std::this_thread::yield();
  }
  worker.join();
  EXPECT_TRUE(right);
}

TEST_F(Hosts, ForkAfterUse) {
  const RestoreRuntime restore;
  set_num_threads(3);
  ASSERT_TRUE(computes_right(block_, 1));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // a hang ends here
    const bool right = num_threads() == 3 && computes_right(block_, 2);
    set_num_threads(2);
    _exit(right && computes_right(block_, 1) ? 0 : 1);
  }
  EXPECT_TRUE(computes_right(block_, 2)) << "in the parent";
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "in the child: status " << status;
}

// The environment variables are read at first use, so each is given to a child that starts anew.
std::string report_of_child(const std::string& variables) {
  const std::string command =
      variables + " /proc/" + std::to_string(getpid()) +
      "/exe --gtest_also_run_disabled_tests --gtest_filter=Environment.DISABLED_Report 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return {};
  std::string out;
  char buffer[256];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  pclose(pipe);
  return out;
}

TEST(Environment, DISABLED_Report) {
  const auto report = [](const char* what, const std::function<std::string()>& value) {
    try {
      printf("%s=<%s>\n", what, value().c_str());
    } catch (const ValueError& e) {
      printf("%s=<%s>\n", what, e.what());
    }
  };
  report("threads", [] { return std::to_string(num_threads()); });
  report("isa", [] { return active_isa(); });
}

TEST(Environment, Variables) {
  if (report_of_child("").find("threads=<") == std::string::npos)
    GTEST_SKIP() << "this program cannot run itself";
  const auto expect_report = [](const std::string& variables, const std::vector<std::string>& parts) {
    const std::string report = report_of_child(variables);
    for (const std::string& part : parts)
      EXPECT_NE(report.find(part), std::string::npos) << part << " in " << report;
  };
  const std::string best = available_isas().front();
  expect_report("ISOBIT_NUM_THREADS=5", {"threads=<5>"});
  expect_report("ISOBIT_NUM_THREADS= ISOBIT_ISA=", {"isa=<" + best + ">"});
  for (const std::string bad : {"0", "-3", "1025", "two", "4x", "99999999999999999999"})
    expect_report("ISOBIT_NUM_THREADS=" + bad,
                  {"threads=<[ISOBIT_NUM_THREADS] expected 1..1024, got '" + bad + "'>"});
  expect_report("ISOBIT_ISA=scalar", {"isa=<scalar>"});
  expect_report("ISOBIT_ISA=sse9", {"isa=<[ISOBIT_ISA] expected one of " + best, "scalar", "got 'sse9'>"});
  expect_error<ValueError>([] { set_isa("sse9"); }, {"[set_isa] expected one of", "scalar", "got 'sse9'"});
}

}  // namespace
}  // namespace isobit::testing

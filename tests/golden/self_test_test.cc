// SPDX-License-Identifier: Apache-2.0
// The golden digests: the reference has them, every instruction set with any number of threads has them, and
// a wrong kernel does not.
#include "model/self_test.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "model/goldens.h"
#include "support/bits.h"

namespace isobit::testing {
namespace {

void expect_golden(const std::vector<StageResult>& stages) {
  for (const StageResult& s : stages)
    EXPECT_TRUE(s.ok) << s.stage << ": " << s.got << " instead of " << s.expected;
}

TEST(Golden, TheReferenceKernels) { expect_golden(run_cases(kernel_cases(kernels::reference_table()))); }

TEST(Golden, EveryInstructionSetAndThreadCount) {
  const RestoreRuntime restore;
  for (const std::string& isa : available_isas())
    for (const int threads : {1, 2, 3}) {
      SCOPED_TRACE(isa + ", " + std::to_string(threads) + " threads");
      set_isa(isa);
      set_num_threads(threads);
      expect_golden(self_test());
    }
}

TEST(Golden, EveryStageHasOneDigestAndNoDigestIsLeftOver) {
  std::set<std::string> stages, digests;
  for (const StageResult& s : self_test()) {
    EXPECT_TRUE(stages.insert(s.stage).second) << s.stage;
    EXPECT_EQ(s.expected.size(), 64u) << s.stage;
    digests.insert(s.got);
  }
  EXPECT_EQ(std::size(kGoldens), stages.size());
  // Two stages of equal results would test nothing twice; dynamic scaling is none.
  EXPECT_EQ(digests.size(), stages.size());
  EXPECT_EQ(kGoldenContract, contract_version());
}

TEST(Golden, AWrongKernelIsTheFirstDifference) {
  kernels::KernelTable wrong = kernels::active_table();
  wrong.rms_norm = [](const float* x, int64_t ldx, int64_t rows, int64_t d, const float* w, float eps,
                      bool offset, float* y, int64_t ldy) {
    const int64_t result = kernels::active_table().rms_norm(x, ldx, rows, d, w, eps, offset, y, ldy);
    if (d == 577) y[ldy + 5] = y[ldy + 5] * (1.0f + 0x1p-23f);  // one unit in the last place
    return result;
  };
  for (const StageResult& s : run_cases(kernel_cases(wrong)))
    EXPECT_EQ(s.ok, !s.stage.starts_with("RMSNorm")) << s.stage;
}

// The body of src/model/goldens.h, for a new version of the contract.
TEST(Golden, DISABLED_Print) {
  for (const StageResult& s : self_test())
    std::printf("    {\"%s\", \"%s\"},\n", s.stage.c_str(), s.got.c_str());
}

TEST(Measure, RatesArePositive) {
  const MachineRates rates = measure();
  EXPECT_GT(rates.read_gb_per_s, 0.0);
  EXPECT_GT(rates.fma_gflop_per_s, 0.0);
  EXPECT_EQ(rates.threads, num_threads());
}

}  // namespace
}  // namespace isobit::testing

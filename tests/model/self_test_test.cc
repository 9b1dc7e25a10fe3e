// SPDX-License-Identifier: Apache-2.0
// The digests of self_test(): the reference and every instruction set have them, and a wrong kernel does not.
#include "model/self_test.h"

#include <gtest/gtest.h>

#include "isobit/runtime.h"

namespace isobit {
namespace {

void expect_all_right(const std::vector<StageDigest>& stages) {
  for (const StageDigest& s : stages) EXPECT_EQ(s.expected, s.got) << s.stage;
}

TEST(SelfTest, ReferenceHasTheDigests) { expect_all_right(test_kernels(kernels::reference_table())); }

TEST(SelfTest, EveryInstructionSetHasTheDigests) {
  const std::string before = active_isa();
  for (const std::string& isa : available_isas()) {
    SCOPED_TRACE(isa);
    set_isa(isa);
    const std::vector<StageDigest> stages = self_test();
    EXPECT_EQ(stages.size(), 22u);
    EXPECT_EQ(stages.front().stage, "exp");
    EXPECT_EQ(stages.back().stage, "decoder block");
    expect_all_right(stages);
  }
  set_isa(before);
}

TEST(SelfTest, AWrongKernelIsTheFirstDifference) {
  kernels::KernelTable wrong = kernels::active_table();
  wrong.rms_norm = [](const float* x, int64_t ldx, int64_t rows, int64_t d, const float* w, float eps,
                      bool offset, float* y, int64_t ldy) {
    const int64_t result = kernels::active_table().rms_norm(x, ldx, rows, d, w, eps, offset, y, ldy);
    y[ldy + 5] = y[ldy + 5] * (1.0f + 0x1p-23f);  // one unit in the last place
    return result;
  };
  for (const StageDigest& s : test_kernels(wrong))
    EXPECT_EQ(s.expected == s.got, s.stage != "RMSNorm") << s.stage;
}

TEST(Measure, SpeedsArePositive) {
  const Speed speed = measure();
  EXPECT_GT(speed.bandwidth_gb_per_second, 0.0);
  EXPECT_GT(speed.gflop_per_second, 0.0);
}

}  // namespace
}  // namespace isobit

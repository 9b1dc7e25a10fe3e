// SPDX-License-Identifier: Apache-2.0
#include "isobit/profile.h"

#include <gtest/gtest.h>

#include "core/profile.h"

namespace isobit {
namespace {

TEST(Profile, TableHasTheLongestStageFirstAndRatesWhereOperationsAreCounted) {
  EXPECT_EQ(profile_table({{.stage = "norm", .seconds = 0.25, .calls = 3, .flop = 0},
                           {.stage = "linear 96 x 64", .seconds = 0.75, .calls = 12, .flop = 1.5e9}}),
            "    linear 96 x 64            75.0%        12 calls      2.0 GFLOP/s\n"
            "    norm                      25.0%         3 calls\n");
  EXPECT_EQ(profile_table({}), "");
}

TEST(Profile, CollectsByStageAndShapeWhileItIsOn) {
  set_profiling(true);
  for (int i = 0; i < 2; ++i) StageTimer("linear", 96, 64, 10.0);
  StageTimer("norm");
  const std::vector<StageTime> stages = profile();
  set_profiling(false);
  StageTimer("norm");
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].stage, "linear 96 x 64");
  EXPECT_EQ(stages[0].calls, 2);
  EXPECT_EQ(stages[0].flop, 20.0);
  EXPECT_EQ(stages[1].stage, "norm");
  EXPECT_EQ(stages[1].calls, 1);
  EXPECT_TRUE(profile().empty());
}

}  // namespace
}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// The matrix product of every kernel table, and its packing, equal the reference bit for bit: over ragged
// shapes, strides, depths around blocks, signed zeros, subnormals and overflow, writing nothing but its
// output and reading nothing past its inputs.
#include "kernels/kernel_cases.h"

namespace isobit::testing {
namespace {

using kernels::KernelTable;
using kernels::kPanel;
using kernels::reference_table;

int64_t panel_floats(int64_t cols, int64_t k) { return (cols + kPanel - 1) / kPanel * kPanel * k; }

void check_matmul(int64_t rows, int64_t cols, int64_t k, Values kind, uint64_t seed) {
  SCOPED_TRACE("rows " + std::to_string(rows) + ", cols " + std::to_string(cols) + ", k " +
               std::to_string(k) + ", values " + std::to_string(static_cast<int>(kind)));
  Random random(seed);
  const int64_t lda = k + random.in(0, 3), ldc = cols + random.in(0, 3);
  const Guarded a(draw_n(kind, (rows - 1) * lda + k, random));
  const std::vector<float> w = draw_n(kind, cols * k, random);
  Guarded panels(panel_floats(cols, k));
  reference_table().pack_panels(w.data(), cols, k, panels.data());
  const Guarded bias(draw_n(kind, cols, random));
  const float* shift = random.coin() ? bias.data() : nullptr;

  Guarded expected((rows - 1) * ldc + cols), got((rows - 1) * ldc + cols);
  expected.fill(kCanary);
  reference_table().matmul(a.data(), lda, rows, panels.data(), k, cols, shift, expected.data(), ldc);
  each_table([&](const KernelTable& table) {
    got.fill(kCanary);
    table.matmul(a.data(), lda, rows, panels.data(), k, cols, shift, got.data(), ldc);
    ASSERT_TRUE(same_bits(got.all(), expected.all()));
  });
}

TEST(Matmul, OfEveryRowCount) {
  std::vector<int64_t> counts = {95, 96, 97};
  for (int64_t rows = 1; rows <= 25; ++rows) counts.push_back(rows);
  Random random(1);
  for (const int64_t rows : counts)
    for (const Values kind : {Values::kNormal, Values::kMixed})
      check_matmul(rows, random.in(1, 70), random.in(1, 40), kind, random.bits());
  check_matmul(200, 40, 20, Values::kNormal, 2);
}

TEST(Matmul, OfEveryColumnCount) {
  Random random(2);
  for (int64_t cols = 1; cols <= 70; ++cols)
    for (const int64_t rows : {int64_t{1}, int64_t{2}, random.in(3, 14)})
      check_matmul(rows, cols, random.in(1, 40), Values::kMixed, random.bits());
  for (const int64_t multiple : {96, 128, 160, 256})
    for (const int64_t cols : {multiple - 1, multiple, multiple + 1})
      for (const int64_t rows : {1, 2, 13}) check_matmul(rows, cols, 33, Values::kNormal, random.bits());
}

TEST(Matmul, OfEveryDepth) {
  Random random(3);
  for (const int64_t k :
       {0, 1, 2, 15, 16, 17, 255, 256, 257, 511, 512, 513, 767, 768, 769, 1023, 1024, 1025, 1281, 4096})
    for (const Values kind : all_values()) {
      check_matmul(1, random.in(1, 50), k, kind, random.bits());
      check_matmul(random.in(2, 5), random.in(1, 20), k, kind, random.bits());
    }
  check_matmul(13, 33, 769, Values::kNormal, 5);
  check_matmul(2, 8, 70 * 256 + 1, Values::kNormal, 6);
}

TEST(Matmul, Sweep) {
  if (!long_tests()) GTEST_SKIP() << "ISOBIT_LONG_TESTS=1 runs it";
  Random random(4);
  for (int i = 0; i < 3000; ++i)
    check_matmul(random.in(1, 100), random.in(1, 140), random.in(0, 1100), random.pick(all_values()),
                 random.bits());
}

// Products that all underflow to -0 leave -0 in a plain chain; DOT ends in + (+0).
TEST(Matmul, DotOfNegativeUnderflowIsPlusZero) {
  for (const int64_t k : {1, 255, 256, 300, 600}) {
    const std::vector<float> a(static_cast<size_t>(3 * k), -0x1p-140f),
        w(static_cast<size_t>(5 * k), 0x1p-140f);
    std::vector<float> panels(static_cast<size_t>(panel_floats(5, k)));
    reference_table().pack_panels(w.data(), 5, k, panels.data());
    each_table([&](const KernelTable& table) {
      for (const int64_t rows : {1, 2, 3}) {
        std::vector<float> c(static_cast<size_t>(rows * 5), kCanary);
        table.matmul(a.data(), k, rows, panels.data(), k, 5, nullptr, c.data(), 5);
        ASSERT_TRUE(same_bits(c, std::vector<float>(c.size(), 0.0f)));
      }
    });
  }
}

// A known answer: the tree, the chains and the fused rounding told apart from what a plain sum would give.
TEST(Matmul, AddsBlocksAsTheContractSays) {
  constexpr int64_t kLength = 1025;
  std::vector<float> a(kLength, 0.0f), w(kLength, 1.0f);
  const float big = 0x1p24f;  // big + 1 rounds to big
  a[0] = big;  // block 0; blocks 2 and 3 hold one each, and (1 + 1) + ... survives only when added first
  a[512] = 1.0f;
  a[768] = 1.0f;
  std::vector<float> panels(static_cast<size_t>(panel_floats(1, kLength)));
  reference_table().pack_panels(w.data(), 1, kLength, panels.data());
  each_table([&](const KernelTable& table) {
    float y = 0.0f;
    table.matmul(a.data(), kLength, 1, panels.data(), kLength, 1, nullptr, &y, 1);
    EXPECT_EQ(y, big + 2.0f);
  });
}

TEST(Matmul, PackPanels) {
  Random random(7);
  for (const int64_t n : {1, 2, 15, 16, 31, 32, 33, 64, 70})
    for (const int64_t k : {1, 15, 16, 17, 40}) {
      const Guarded w(random.units(n * k));
      Guarded expected(panel_floats(n, k)), got(panel_floats(n, k));
      reference_table().pack_panels(w.data(), n, k, expected.data());
      each_table([&](const KernelTable& table) {
        got.fill(kCanary);
        table.pack_panels(w.data(), n, k, got.data());
        ASSERT_TRUE(same_bits(got.all(), expected.all())) << n << " x " << k;
      });
    }
}

}  // namespace
}  // namespace isobit::testing

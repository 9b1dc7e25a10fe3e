// SPDX-License-Identifier: Apache-2.0
// Packing stacks parts of any size and dtype and loses nothing; a product over units is the product of the
// reference.
#include "ops/linear.h"

#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/helpers.h"
#include "core/fp_env.h"
#include "isobit/error.h"
#include "kernels/table.h"
#include "support/bits.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

TensorView view(const std::vector<float>& x, int64_t rows, int64_t columns) {
  return {DType::F32, {rows, columns}, reinterpret_cast<const std::byte*>(x.data())};
}

TEST(Linear, PackStacksPartsAndUnpackGivesThemBack) {
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    const int64_t k = random.in(1, 50);
    std::vector<std::vector<float>> parts;
    std::vector<float> stacked;
    std::vector<TensorView> views;
    for (int64_t count = random.in(1, 4); count > 0; --count) {
      const int64_t rows = random.in(1, 80);
      parts.push_back(random.units(rows * k));
      stacked.insert(stacked.end(), parts.back().begin(), parts.back().end());
      views.push_back(view(parts.back(), rows, k));
    }
    const std::vector<std::string> names(parts.size(), "w");
    const PackedMatrix w = ops::pack(views, names, "Test");
    ASSERT_EQ(w.k, k);
    ASSERT_EQ(w.n * k, static_cast<int64_t>(stacked.size()));
    std::vector<float> back(stacked.size());
    ops::unpack_rows(w, 0, w.n, back.data());
    ASSERT_TRUE(same_bits(back, stacked));
    const int64_t begin = random.in(0, w.n - 1), end = random.in(begin, w.n);
    std::vector<float> some(static_cast<size_t>((end - begin) * k));
    ops::unpack_rows(w, begin, end, some.data());
    ASSERT_TRUE(same_bits(some, {stacked.data() + begin * k, some.size()}));
  }
}

TEST(Linear, PackNamesThePartThatIsNotFinite) {
  std::vector<float> first(40 * 3, 1.0f), second(40 * 3, 2.0f);
  second[100] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<TensorView> parts = {view(first, 40, 3), view(second, 40, 3)};
  const std::vector<std::string> names = {"first", "second"};
  expect_error<ValueError>([&] { ops::pack(parts, names, "Test"); }, {"[Test] second", "finite"});
}

// Sizes around the units that threads take: 96 rows, some 2^16 weights.
TEST(Linear, UnitsCannotBeSeen) {
  Random random(2);
  struct Case {
    int64_t rows, n, k;
  };
  for (const Case& c : {Case{1, 5, 7}, Case{97, 70, 300}, Case{200, 33, 4}, Case{3, 4200, 40},
                        Case{2, 130, 1100}, Case{4, 9, 0}}) {
    const std::vector<float> x = random.units(c.rows * (c.k + 2)), weights = random.units(c.n * c.k),
                             bias = random.units(c.n);
    PackedMatrix w;
    w.n = c.n, w.k = c.k;
    w.panels = AlignedBuffer((c.n + 31) / 32 * 32 * c.k);
    kernels::reference_table().pack_panels(weights.data(), c.n, c.k, w.panels.data());
    std::vector<float> expected(static_cast<size_t>(c.rows * c.n)), got(expected.size());
    {
      const FpEnv environment;
      kernels::reference_table().matmul(x.data(), c.k + 2, c.rows, w.panels.data(), c.k, c.n, bias.data(),
                                        expected.data(), c.n);
    }
    on_every_isa([&] {
      ASSERT_TRUE(ops::linear(x.data(), c.k + 2, c.rows, w, bias.data(), got.data(), c.n));
      ASSERT_TRUE(same_bits(got, expected)) << c.rows << " x " << c.n << " x " << c.k;
    });
  }
}

TEST(Linear, TellsWhetherAllIsFinite) {
  const std::vector<float> weights(50 * 3, 1e38f);
  const std::vector<TensorView> parts = {view(weights, 50, 3)};
  const std::vector<std::string> names = {"w"};
  const PackedMatrix w = ops::pack(parts, names, "Test");
  std::vector<float> x(100 * 3, 1.0f), y(100 * 50);
  EXPECT_TRUE(ops::linear(x.data(), 3, 100, w, nullptr, y.data(), 50));
  x[299] = 3.0f;
  EXPECT_FALSE(ops::linear(x.data(), 3, 100, w, nullptr, y.data(), 50));
}

}  // namespace
}  // namespace isobit::testing

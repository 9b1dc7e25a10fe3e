// SPDX-License-Identifier: Apache-2.0
// Packing stacks parts of any size and dtype and loses nothing; a product over units is the product of the
// reference.
#include "ops/linear.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "checkpoint/helpers.h"
#include "core/fp_env.h"
#include "isobit/error.h"
#include "isobit/safetensors.h"
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

// Of both 16-bit types each number is packed as it is, and what is none is refused.
TEST(Linear, PackOfEvery16BitPattern) {
  const std::string name = "w";
  for (const DType dtype : {DType::BF16, DType::F16}) {
    int refused = 0;
    for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
      const auto bits = static_cast<uint16_t>(pattern);
      const TensorView one{dtype, {1, 1}, reinterpret_cast<const std::byte*>(&bits)};
      float expected = 0, back = 0;
      widen_to_f32(one, &expected);
      try {
        const PackedMatrix w = ops::pack({&one, 1}, {&name, 1}, "Test");
        ops::unpack_rows(w, 0, 1, &back);
        ASSERT_EQ(std::bit_cast<uint32_t>(back), std::bit_cast<uint32_t>(expected)) << pattern;
        ASSERT_TRUE(std::isfinite(expected));
      } catch (const ValueError&) {
        ASSERT_FALSE(std::isfinite(expected)) << pattern;
        ++refused;
      }
    }
    EXPECT_EQ(refused, dtype == DType::BF16 ? 256 : 2048);
  }
}

const std::vector<WeightFormat> kStored = {WeightFormat::kBfloat16, WeightFormat::kInt8};

// What a row of x becomes.
std::vector<float> stored_row(const float* x, int64_t k, WeightFormat format) {
  std::vector<float> out(static_cast<size_t>(k));
  if (format == WeightFormat::kBfloat16) {
    std::vector<uint16_t> bits(out.size());
    round_to_bf16(x, k, bits.data());
    widen_bf16(bits.data(), k, out.data());
  } else {
    std::vector<int8_t> codes(out.size());
    const int32_t e = quantize_int8(x, k, codes.data());
    widen_int8(codes.data(), k, e, out.data());
  }
  return out;
}

// Rows of every magnitude, zero rows and subnormal ones among them.
TEST(Linear, PackStoresEachRowAsItsFormatSays) {
  Random random(3);
  for (int i = 0; i < 60; ++i) {
    const int64_t k = random.in(1, 90), n = random.in(2, 80), first = random.in(1, n - 1);
    std::vector<float> x = random.units(n * k), expected;
    for (int64_t row = 0; row < n; ++row) {
      const float scale = std::ldexp(1.0f, static_cast<int>(random.in(-150, 126)));
      for (int64_t j = 0; j < k; ++j) x[static_cast<size_t>(row * k + j)] *= scale;
    }
    const std::vector<TensorView> views = {view(x, n, k).rows(0, first), view(x, n, k).rows(first, n)};
    const std::vector<std::string> names = {"a", "b"};
    for (const WeightFormat format : kStored) {
      expected.clear();
      for (int64_t row = 0; row < n; ++row)
        for (const float v : stored_row(x.data() + row * k, k, format)) expected.push_back(v);
      const PackedMatrix w = ops::pack(views, names, "Test", format);
      std::vector<float> back(expected.size());
      ops::unpack_rows(w, 0, n, back.data());
      ASSERT_TRUE(same_bits(back, expected)) << to_string(format);
      ASSERT_EQ(w.panels.size(),
                format == WeightFormat::kInt8 ? (n + 63) / 64 * 16 * k : (n + 31) / 32 * 16 * k);
      // Packing what is stored once more keeps it.
      const TensorView again = view(back, n, k);
      std::vector<float> twice(back.size());
      ops::unpack_rows(ops::pack({&again, 1}, {names.data(), 1}, "Test", format), 0, n, twice.data());
      ASSERT_TRUE(same_bits(twice, back)) << to_string(format);
    }
  }
}

TEST(Linear, PackNamesThePartThatDoesNotFit) {
  std::vector<float> first(40 * 3, 1.0f), second(40 * 3, 2.0f);
  const std::vector<TensorView> parts = {view(first, 40, 3), view(second, 40, 3)};
  const std::vector<std::string> names = {"first", "second"};
  second[100] = 0x1.ffp127f;  // halfway to 2^128
  EXPECT_EQ(ops::pack(parts, names, "Test", WeightFormat::kInt8).n, 80);
  expect_error<ValueError>([&] { ops::pack(parts, names, "Test", WeightFormat::kBfloat16); },
                           {"[Test] second", "bfloat16", "infinity"});
  second[100] = std::numeric_limits<float>::infinity();
  for (const WeightFormat format : kStored)
    expect_error<ValueError>([&] { ops::pack(parts, names, "Test", format); }, {"[Test] second", "finite"});
}

TEST(Linear, StoredWeightsGiveTheProductOfTheWidenedOnes) {
  Random random(4);
  struct Case {
    int64_t rows, n, k;
  };
  for (const WeightFormat format : kStored)
    for (const Case& c : {Case{1, 5, 7}, Case{97, 70, 300}, Case{3, 4200, 40}, Case{2, 130, 1100}}) {
      const std::vector<float> x = random.units(c.rows * c.k), weights = random.units(c.n * c.k),
                               bias = random.units(c.n);
      const std::vector<std::string> names = {"w"};
      const TensorView given = view(weights, c.n, c.k);
      const PackedMatrix stored = ops::pack({&given, 1}, names, "Test", format);
      std::vector<float> wide(weights.size());
      ops::unpack_rows(stored, 0, c.n, wide.data());
      const TensorView widened = view(wide, c.n, c.k);
      const PackedMatrix w = ops::pack({&widened, 1}, names, "Test");
      std::vector<float> expected(static_cast<size_t>(c.rows * c.n)), got(expected.size());
      on_every_isa([&] {
        ASSERT_TRUE(ops::linear(x.data(), c.k, c.rows, w, bias.data(), expected.data(), c.n));
        ASSERT_TRUE(ops::linear(x.data(), c.k, c.rows, stored, bias.data(), got.data(), c.n));
        ASSERT_TRUE(same_bits(got, expected)) << to_string(format) << " " << c.rows << " x " << c.n;
      });
    }
}

// What float32 asks of a bfloat16 checkpoint fits into its own two bytes.
TEST(Linear, OnlyBf16PartsStayTwoBytes) {
  Random random(8);
  const int64_t n = 64, k = 40;
  const std::vector<float> values = random.units(n * k), x = random.units(3 * k);
  std::vector<uint16_t> halves(values.size());
  ASSERT_EQ(round_to_bf16(values.data(), n * k, halves.data()), n * k);
  std::vector<float> wide(values.size());
  widen_bf16(halves.data(), n * k, wide.data());
  const TensorView bf16 = {DType::BF16, {n, k}, reinterpret_cast<const std::byte*>(halves.data())};
  const std::vector<std::string> names = {"a", "b"};
  const std::vector<TensorView> same = {bf16, bf16}, mixed = {bf16, view(wide, n, k)},
                                widened = {view(wide, n, k), view(wide, n, k)};
  const PackedMatrix expected = ops::pack(widened, names, "Test");
  EXPECT_EQ(ops::pack(same, names, "Test").bytes() * 2, expected.bytes());
  EXPECT_EQ(ops::pack(mixed, names, "Test").bytes(), expected.bytes());
  std::vector<float> y(3 * 2 * n), got(y.size());
  ASSERT_TRUE(ops::linear(x.data(), k, 3, expected, nullptr, y.data(), 2 * n));
  for (const auto& parts : {same, mixed}) {
    ASSERT_TRUE(ops::linear(x.data(), k, 3, ops::pack(parts, names, "Test"), nullptr, got.data(), 2 * n));
    EXPECT_TRUE(same_bits(got, y));
  }
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

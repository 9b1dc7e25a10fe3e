// SPDX-License-Identifier: Apache-2.0
// Every entry of every kernel table but the matrix product and attention equals the reference bit for bit:
// over ragged sizes, signed zeros, subnormals and overflow, writing nothing but its output and reading
// nothing past its inputs.
#include <algorithm>

#include "kernels/kernel_cases.h"

namespace isobit::testing {
namespace {

using kernels::KernelTable;
using kernels::reference_table;

struct NormCase {
  int64_t rows, d;
  Values kind;
  bool in_place;
};

std::vector<NormCase> norm_cases() {
  std::vector<NormCase> cases;
  std::vector<int64_t> widths = {1,   2,   3,   8,   15,  16,  17,  31,  32,  33,  48,   64,   255,  256,
                                 257, 271, 272, 511, 512, 513, 576, 767, 768, 769, 1024, 1025, 2305, 4096};
  for (const int64_t d : widths)
    for (const Values kind : all_values()) cases.push_back({d < 100 ? 3 : 2, d, kind, d % 2 == 0});
  return cases;
}

TEST(Kernels, RmsNorm) {
  Random random(8);
  for (const NormCase& c : norm_cases())
    for (const bool offset : {false, true}) {
      SCOPED_TRACE("d " + std::to_string(c.d) + ", values " + std::to_string(static_cast<int>(c.kind)));
      const int64_t ldx = c.d + random.in(0, 2), ldy = c.in_place ? ldx : c.d + random.in(0, 2);
      const std::vector<float> x = draw_n(c.kind, (c.rows - 1) * ldx + c.d, random);
      const Guarded source(x), w(draw_n(Values::kNormal, c.d, random));
      Guarded expected((c.rows - 1) * ldy + c.d), got((c.rows - 1) * ldy + c.d);
      const auto run = [&](const KernelTable& table, Guarded& y) {
        y.fill(kCanary);
        if (c.in_place) std::copy(x.begin(), x.end(), y.data());
        const float* from = c.in_place ? y.data() : source.data();
        return table.rms_norm(from, ldx, c.rows, c.d, w.data(), 1e-5f, offset, y.data(), ldy);
      };
      const int64_t bad = run(reference_table(), expected);
      each_table([&](const KernelTable& table) {
        ASSERT_EQ(run(table, got), bad);
        ASSERT_TRUE(same_bits(got.all(), expected.all()));
      });
    }
}

TEST(Kernels, LayerNorm) {
  Random random(9);
  for (const NormCase& c : norm_cases()) {
    SCOPED_TRACE("d " + std::to_string(c.d) + ", values " + std::to_string(static_cast<int>(c.kind)));
    const int64_t ldx = c.d + random.in(0, 2), ldy = c.d + random.in(0, 2);
    const Guarded x(draw_n(c.kind, (c.rows - 1) * ldx + c.d, random)),
        w(draw_n(Values::kNormal, c.d, random));
    const Guarded b(draw_n(Values::kNormal, c.d, random));
    const float* bias = random.coin() ? b.data() : nullptr;
    Guarded expected((c.rows - 1) * ldy + c.d), got((c.rows - 1) * ldy + c.d);
    const auto run = [&](const KernelTable& table, Guarded& y) {
      y.fill(kCanary);
      return table.layer_norm(x.data(), ldx, c.rows, c.d, w.data(), bias, 1e-5f, y.data(), ldy);
    };
    const int64_t bad = run(reference_table(), expected);
    each_table([&](const KernelTable& table) {
      ASSERT_EQ(run(table, got), bad);
      ASSERT_TRUE(same_bits(got.all(), expected.all()));
    });
  }
}

TEST(Kernels, LayerNormOfAConstantRowIsZero) {
  Random random(10);
  for (const int64_t d : {1, 3, 7, 16, 17, 100, 255, 257, 576, 1000, 1023})
    for (int i = 0; i < 8; ++i) {
      const std::vector<float> x(static_cast<size_t>(d), random.unit() * 100.0f),
          w(static_cast<size_t>(d), 1.5f);
      each_table([&](const KernelTable& table) {
        std::vector<float> y(static_cast<size_t>(d), kCanary);
        EXPECT_EQ(table.layer_norm(x.data(), d, 1, d, w.data(), nullptr, 1e-6f, y.data(), d), 1);
        for (const float v : y) ASSERT_EQ(v, 0.0f) << "d " << d << ", x " << x[0];
      });
    }
}

TEST(Kernels, NormsNameTheFirstRowThatOverflows) {
  constexpr int64_t kWidth = 40, kRows = 5;
  const std::vector<float> w(kWidth, 1.0f);
  for (int64_t bad = 0; bad <= kRows; ++bad) {
    std::vector<float> x(static_cast<size_t>(kRows * kWidth), 0.5f), y(x.size());
    for (int64_t row = bad; row < kRows; row += 2) x[static_cast<size_t>(row * kWidth + 39)] = 3e38f;
    each_table([&](const KernelTable& table) {
      EXPECT_EQ(table.rms_norm(x.data(), kWidth, kRows, kWidth, w.data(), 1e-6f, false, y.data(), kWidth),
                bad);
      EXPECT_EQ(table.layer_norm(x.data(), kWidth, kRows, kWidth, w.data(), nullptr, 1e-6f, y.data(), kWidth),
                bad);
    });
  }
}

TEST(Kernels, Rope) {
  Random random(11);
  for (const int64_t half : {1, 2, 7, 8, 15, 16, 17, 24, 32, 40, 48, 64, 128, 130})
    for (const int64_t rest : {0, 2, 6})
      for (const Values kind : {Values::kNormal, Values::kMixed}) {
        const int64_t heads = random.in(1, 4), head_dim = 2 * half + rest;
        const std::vector<float> x = draw_n(kind, heads * head_dim, random);
        const Guarded c(draw_n(Values::kNormal, half, random)), s(draw_n(Values::kNormal, half, random));
        Guarded expected(x), got(x);
        reference_table().rope(expected.data(), heads, head_dim, half, c.data(), s.data());
        each_table([&](const KernelTable& table) {
          std::copy(x.begin(), x.end(), got.data());
          table.rope(got.data(), heads, head_dim, half, c.data(), s.data());
          ASSERT_TRUE(same_bits(got.all(), expected.all())) << "half " << half << ", head_dim " << head_dim;
        });
      }
}

TEST(Kernels, Activations) {
  Random random(12);
  for (int64_t n = 1; n <= 70; ++n)
    for (const auto kind :
         {kernels::Activation::kSilu, kernels::Activation::kGelu, kernels::Activation::kGeluTanh})
      for (const bool gated : {false, true}) {
        const float reach = n % 3 == 0 ? 200.0f : 8.0f;
        const Guarded gate(n % 7 == 0 ? draw_n(Values::kMixed, n, random) : random.units(n, reach));
        const Guarded up(draw_n(Values::kMixed, n, random));
        Guarded expected(n), got(n);
        reference_table().activate(kind, gate.data(), gated ? up.data() : nullptr, n, expected.data());
        each_table([&](const KernelTable& table) {
          got.fill(kCanary);
          table.activate(kind, gate.data(), gated ? up.data() : nullptr, n, got.data());
          ASSERT_TRUE(same_bits(got.all(), expected.all()))
              << "n " << n << ", kind " << static_cast<int>(kind);
        });
      }
}

TEST(Kernels, UnaryOfAnyLength) {
  Random random(13);
  for (int kind = 0; kind < static_cast<int>(kernels::Unary::kCount); ++kind)
    for (int64_t n = 0; n <= 50; ++n) {
      const Guarded x(n % 2 == 0 ? random.units(n, 20.0f) : draw_n(Values::kMixed, n, random));
      Guarded expected(n), got(n);
      reference_table().unary(static_cast<kernels::Unary>(kind), x.data(), n, expected.data());
      each_table([&](const KernelTable& table) {
        got.fill(kCanary);
        table.unary(static_cast<kernels::Unary>(kind), x.data(), n, got.data());
        ASSERT_TRUE(same_bits(got.all(), expected.all())) << "kind " << kind << ", n " << n;
      });
    }
}

TEST(Kernels, AddAlsoInPlace) {
  Random random(14);
  for (int64_t n = 0; n <= 70; ++n) {
    const std::vector<float> a = draw_n(Values::kMixed, n, random);
    const Guarded b(draw_n(Values::kMixed, n, random));
    Guarded expected(a), got(a);
    reference_table().add(a.data(), b.data(), n, expected.data());
    each_table([&](const KernelTable& table) {
      std::copy(a.begin(), a.end(), got.data());
      table.add(got.data(), b.data(), n, got.data());
      ASSERT_TRUE(same_bits(got.all(), expected.all())) << "n " << n;
    });
  }
}

TEST(Kernels, FirstNonfinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  const std::vector<float> odd = {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()};
  for (const int64_t n : {0, 1, 15, 16, 17, 63, 64, 65, 130, 200}) {
    Guarded x(n);
    for (int64_t i = 0; i < n; ++i) x.data()[i] = i % 3 == 0 ? kLargest : i % 3 == 1 ? -kLargest : -0x1p-149f;
    each_table([&](const KernelTable& table) { ASSERT_EQ(table.first_nonfinite(x.data(), n), n); });
    for (int64_t i = 0; i < n; ++i) {
      const float saved[2] = {x.data()[i], x.data()[n - 1]};
      x.data()[n - 1] = kInf;
      x.data()[i] = odd[static_cast<size_t>(i) % 3];
      each_table(
          [&](const KernelTable& table) { ASSERT_EQ(table.first_nonfinite(x.data(), n), i) << "n " << n; });
      x.data()[n - 1] = saved[1];
      x.data()[i] = saved[0];
    }
  }
}

TEST(Kernels, ArgmaxTakesTheLowestOfEquals) {
  Random random(15);
  for (int64_t n = 1; n <= 100; ++n)
    for (int i = 0; i < 6; ++i) {
      Guarded x(n);
      for (int64_t j = 0; j < n; ++j)  // few values: ties everywhere
        x.data()[j] = i == 0 ? (random.coin() ? 0.0f : -0.0f)
                             : static_cast<float>(random.in(-3, i)) - (i > 3 ? 20.0f : 0.0f);
      const int64_t expected = std::max_element(x.data(), x.data() + n) - x.data();
      ASSERT_EQ(reference_table().argmax(x.data(), n), expected);
      each_table(
          [&](const KernelTable& table) { ASSERT_EQ(table.argmax(x.data(), n), expected) << "n " << n; });
    }
}

}  // namespace
}  // namespace isobit::testing

// SPDX-License-Identifier: Apache-2.0
// Products of integer profiles over units, rows and threads are those of the reference kernels; packing and
// unpacking keep the codes.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <tuple>

#include "core/fp_env.h"
#include "kernels/table.h"
#include "ops/integer_matrix.h"
#include "support/bits.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

TensorView view(const std::vector<float>& x, int64_t rows, int64_t columns) {
  return {DType::F32, {rows, columns}, reinterpret_cast<const std::byte*>(x.data())};
}

PackedMatrix pack(const std::vector<float>& w, int64_t n, int64_t k, NumericProfile profile) {
  const TensorView part = view(w, n, k);
  const std::string name = "w";
  return ops::pack({&part, 1}, {&name, 1}, "Test", WeightFormat::kFloat32, profile);
}

class IntegerLinear : public ::testing::TestWithParam<NumericProfile> {};

TEST_P(IntegerLinear, EqualsTheReferenceKernel) {
  Random random(1);
  const FpEnv environment;
  for (const auto& shape : {std::tuple<int64_t, int64_t, int64_t>{1, 700, 300},
                            {5, 70, 1000},
                            {17, 129, 33},
                            {200, 100, 513},
                            {1, 1, 1},
                            {3, 33, 31}}) {
    const int64_t rows = std::get<0>(shape), n = std::get<1>(shape), k = std::get<2>(shape);
    const int64_t ldx = k + 2, ldy = n + 3;
    const std::vector<float> x = random.units(rows * ldx), w = random.units(n * k), bias = random.units(n);
    const PackedMatrix packed = pack(w, n, k, GetParam());
    std::vector<float> expected(static_cast<size_t>(rows * ldy), -1.0f);
    ops::IntegerRows quantized;
    quantized.quantize(kernels::reference_table(), x.data(), ldx, rows, packed);
    quantized.multiply(kernels::reference_table(), 0, rows, packed, 0, n, bias.data(), expected.data(), ldy);
    on_every_isa([&] {
      std::vector<float> y(expected.size(), -1.0f);
      const PackedMatrix own = pack(w, n, k, GetParam());
      ASSERT_TRUE(ops::linear(x.data(), ldx, rows, own, bias.data(), y.data(), ldy));
      ASSERT_TRUE(same_bits(y, expected)) << rows << " x " << n << " x " << k;
    });
  }
}

TEST_P(IntegerLinear, UnpackedRowsPackToTheSameCodes) {
  const float step = GetParam() == NumericProfile::kFixed15V1 ? 1e-4f : 5e-3f;
  Random random(2);
  for (int i = 0; i < 400; ++i) {
    const int64_t n = random.in(1, 40), k = random.in(1, 70);
    std::vector<float> w = random.units(n * k);
    // Every magnitude, and again those whose scales are subnormal.
    const int64_t exponent = i < 200 ? random.in(0, 250) : random.in(-22, 9);
    const float scale = std::ldexp(1.0f, static_cast<int>(exponent) - 127);
    for (float& v : w) v *= scale;
    const PackedMatrix packed = pack(w, n, k, GetParam());
    std::vector<float> back(w.size());
    ops::unpack_rows(packed, 0, n, back.data());
    const PackedMatrix again = pack(back, n, k, GetParam());
    ASSERT_EQ(std::memcmp(packed.panels.data(), again.panels.data(),
                          static_cast<size_t>(packed.panels.size()) * sizeof(float)),
              0);
    ASSERT_TRUE(same_bits({packed.scales.data(), static_cast<size_t>(packed.scales.size())},
                          {again.scales.data(), static_cast<size_t>(again.scales.size())}));
    for (size_t j = 0; j < w.size(); ++j) ASSERT_NEAR(back[j], w[j], scale * step + 0x1p-142f);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, IntegerLinear,
                         ::testing::Values(NumericProfile::kFixed15V1, NumericProfile::kInt8x32V1),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace isobit::testing

// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 and int8 panels equal, bit for bit, the reference's float32 product of the widened
// weights, over ragged shapes and every kind of value, and stay inside their memory.
#include <cstring>

#include "kernels/kernel_cases.h"

namespace isobit::testing {
namespace {

using kernels::KernelTable;
using kernels::kPanel;
using kernels::reference_table;

enum class Stored { kBf16, kInt8 };

struct Shape {
  int64_t rows, cols, k;
};

int64_t columns_of(int64_t cols, int64_t panel = kPanel) { return (cols + panel - 1) / panel * panel; }

int64_t bytes_of(Stored stored, const Shape& s) {
  return s.k * (stored == Stored::kBf16 ? 2 * columns_of(s.cols) : columns_of(s.cols, kernels::kInt8Panel));
}

// Panels of random elements, zero past `cols`, at the end of what may be read; and what they widen to.
struct Operands {
  Operands(Stored stored, const Shape& s, Values kind, Random& random)
      : bytes(bytes_of(stored, s) / 4), scales(columns_of(s.cols)), widened(columns_of(s.cols) * s.k) {
    scales.fill(0.0f);
    const bool moderate = random.coin();  // as in a model, or any that there are
    for (int64_t c = 0; c < s.cols; ++c)
      scales.data()[c] = std::bit_cast<float>(
          static_cast<uint32_t>(moderate ? random.in(67, 167) : random.in(1, 245)) << 23);
    if (random.in(0, 4) == 0) scales.data()[0] = 0x1p-149f;
    std::memset(bytes.data(), 0, static_cast<size_t>(bytes.size()) * 4);
    widened.fill(0.0f);
    for (int64_t c = 0; c < s.cols; ++c)
      for (int64_t i = 0; i < s.k; ++i) {
        const int64_t at = c / kPanel * kPanel * s.k + i * kPanel + c % kPanel;
        if (stored == Stored::kBf16) {
          const uint32_t upper = std::bit_cast<uint32_t>(draw(kind, random)) >> 16;
          bf16()[kernels::bf16_index(c, i, s.k)] = static_cast<uint16_t>(upper);
          widened.data()[at] = std::bit_cast<float>(upper << 16);
        } else {
          const auto code = static_cast<int8_t>(random.in(-127, 127));
          int8()[kernels::int8_index(c, i, s.k)] = code;
          widened.data()[at] = static_cast<float>(code) * scales.data()[c];
        }
      }
  }
  uint16_t* bf16() { return reinterpret_cast<uint16_t*>(bytes.data()); }
  int8_t* int8() { return reinterpret_cast<int8_t*>(bytes.data()); }

  Guarded bytes, scales, widened;
};

void check(Stored stored, const Shape& s, Values kind, uint64_t seed) {
  SCOPED_TRACE("rows " + std::to_string(s.rows) + ", cols " + std::to_string(s.cols) + ", k " +
               std::to_string(s.k) + ", values " + std::to_string(static_cast<int>(kind)) +
               (stored == Stored::kBf16 ? ", bfloat16" : ", int8"));
  const FpEnv environment;
  Random random(seed);
  const int64_t lda = s.k + random.in(0, 3), ldc = s.cols + random.in(0, 3);
  const Guarded a(draw_n(kind, (s.rows - 1) * lda + s.k, random));
  Operands w(stored, s, kind, random);
  const Guarded bias(draw_n(kind, s.cols, random));
  const float* shift = random.coin() ? bias.data() : nullptr;
  Guarded expected((s.rows - 1) * ldc + s.cols), got(expected.size()), scratch(kPanel * s.k);
  expected.fill(kCanary);
  reference_table().matmul(a.data(), lda, s.rows, w.widened.data(), s.k, s.cols, shift, expected.data(), ldc);
  const auto compare = [&](const KernelTable& table) {
    got.fill(kCanary);
    if (stored == Stored::kBf16)
      table.matmul_bf16(a.data(), lda, s.rows, w.bf16(), s.k, s.cols, shift, got.data(), ldc, scratch.data());
    else
      table.matmul_int8(a.data(), lda, s.rows, w.int8(), w.scales.data(), s.k, s.cols, shift, got.data(), ldc,
                        scratch.data());
    ASSERT_TRUE(same_bits(got.all(), expected.all()));
  };
  compare(reference_table());
  each_table(compare);
}

class MatmulStored : public ::testing::TestWithParam<Stored> {};

TEST_P(MatmulStored, EveryRowCount) {
  Random random(1);
  for (int64_t rows = 1; rows <= 26; ++rows)
    for (const Values kind : {Values::kNormal, Values::kMixed})
      check(GetParam(), {rows, random.in(1, 70), random.in(1, 40)}, kind, random.bits());
  for (const int64_t rows : {96, 97, 200}) check(GetParam(), {rows, 40, 20}, Values::kNormal, random.bits());
}

TEST_P(MatmulStored, EveryColumnCount) {
  Random random(2);
  for (int64_t cols = 1; cols <= 70; ++cols)
    for (const int64_t rows : {int64_t{1}, random.in(2, 4), random.in(5, 14)})
      check(GetParam(), {rows, cols, random.in(1, 40)}, Values::kMixed, random.bits());
  for (const int64_t cols : {127, 128, 129, 255, 256, 257})
    for (const int64_t rows : {1, 2, 3, 4, 5})
      check(GetParam(), {rows, cols, 33}, Values::kNormal, random.bits());
}

TEST_P(MatmulStored, EveryDepthAndKindOfValue) {
  Random random(3);
  for (const int64_t k : {0, 1, 2, 15, 16, 17, 255, 256, 257, 511, 512, 513, 769, 1025, 2305})
    for (const Values kind : all_values())
      for (const int64_t rows : {int64_t{1}, random.in(2, 4), random.in(5, 9)})
        check(GetParam(), {rows, random.in(1, 50), k}, kind, random.bits());
}

INSTANTIATE_TEST_SUITE_P(Each, MatmulStored, ::testing::Values(Stored::kBf16, Stored::kInt8),
                         [](const auto& info) { return info.param == Stored::kBf16 ? "bfloat16" : "int8"; });

}  // namespace
}  // namespace isobit::testing

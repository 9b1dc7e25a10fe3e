// SPDX-License-Identifier: Apache-2.0
// The integer profiles' kernels (contract 7c): every table equals the reference bit for bit over ragged
// shapes and planted extremes, and known answers hold at every bound.
#include <cmath>
#include <cstring>

#include "core/aligned_buffer.h"
#include "kernels/kernel_cases.h"

namespace isobit::testing {
namespace {

using kernels::int15_stride;
using kernels::Int15Rows;
using kernels::Int8Group;
using kernels::Int8Rows;
using kernels::KernelTable;
using kernels::kInt8Block;
using kernels::kInt8BlockBytes;
using kernels::kInt8Group;
using kernels::kPanel;
using kernels::reference_table;

int64_t panels_of(int64_t cols) { return (cols + kPanel - 1) / kPanel; }

/// check(table) for the reference and every table of this CPU.
template <typename Check>
void reference_and_each_table(const Check& check) {
  const FpEnv environment;
  check(reference_table());
  each_table(check);
}

// On a CPU with dot instructions the set without them is a table of its own, so that both are tested.
TEST(IntegerTables, WithAndWithoutDotInstructions) {
  const auto find = [](const std::string& name) -> const KernelTable* {
    for (const KernelTable* table : kernels::available_tables())
      if (name == table->isa) return table;
    return nullptr;
  };
  for (const auto& [with, without] : {std::pair{"avx512vnni", "avx512"}, std::pair{"neondot", "neon"}}) {
    const KernelTable *dots = find(with), *plain = find(without);
    if (dots == nullptr) continue;
    ASSERT_NE(plain, nullptr) << without;
    EXPECT_STREQ(plain->dot.isa, without);
    EXPECT_NE(dots->dot.matmul_int15, plain->dot.matmul_int15);
    EXPECT_NE(dots->dot.matmul_int8x32, plain->dot.matmul_int8x32);
    EXPECT_NE(dots->dot.matmul_int4x32, plain->dot.matmul_int4x32);
    EXPECT_EQ(dots->matmul, plain->matmul);
  }
}

/// Every table's product [rows, cols] of a problem equals the reference's and writes nothing beside it.
template <typename Problem>
void check_tables(Problem& problem, int64_t rows, int64_t cols, const float* shift, Random& random) {
  const int64_t ldc = cols + random.in(0, 3);
  Guarded expected((rows - 1) * ldc + cols), got(expected.size());
  expected.fill(kCanary);
  problem.run(reference_table(), shift, expected.data(), ldc);
  each_table([&](const KernelTable& table) {
    got.fill(kCanary);
    problem.run(table, shift, got.data(), ldc);
    ASSERT_TRUE(same_bits(got.all(), expected.all()));
  });
}

// --- 15 bits

enum class Codes { kAny, kLargest, kSmall };

int16_t draw_code(Codes kind, Random& random) {
  if (kind == Codes::kLargest) return random.coin() ? 16383 : -16383;
  if (kind == Codes::kSmall) return static_cast<int16_t>(random.in(-2, 2));
  return static_cast<int16_t>(random.in(-16383, 16383));
}

// Operands of a product [rows, k] x [cols, k], both as codes with exponents.
struct Int15Problem {
  Int15Problem(int64_t rows_, int64_t cols_, int64_t k_)
      : rows(rows_),
        cols(cols_),
        k(k_),
        a((rows_ * int15_stride(k_) + 1) / 2),
        w(panels_of(cols_) * kPanel * ((k_ + 1) / 2)),
        a_exponents(static_cast<size_t>(rows_)),
        w_exponents(static_cast<size_t>(panels_of(cols_) * kPanel)) {
    a.fill(0.0f);
    w.fill(0.0f);
  }
  int16_t& left(int64_t r, int64_t i) {
    return reinterpret_cast<int16_t*>(a.data())[r * int15_stride(k) + i];
  }
  int16_t& right(int64_t n, int64_t i) {
    const int64_t pairs = (k + 1) / 2;
    return reinterpret_cast<int16_t*>(
        w.data())[n / kPanel * kPanel * 2 * pairs + i / 2 * 2 * kPanel + n % kPanel * 2 + i % 2];
  }
  void run(const KernelTable& table, const float* bias, float* c, int64_t ldc) {
    table.dot.matmul_int15({reinterpret_cast<int16_t*>(a.data()), int15_stride(k), a_exponents.data()}, rows,
                           reinterpret_cast<int16_t*>(w.data()), w_exponents.data(), k, cols, bias, c, ldc);
  }
  int64_t rows, cols, k;
  Guarded a, w;
  std::vector<int32_t> a_exponents, w_exponents;
};

void check_int15(int64_t rows, int64_t cols, int64_t k, Codes kind, int32_t exponents, uint64_t seed) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols) + " x " + std::to_string(k));
  Random random(seed);
  Int15Problem problem(rows, cols, k);
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t r = 0; r < rows; ++r) problem.left(r, i) = draw_code(kind, random);
    for (int64_t n = 0; n < cols; ++n) problem.right(n, i) = draw_code(kind, random);
  }
  for (int32_t& e : problem.a_exponents) e = exponents + static_cast<int32_t>(random.in(-20, 20));
  for (int32_t& e : problem.w_exponents) e = static_cast<int32_t>(random.in(-20, 20));
  const Guarded bias(random.units(cols));
  const float* shift = exponents == 0 && random.coin() ? bias.data() : nullptr;
  check_tables(problem, rows, cols, shift, random);
}

TEST(MatmulInt15Kernel, EveryShape) {
  Random random(1);
  for (int64_t rows = 1; rows <= 14; ++rows)
    check_int15(rows, random.in(1, 70), random.in(1, 40), Codes::kAny, 0, random.bits());
  for (int64_t cols = 1; cols <= 70; ++cols)
    check_int15(random.in(1, 5), cols, random.in(1, 40), Codes::kAny, 0, random.bits());
  for (int64_t k = 1; k <= 35; ++k)
    check_int15(random.in(1, 6), random.in(1, 40), k, Codes::kAny, 0, random.bits());
  for (const int64_t k : {255, 256, 257, 1000, 4099})
    for (const Codes kind : {Codes::kAny, Codes::kLargest, Codes::kSmall})
      check_int15(random.in(1, 6), random.in(1, 40), k, kind, 0, random.bits());
}

TEST(MatmulInt15Kernel, EdgesOfFloat32) {
  Random random(2);
  // Sums of exponents from far below the least subnormal to far above the largest number.
  for (int32_t e = -330; e <= 150; e += 3)
    check_int15(random.in(1, 5), random.in(1, 40), random.in(1, 9), Codes::kAny, e, random.bits());
}

TEST(MatmulInt15Kernel, LongestRowsOfTheLargestCodes) {
  Random random(3);
  check_int15(2, 33, kernels::kMaxIntegerK, Codes::kLargest, 0, random.bits());
  check_int15(1, 3, kernels::kMaxIntegerK - 1, Codes::kAny, 0, random.bits());
  for (const bool negative : {false, true}) {
    Int15Problem problem(3, 2, kernels::kMaxIntegerK);
    for (int64_t i = 0; i < problem.k; ++i) {
      for (int64_t r = 0; r < 3; ++r) problem.left(r, i) = negative ? -16383 : 16383;
      for (int64_t n = 0; n < 2; ++n) problem.right(n, i) = 16383;
    }
    const float exact = static_cast<float>(16383.0 * 16383.0 * 65536.0);
    reference_and_each_table([&](const KernelTable& table) {
      std::vector<float> c(6);
      problem.run(table, nullptr, c.data(), 2);
      ASSERT_TRUE(same_bits(c, std::vector<float>(6, negative ? -exact : exact)));
    });
  }
}

// One product of one row and output, whose sum is exactly `sum` (up to 2^28 + 2^15), times 2^exponent.
float one_sum(const KernelTable& table, int64_t sum, int32_t exponent) {
  Int15Problem problem(1, 1, 4);
  const int64_t sign = sum < 0 ? -1 : 1, size = sum * sign;
  problem.left(0, 0) = static_cast<int16_t>(sign * (size / 16383));
  problem.right(0, 0) = 16383;
  problem.left(0, 1) = static_cast<int16_t>(sign * (size % 16383));
  problem.right(0, 1) = 1;
  problem.a_exponents[0] = exponent / 2;
  problem.w_exponents[0] = exponent - exponent / 2;
  float y = kCanary;
  problem.run(table, nullptr, &y, 1);
  return y;
}

TEST(MatmulInt15Kernel, RoundsTheSumOnceAndTheResultOnce) {
  const int64_t big = int64_t{1} << 24;
  reference_and_each_table([&](const KernelTable& table) {
    const auto expect = [&](int64_t sum, int32_t exponent, float y) {
      EXPECT_EQ(std::bit_cast<uint32_t>(one_sum(table, sum, exponent)), std::bit_cast<uint32_t>(y))
          << table.isa << ' ' << sum << " * 2^" << exponent;
      EXPECT_EQ(std::bit_cast<uint32_t>(one_sum(table, -sum, exponent)),
                std::bit_cast<uint32_t>(sum == 0 ? 0.0f : -y))
          << table.isa << ' ' << -sum << " * 2^" << exponent;
    };
    // Ties of the sum: to the even neighbour.
    expect(big - 1, 0, 0x1.fffffep23f);
    expect(big, 0, 0x1p24f);
    expect(big + 1, 0, 0x1p24f);
    expect(big + 2, 0, 0x1.000002p24f);
    expect(big + 3, 0, 0x1.000004p24f);
    for (const int64_t high : {int64_t{1} << 28, int64_t{3} << 26}) {  // neighbours are 32 and 16 apart
      const int64_t half = high == int64_t{1} << 28 ? 16 : 8;
      const auto value = static_cast<float>(high), step = static_cast<float>(2 * half);
      expect(high + half - 1, 0, value);
      expect(high + half, 0, value);
      expect(high + half + 1, 0, value + step);
      expect(high + 3 * half, 0, value + 2 * step);
    }
    expect(0, -300, 0.0f);
    expect(0, 220, 0.0f);
    // The result among the subnormals: 2^-149 is the least, half of it is a tie to zero.
    expect(1, -149, 0x1p-149f);
    expect(1, -150, 0.0f);
    expect(3, -150, 0x1p-148f);
    expect(5, -150, 0x1p-148f);
    expect(3, -151, 0x1p-149f);
    expect(1, -300, 0.0f);
    // Two roundings, not one: 2^24 + 1 becomes 2^24 first, then a tie that goes to zero.
    expect(big + 1, -174, 0.0f);
    expect(big + 2, -174, 0x1p-149f);
    // The largest number, and beyond.
    expect(big - 1, 104, 0x1.fffffep127f);
    expect(big, 104, std::numeric_limits<float>::infinity());
    expect(1, 127, 0x1p127f);
    expect(1, 128, std::numeric_limits<float>::infinity());
    expect(1, 220, std::numeric_limits<float>::infinity());
  });
}

TEST(MatmulInt15Kernel, EveryCode) {
  constexpr int64_t kCodes = 2 * 16383 + 1;
  Int15Problem problem(1, kCodes, 1);
  problem.left(0, 0) = 16383;
  for (int64_t n = 0; n < kCodes; ++n) problem.right(n, 0) = static_cast<int16_t>(n - 16383);
  reference_and_each_table([&](const KernelTable& table) {
    std::vector<float> c(kCodes);
    problem.run(table, nullptr, c.data(), kCodes);
    for (int64_t n = 0; n < kCodes; ++n)
      ASSERT_EQ(c[static_cast<size_t>(n)], static_cast<float>((n - 16383) * 16383));
  });
}

struct Int15Codes {
  std::vector<int16_t> codes;
  std::vector<int32_t> exponents;
};

Int15Codes quantize_int15(const KernelTable& table, const float* x, int64_t ldx, int64_t rows, int64_t k) {
  Int15Codes q{std::vector<int16_t>(static_cast<size_t>(rows * int15_stride(k)), -1),
               std::vector<int32_t>(static_cast<size_t>(rows), -1)};
  table.quantize_int15(x, ldx, rows, k, q.codes.data(), int15_stride(k), q.exponents.data());
  return q;
}

TEST(QuantizeInt15Kernel, EveryShapeAndKindOfValue) {
  Random random(4);
  for (int64_t k = 1; k <= 70; ++k)
    for (const Values kind : all_values()) {
      const int64_t rows = random.in(1, 4), ldx = k + random.in(0, 3);
      const Guarded x(draw_n(kind, (rows - 1) * ldx + k, random));
      const Int15Codes expected = quantize_int15(reference_table(), x.data(), ldx, rows, k);
      each_table([&](const KernelTable& table) {
        const Int15Codes got = quantize_int15(table, x.data(), ldx, rows, k);
        ASSERT_EQ(got.exponents, expected.exponents);
        ASSERT_EQ(got.codes, expected.codes);
      });
    }
}

TEST(QuantizeInt15Kernel, KnownCodes) {
  reference_and_each_table([&](const KernelTable& table) {
    const auto expect = [&](const std::vector<float>& x, int32_t exponent,
                            const std::vector<int16_t>& codes) {
      const auto k = static_cast<int64_t>(x.size());
      Int15Codes got = quantize_int15(table, x.data(), k, 1, k);
      EXPECT_EQ(got.exponents[0], exponent) << table.isa;
      got.codes.resize(x.size());
      EXPECT_EQ(got.codes, codes) << table.isa;
    };
    expect({0.0f, -0.0f}, 0, {0, 0});
    expect({1.0f, -1.0f, 0x1p-13f, 0x1p-14f, 0x1.8p-13f, -0x1.4p-12f}, -13, {8192, -8192, 1, 0, 2, -2});
    expect({0x1.fffffep0f, -0x1.fffffep0f}, -13, {16383, -16383});  // 16384 is limited
    expect({0x1.fffffep127f, -0x1p100f, 0x1p-149f}, 114, {16383, 0, 0});
    expect({0x1p-149f, -0x1p-149f}, -162, {8192, -8192});
    expect({0x1.fffffcp-127f, 0x1p-149f}, -140, {16383, 0});
    expect({0x1p-126f, 0x1.8p-127f}, -139, {8192, 6144});
    expect({0x1p14f, 0.5f, 1.5f, 3.0f, 5.0f}, 1, {8192, 0, 1, 2, 2});
  });
}

// --- 8 bits

struct Int8Problem {
  Int8Problem(int64_t rows_, int64_t cols_, int64_t k_)
      : rows(rows_),
        cols(cols_),
        blocks((k_ + kInt8Block - 1) / kInt8Block),
        groups(static_cast<size_t>((rows_ + kInt8Group - 1) / kInt8Group * blocks)),
        w(panels_of(cols_) * blocks * kInt8BlockBytes / 4) {
    for (Int8Group& group : groups) std::fill_n(group.scales, kInt8Group, 1.0f);
    std::memset(w.data(), 128, static_cast<size_t>(w.size()) * 4);
    for (int64_t n = 0; n < panels_of(cols) * kPanel; ++n)
      for (int64_t b = 0; b < blocks; ++b) scale(n, b) = 1.0f;
  }
  void set_left(int64_t r, int64_t i, int64_t code) {
    int8_t& x = group(r, i / kInt8Block).codes[r % kInt8Group][i % kInt8Block];
    group(r, i / kInt8Block).offsets[r % kInt8Group] -= static_cast<int32_t>(128 * (code - x));
    x = static_cast<int8_t>(code);
  }
  void set_right(int64_t n, int64_t i, int64_t code) {
    block(n, i / kInt8Block)[i % kInt8Block / 4 * 4 * kPanel + n % kPanel * 4 + i % 4] =
        static_cast<uint8_t>(code + 128);
  }
  float& scale(int64_t n, int64_t b) {
    return reinterpret_cast<float*>(block(n, b) + kInt8Block * kPanel)[n % kPanel];
  }
  void run(const KernelTable& table, const float* bias, float* c, int64_t ldc) {
    table.dot.matmul_int8x32({groups.data(), blocks}, rows, reinterpret_cast<uint8_t*>(w.data()), cols, bias,
                             c, ldc);
  }
  float& row_scale(int64_t r, int64_t b) { return group(r, b).scales[r % kInt8Group]; }
  Int8Group& group(int64_t r, int64_t b) { return groups[static_cast<size_t>(r / kInt8Group * blocks + b)]; }
  uint8_t* block(int64_t n, int64_t b) {
    return reinterpret_cast<uint8_t*>(w.data()) + (n / kPanel * blocks + b) * kInt8BlockBytes;
  }
  int64_t rows, cols, blocks;
  std::vector<Int8Group> groups;
  Guarded w;
};

void check_int8(int64_t rows, int64_t cols, int64_t k, Values scales, bool largest, uint64_t seed) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols) + " x " + std::to_string(k));
  Random random(seed);
  Int8Problem problem(rows, cols, k);
  const auto code = [&] { return largest ? (random.coin() ? 127 : -127) : random.in(-127, 127); };
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t r = 0; r < rows; ++r) problem.set_left(r, i, code());
    for (int64_t n = 0; n < cols; ++n) problem.set_right(n, i, code());
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < problem.blocks; ++b)
      problem.row_scale(r, b) = std::fabs(draw(scales, random)) / 127.0f;
  for (int64_t n = 0; n < cols; ++n)
    for (int64_t b = 0; b < problem.blocks; ++b)
      problem.scale(n, b) = std::fabs(draw(scales, random)) / 127.0f;
  const Guarded bias(random.units(cols));
  const float* shift = random.coin() ? bias.data() : nullptr;
  check_tables(problem, rows, cols, shift, random);
}

TEST(MatmulInt8x32Kernel, EveryShape) {
  Random random(5);
  for (int64_t rows = 1; rows <= 14; ++rows)
    check_int8(rows, random.in(1, 70), random.in(1, 70), Values::kNormal, false, random.bits());
  for (int64_t cols = 1; cols <= 70; ++cols)
    check_int8(random.in(1, 5), cols, random.in(1, 70), Values::kNormal, false, random.bits());
  for (int64_t k = 1; k <= 100; ++k)
    check_int8(random.in(1, 5), random.in(1, 40), k, Values::kNormal, false, random.bits());
}

TEST(MatmulInt8x32Kernel, EveryDepthAndKindOfScale) {
  Random random(6);
  for (const int64_t k : {31, 32, 33, 255, 256, 257, 288, 511, 512, 513, 767, 769, 1025, 1281, 2305})
    for (const Values kind : all_values())
      check_int8(random.in(1, 6), random.in(1, 40), k, kind, random.coin(), random.bits());
  check_int8(2, 8, 70 * 256 + 1, Values::kNormal, false, 7);
  check_int8(1, 3, 65536, Values::kNormal, true, 8);
}

TEST(MatmulInt8x32Kernel, EveryPairOfCodes) {
  Int8Problem problem(255, 255, 1);
  for (int64_t code = -127; code <= 127; ++code) {
    problem.set_left(code + 127, 0, code);
    problem.set_right(code + 127, 0, code);
  }
  reference_and_each_table([&](const KernelTable& table) {
    std::vector<float> c(255 * 255);
    problem.run(table, nullptr, c.data(), 255);
    for (int64_t i = 0; i < 255; ++i)
      for (int64_t j = 0; j < 255; ++j)
        ASSERT_EQ(c[static_cast<size_t>(i * 255 + j)], static_cast<float>((i - 127) * (j - 127)));
  });
}

// Every 32-block sums to +-32 * 127 * 127, and all sums of them are exact.
TEST(MatmulInt8x32Kernel, LongestRowsOfTheLargestCodes) {
  for (const bool negative : {false, true}) {
    Int8Problem problem(3, 2, 65536);
    for (int64_t i = 0; i < 65536; ++i) {
      for (int64_t r = 0; r < 3; ++r) problem.set_left(r, i, negative ? -127 : 127);
      for (int64_t n = 0; n < 2; ++n) problem.set_right(n, i, n == 0 ? 127 : -127);
    }
    const float exact = (negative ? -127.0f : 127.0f) * 127.0f * 65536.0f;
    reference_and_each_table([&](const KernelTable& table) {
      std::vector<float> c(6);
      problem.run(table, nullptr, c.data(), 2);
      ASSERT_EQ(c, (std::vector<float>{exact, -exact, exact, -exact, exact, -exact})) << table.isa;
    });
  }
}

// Blocks that make the order visible: 2^24 absorbs a 1 that is added to it alone.
TEST(MatmulInt8x32Kernel, AddsBlocksAsTheContractSays) {
  reference_and_each_table([&](const KernelTable& table) {
    Int8Problem problem(1, 1, 1025);
    for (const int64_t i : {0, 512, 768}) {
      problem.set_left(0, i, 1);
      problem.set_right(0, i, 1);
    }
    problem.scale(0, 0) = 0x1p24f;
    float y = kCanary;
    problem.run(table, nullptr, &y, 1);
    EXPECT_EQ(y, 0x1p24f + 2.0f) << table.isa;  // the blocks of 512 and 768 meet first
    // The product of the scales is rounded before it meets the sum, and the sum fuses.
    Int8Problem fused(1, 1, 64);
    for (const int64_t i : {0, 32}) {
      fused.set_left(0, i, 3);
      fused.set_right(0, i, i == 0 ? -1 : 1);
    }
    fused.row_scale(0, 1) = 0x1.000002p0f;
    fused.scale(0, 1) = 0x1.000002p0f;
    fused.run(table, nullptr, &y, 1);
    EXPECT_EQ(y, 3 * 0x1p-22f) << table.isa;
    fused.scale(0, 0) = 0x1p-149f;  // -3 * 2^-149 from +0, then 3 * 2^-149 * (1 + 2^-22): exactly +0
    fused.scale(0, 1) = 0x1p-149f;
    fused.run(table, nullptr, &y, 1);
    EXPECT_EQ(std::bit_cast<uint32_t>(y), 0u) << table.isa;
  });
}

// 4-bit panels of random nibbles, scales and minima by the rows of an Int8Problem.
void check_int4(int64_t rows, int64_t cols, int64_t k, bool has_min, uint64_t seed) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols) + " x " + std::to_string(k) +
               (has_min ? ", minima" : ""));
  Random random(seed);
  Int8Problem left(rows, 1, k);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t r = 0; r < rows; ++r) left.set_left(r, i, random.in(-127, 127));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < left.blocks; ++b) left.row_scale(r, b) = std::fabs(random.unit());
  const int64_t bytes = has_min ? kernels::kInt4MinBlockBytes : kernels::kInt4BlockBytes;
  const int64_t all = panels_of(cols) * left.blocks * bytes;
  Guarded panels(all / 4);
  auto* p = reinterpret_cast<uint8_t*>(panels.data());
  for (int64_t i = 0; i < all; ++i) {
    const bool exponent_byte = i % bytes >= kInt8Block * kPanel / 2 && i % 2 == 1;  // of a binary16: finite
    p[i] = static_cast<uint8_t>(random.in(0, 255) & (exponent_byte && random.in(0, 9) != 0 ? 0xbb : 0xff));
    if (exponent_byte && (p[i] & 0x7c) == 0x7c) p[i] = 0x3c;
  }
  const Guarded bias(random.units(cols));
  const float* shift = random.coin() ? bias.data() : nullptr;
  const int64_t ldc = cols + random.in(0, 3);
  Guarded expected((rows - 1) * ldc + cols), got(expected.size());
  const Int8Rows a = {left.groups.data(), left.blocks};
  expected.fill(kCanary);
  reference_table().dot.matmul_int4x32(a, rows, p, has_min, cols, shift, expected.data(), ldc);
  each_table([&](const KernelTable& table) {
    got.fill(kCanary);
    table.dot.matmul_int4x32(a, rows, p, has_min, cols, shift, got.data(), ldc);
    ASSERT_TRUE(same_bits(got.all(), expected.all()));
  });
}

TEST(MatmulInt4x32Kernel, EveryShape) {
  Random random(10);
  for (const bool has_min : {false, true}) {
    for (int64_t rows = 1; rows <= 14; ++rows)
      check_int4(rows, random.in(1, 70), random.in(1, 70), has_min, random.bits());
    for (int64_t cols = 1; cols <= 70; ++cols)
      check_int4(random.in(1, 5), cols, random.in(1, 70), has_min, random.bits());
    for (const int64_t k : {31, 32, 33, 256, 257, 512, 513, 1025, 2305, 4096})
      check_int4(random.in(1, 5), random.in(1, 40), k, has_min, random.bits());
  }
}

// Rows of one code and panels of all 16 of them, with scale 1 and minimum -3: where there are minima the
// product is a * (code - 3) for each of the k columns, and else a * (code - 8).
void check_every_int4_code(int64_t k, bool has_min, const std::vector<int64_t>& codes) {
  constexpr int64_t kCodes = 16;
  const auto rows = static_cast<int64_t>(codes.size());
  Int8Problem left(rows, 1, k);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) left.set_left(r, i, codes[static_cast<size_t>(r)]);
  const int64_t bytes = has_min ? kernels::kInt4MinBlockBytes : kernels::kInt4BlockBytes;
  AlignedBuffer panels(left.blocks * bytes / 4);
  for (int64_t b = 0; b < left.blocks; ++b) {
    uint8_t* block = reinterpret_cast<uint8_t*>(panels.data()) + b * bytes;
    for (int64_t n = 0; n < kCodes; ++n) {
      for (int64_t i = 0; i < 16; ++i)
        block[i / 4 * 4 * kPanel + 4 * n + i % 4] = static_cast<uint8_t>(n << 4 | n);
      uint8_t* scale = block + kInt8Block * kPanel / 2 + 2 * n;
      scale[1] = 0x3c;                                                      // 1
      if (has_min) scale[2 * kPanel] = 0x00, scale[2 * kPanel + 1] = 0xc2;  // -3
    }
  }
  const Int8Rows a = {left.groups.data(), left.blocks};
  reference_and_each_table([&](const KernelTable& table) {
    std::vector<float> c(static_cast<size_t>(rows * kCodes));
    table.dot.matmul_int4x32(a, rows, reinterpret_cast<uint8_t*>(panels.data()), has_min, kCodes, nullptr,
                             c.data(), kCodes);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t n = 0; n < kCodes; ++n)
        ASSERT_EQ(c[static_cast<size_t>(r * kCodes + n)],
                  static_cast<float>(k * codes[static_cast<size_t>(r)] * (n - (has_min ? 3 : 8))))
            << table.isa;
  });
}

TEST(MatmulInt4x32Kernel, EveryPairOfCodes) {
  std::vector<int64_t> all;
  for (int64_t code = -127; code <= 127; ++code) all.push_back(code);
  for (const bool has_min : {false, true}) check_every_int4_code(32, has_min, all);
}

TEST(MatmulInt4x32Kernel, LongestRowsOfTheLargestCodes) {
  for (const bool has_min : {false, true}) check_every_int4_code(65536, has_min, {127, -127, 0});
}

// One block: codes 0 and 15 in both halves of a byte, a scale and a minimum among the subnormals of binary16.
TEST(MatmulInt4x32Kernel, KnownProducts) {
  reference_and_each_table([&](const KernelTable& table) {
    for (const bool has_min : {false, true}) {
      Int8Problem left(1, 1, 32);
      left.set_left(0, 1, 127);    // low nibble of byte 1
      left.set_left(0, 31, -127);  // high nibble of byte 15
      left.set_left(0, 16, 3);     // high nibble of byte 0
      AlignedBuffer panels(kernels::kInt4MinBlockBytes / 4);
      auto* p = reinterpret_cast<uint8_t*>(panels.data());
      p[1] = 0x0f;            // k = 1: 15, k = 17: 0
      p[3 * 128 + 3] = 0x50;  // k = 15: 0, k = 31: 5
      uint8_t* scales = p + 512;
      scales[0] = 0x01, scales[1] = 0x00;    // 2^-24
      scales[64] = 0x00, scales[65] = 0xc0;  // -2
      float y = kCanary;
      const Int8Rows a = {left.groups.data(), 1};
      table.dot.matmul_int4x32(a, 1, p, has_min, 1, nullptr, &y, 1);
      const int d = 127 * 15 - 127 * 5, sum = 3;
      const float expected = has_min
                                 ? std::fma(static_cast<float>(sum), -2.0f, static_cast<float>(d) * 0x1p-24f)
                                 : static_cast<float>(d - 8 * sum) * 0x1p-24f;
      EXPECT_EQ(y, expected) << table.isa;
    }
  });
}

/// With other bytes wherever nothing is to be written.
std::vector<Int8Group> quantize_int8x32(const KernelTable& table, const float* x, int64_t ldx, int64_t rows,
                                        int64_t k) {
  const int64_t blocks = (k + kInt8Block - 1) / kInt8Block;
  std::vector<Int8Group> groups(static_cast<size_t>((rows + kInt8Group - 1) / kInt8Group * blocks));
  std::memset(groups.data(), 0x55, groups.size() * sizeof(Int8Group));
  table.quantize_int8x32(x, ldx, rows, k, groups.data());
  return groups;
}

TEST(QuantizeInt8x32Kernel, EveryShapeAndKindOfValue) {
  Random random(9);
  for (int64_t k = 1; k <= 100; ++k)
    for (const Values kind : all_values()) {
      const int64_t rows = random.in(1, 18), ldx = k + random.in(0, 3);
      const Guarded x(draw_n(kind, (rows - 1) * ldx + k, random));
      const std::vector<Int8Group> expected = quantize_int8x32(reference_table(), x.data(), ldx, rows, k);
      each_table([&](const KernelTable& table) {
        const std::vector<Int8Group> got = quantize_int8x32(table, x.data(), ldx, rows, k);
        ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(Int8Group)), 0);
      });
    }
}

TEST(QuantizeInt8x32Kernel, KnownCodes) {
  reference_and_each_table([&](const KernelTable& table) {
    const auto expect = [&](const std::vector<float>& x, float scale, const std::vector<int8_t>& codes) {
      const auto k = static_cast<int64_t>(x.size());
      const Int8Group got = quantize_int8x32(table, x.data(), k, 1, k)[0];
      EXPECT_EQ(got.scales[0], scale) << table.isa;
      int32_t sum = 0;
      for (const int8_t code : codes) sum += code;
      EXPECT_EQ(got.offsets[0], -128 * sum) << table.isa;
      EXPECT_EQ(std::vector<int8_t>(got.codes[0], got.codes[0] + k), codes) << table.isa;
    };
    expect({0.0f, -0.0f}, 0.0f, {0, 0});
    expect({127.0f, -127.0f, 0.5f, 1.5f, -2.5f, 126.5f}, 1.0f, {127, -127, 0, 2, -2, 126});
    expect({0x1p-149f, 0x1p-143f}, 0x1p-149f, {1, 64});                 // 64/127 rounds to one unit
    expect({0x1p-149f, -63 * 0x1p-149f}, 0.0f, {0, 0});                 // 63/127 to none
    expect({190 * 0x1p-149f, 100 * 0x1p-149f}, 0x1p-149f, {127, 100});  // limited
    expect({0x1.fffffep127f, -0x1p127f}, 0x1.fffffep127f / 127.0f, {127, -64});
  });
}

}  // namespace
}  // namespace isobit::testing

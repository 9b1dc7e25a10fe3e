// SPDX-License-Identifier: Apache-2.0
// The attention of every kernel table equals the reference bit for bit, wherever a sequence stands with
// respect to blocks, window and ring; what a query cannot see cannot change it.
#include <algorithm>
#include <cstring>

#include "core/aligned_buffer.h"
#include "kernels/kernel_cases.h"

namespace isobit::testing {
namespace {

using kernels::AttentionArgs;
using kernels::KernelTable;
using kernels::kKeyPanel;
using kernels::reference_table;

struct Shape {
  int64_t head_dim, group, pos0, n_pos;
  int64_t window = 0;
  float softcap = 0.0f;
  Values kind = Values::kNormal;
  int64_t slots = 0;   // 0: a slot per position
  bool int15 = false;  // scores of 15-bit codes
};

std::string describe(const Shape& s) {
  return "head_dim " + std::to_string(s.head_dim) + ", group " + std::to_string(s.group) + ", pos0 " +
         std::to_string(s.pos0) + ", n_pos " + std::to_string(s.n_pos) + ", window " +
         std::to_string(s.window) + ", softcap " + std::to_string(s.softcap) + ", values " +
         std::to_string(static_cast<int>(s.kind)) + ", slots " + std::to_string(s.slots) +
         (s.int15 ? ", int15" : "");
}

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Queries, and a cache whose unused slots hold large finite rubbish.
class Problem {
 public:
  Problem(Shape shape, uint64_t seed)
      : shape_(with_slots(shape)),
        v_stride_(round_up(shape_.head_dim, 16)),
        ldq_(shape_.group * shape_.head_dim + 3),
        random_(seed),
        q_(draw_n(shape_.kind, (shape_.n_pos - 1) * ldq_ + shape_.group * shape_.head_dim, random_)),
        k_(random_.units(shape_.slots * shape_.head_dim, 2e38f)),
        v_(random_.units(shape_.slots * v_stride_, 2e38f)) {
    for (int64_t slot = 0; slot < shape_.slots; ++slot)
      std::fill(v_.data() + slot * v_stride_ + shape_.head_dim, v_.data() + (slot + 1) * v_stride_, 0.0f);
    const int64_t end = shape_.pos0 + shape_.n_pos;
    for (int64_t p = std::max<int64_t>(0, end - shape_.slots); p < end; ++p) {
      for (int64_t d = 0; d < shape_.head_dim; ++d) key(p, d) = draw(shape_.kind, random_);
      for (int64_t d = 0; d < shape_.head_dim; ++d)
        v_.data()[p % shape_.slots * v_stride_ + d] = draw(shape_.kind, random_);
    }
  }

  float& key(int64_t position, int64_t d) {
    const int64_t slot = position % shape_.slots;
    return k_.data()[slot / kKeyPanel * kKeyPanel * shape_.head_dim + d * kKeyPanel + slot % kKeyPanel];
  }
  float& query(int64_t index, int64_t head, int64_t d) {
    return q_.data()[index * ldq_ + head * shape_.head_dim + d];
  }

  /// cut: each block of keys by itself, the last one first, and their nodes joined.
  int64_t run(const KernelTable& table, std::vector<float>& out, bool cut = false) {
    const int64_t ldo = shape_.group * shape_.head_dim + 5;
    Guarded y((shape_.n_pos - 1) * ldo + shape_.group * shape_.head_dim);
    y.fill(kCanary);
    if (shape_.int15) quantize_keys();
    AlignedBuffer scratch(table.attention_scratch(shape_.head_dim));
    AttentionArgs args{.q = q_.data(),
                       .ldq = ldq_,
                       .k = k_.data(),
                       .v = v_.data(),
                       .slots = shape_.slots,
                       .head_dim = shape_.head_dim,
                       .group = shape_.group,
                       .pos0 = shape_.pos0,
                       .n_pos = shape_.n_pos,
                       .window = shape_.window,
                       .scale = 0.31f,
                       .softcap = shape_.softcap,
                       .out = y.data(),
                       .ldo = ldo,
                       .scratch = scratch.data(),
                       .key_codes = shape_.int15 ? key_codes_.data() : nullptr,
                       .key_exponents = shape_.int15 ? key_exponents_.data() : nullptr};
    const int64_t bad = cut ? run_in_blocks(table, args) : table.attention(args);
    out.assign(y.all().begin(), y.all().end());
    return bad;
  }

 private:
  void quantize_keys() {
    const int64_t hd = shape_.head_dim, stride = kernels::int15_stride(hd), pairs = (hd + 1) / 2;
    key_codes_.resize(static_cast<size_t>(shape_.slots * 2 * pairs));
    key_exponents_.resize(static_cast<size_t>(shape_.slots));
    std::vector<float> row(static_cast<size_t>(hd));
    std::vector<int16_t> codes(static_cast<size_t>(stride));
    for (int64_t slot = 0; slot < shape_.slots; ++slot) {
      for (int64_t d = 0; d < hd; ++d) row[static_cast<size_t>(d)] = key(slot, d);
      reference_table().quantize_int15(row.data(), hd, 1, hd, codes.data(), stride,
                                       &key_exponents_[static_cast<size_t>(slot)]);
      for (int64_t d = 0; d < 2 * pairs; ++d)
        key_codes_[static_cast<size_t>(slot / kKeyPanel * kKeyPanel * 2 * pairs + d / 2 * 2 * kKeyPanel +
                                       slot % kKeyPanel * 2 + d % 2)] = codes[static_cast<size_t>(d)];
    }
  }
  int64_t run_in_blocks(const KernelTable& table, AttentionArgs args) const {
    const int64_t low = shape_.window > 0 ? std::max<int64_t>(0, shape_.pos0 - shape_.window + 1) : 0;
    const int64_t first = low / kernels::kBlock;
    const int64_t blocks = (shape_.pos0 + shape_.n_pos - 1) / kernels::kBlock + 1 - first;
    const int64_t floats = shape_.n_pos * shape_.group * kernels::attention_node_floats(shape_.head_dim);
    AlignedBuffer nodes(blocks * floats);
    int64_t bad = INT64_MAX;
    for (int64_t i = blocks - 1; i >= 0; --i) {
      args.block = first + i;
      args.nodes = nodes.data() + i * floats;
      bad = std::min(bad, table.attention(args));
    }
    args.block = first;
    args.nodes = nodes.data();
    table.attention_join(args, blocks);
    return bad;
  }

  static Shape with_slots(Shape s) {
    if (s.slots == 0) s.slots = round_up(s.pos0 + s.n_pos, 16);
    return s;
  }

  Shape shape_;
  int64_t v_stride_, ldq_;
  Random random_;
  Guarded q_, k_, v_;
  std::vector<int16_t> key_codes_;
  std::vector<int32_t> key_exponents_;
};

void check(const Shape& shape, uint64_t seed) {
  SCOPED_TRACE(describe(shape));
  Problem problem(shape, seed);
  std::vector<float> expected, got;
  const FpEnv environment;
  const int64_t bad = problem.run(reference_table(), expected);
  ASSERT_EQ(problem.run(reference_table(), got, true), bad);
  ASSERT_TRUE(bad != INT64_MAX || same_bits(got, expected));
  each_table([&](const KernelTable& table) {
    for (const bool cut : {false, true}) {
      ASSERT_EQ(problem.run(table, got, cut), bad) << (cut ? "in blocks" : "whole");
      ASSERT_TRUE(bad != INT64_MAX || same_bits(got, expected)) << (cut ? "in blocks" : "whole");
    }
  });
}

TEST(Attention, EveryHeadDim) {
  Random random(1);
  std::vector<int64_t> dims = {96, 128, 256, 260, 512};
  for (int64_t d = 2; d <= 80; d += 2) dims.push_back(d);
  for (const int64_t d : dims) check({d, random.in(1, 3), random.in(0, 40), d > 80 ? 2 : 5}, random.bits());
}

TEST(Attention, EveryGroupAndRowCount) {
  Random random(2);
  for (int64_t group = 1; group <= 8; ++group)
    for (const int64_t n : {1, 2, 3, 5, 7, 12, 13}) check({6, group, random.in(0, 20), n}, random.bits());
  check({8, 1, 0, 48}, 3);
  check({8, 1, 3, 61}, 4);
  check({8, 3, 250, 16}, 5);
}

TEST(Attention, AcrossBlocks) {
  Random random(3);
  for (const int64_t pos0 :
       {0, 1, 15, 16, 250, 255, 256, 257, 500, 511, 512, 700, 767, 768, 1030, 1279, 1792})
    for (const int64_t n : {1, 7, 14}) check({4, 1, pos0, n}, random.bits());
  check({6, 2, 240, 40}, 7);
}

TEST(Attention, OfIntegerScores) {
  Random random(30);
  for (const int64_t d : {2, 5, 31, 64, 80, 96, 260, 512})
    for (const int64_t pos0 : {int64_t{0}, random.in(1, 300), random.in(500, 1100)})
      for (const int64_t n : {int64_t{1}, random.in(2, 30)})
        for (const Values kind :
             {Values::kNormal, Values::kTiny, Values::kSignedZeros, Values::kCancelling}) {
          Shape s = {.head_dim = d, .group = random.in(1, 4), .pos0 = pos0, .n_pos = n, .kind = kind};
          if (random.coin()) s.window = random.in(1, 400);
          if (random.coin()) s.softcap = 2.5f;
          s.int15 = true;
          check(s, random.bits());
        }
  check({.head_dim = 6, .group = 2, .pos0 = 700, .n_pos = 20, .window = 200, .slots = 512, .int15 = true},
        31);
}

TEST(Attention, Windows) {
  Random random(4);
  for (const int64_t window : {1, 2, 3, 15, 16, 17, 31, 64, 100, 255, 256, 257, 300, 511, 512, 513, 600})
    for (const int64_t pos0 : {int64_t{0}, random.in(1, 300), random.in(500, 1100)})
      check({4, 2, pos0, random.in(1, 20), window}, random.bits());
}

// Slots come round while a window stands across the seam.
TEST(Attention, Rings) {
  Random random(5);
  for (const int64_t window : {1, 7, 100, 256, 300, 500})
    for (int i = 0; i < 5; ++i) {
      const int64_t n = random.in(1, 30), slots = round_up(window + n, 256);
      check({6, 2, random.in(slots - 40, 3 * slots), n, window, 0.0f, Values::kNormal, slots}, random.bits());
    }
  check({6, 1, 250, 20, 30, 0.0f, Values::kNormal, 256}, 1);
  check({6, 1, 760, 20, 300, 0.0f, Values::kNormal, 512}, 2);
}

TEST(Attention, SoftcapAndOtherValues) {
  Random random(6);
  for (const Values kind : {Values::kTiny, Values::kSignedZeros, Values::kCancelling})
    for (const float softcap : {0.0f, 0.5f, 30.0f})
      for (const int64_t pos0 : {0, 100, 520}) check({10, 2, pos0, 9, 0, softcap, kind}, random.bits());
  for (const float softcap : {1e-30f, 1.0f, 50.0f, 1e30f}) check({32, 1, 270, 6, 0, softcap}, random.bits());
}

TEST(Attention, Sweep) {
  if (!long_tests()) GTEST_SKIP() << "ISOBIT_LONG_TESTS=1 runs it";
  Random random(7);
  for (int i = 0; i < 1500; ++i) {
    Shape s{2 * random.in(1, 40), random.in(1, 8), random.in(0, 1500), random.in(1, 50)};
    if (random.coin()) s.window = random.in(1, 600);
    if (random.coin()) s.softcap = 20.0f;
    if (s.window > 0 && random.coin()) s.slots = round_up(s.window + s.n_pos, 256);
    check(s, random.bits());
  }
}

// The smallest position whose visible scores are not all finite is named, by queries and by keys that
// overflow, and the rows before it keep their bits.
TEST(Attention, NonFiniteScores) {
  Random random(8);
  for (int i = 0; i < 40; ++i) {
    Shape shape{random.in(1, 9) * 2,
                random.in(1, 3),
                random.in(0, 600),
                random.in(1, 40),
                random.coin() ? random.in(1, 300) : 0,
                random.coin() ? 5.0f : 0.0f};
    shape.int15 =
        i % 6 == 2 || i % 6 == 4;  // exact sums overflow only where the products below agree in sign
    SCOPED_TRACE(describe(shape));
    Problem clean(shape, 100 + static_cast<uint64_t>(i)), dirty(shape, 100 + static_cast<uint64_t>(i));
    const int64_t first = random.in(0, shape.n_pos - 1);
    for (const int64_t index : {first, shape.n_pos - 1}) {
      dirty.query(index, shape.group - 1, 0) = i % 2 == 0 ? 3e38f : -3e38f;
      dirty.query(index, shape.group - 1, 1) = 3e38f;
      // Seen by this query alone among those that overflow: its own key.
      dirty.key(shape.pos0 + index, 0) = 3e38f;
      dirty.key(shape.pos0 + index, 1) = i % 3 == 0 ? -3e38f : 3e38f;
    }
    const FpEnv environment;
    std::vector<float> expected, got;
    ASSERT_EQ(clean.run(reference_table(), expected), INT64_MAX);
    std::vector<float> ignored;
    ASSERT_EQ(dirty.run(reference_table(), ignored), shape.pos0 + first);
    each_table([&](const KernelTable& table) {
      ASSERT_EQ(dirty.run(table, got), shape.pos0 + first);
      const auto untouched = static_cast<size_t>(first * (shape.group * shape.head_dim + 5));
      ASSERT_TRUE(same_bits({got.data(), untouched}, {expected.data(), untouched}));
    });
  }
}

// Later positions and what fell out of the window are rubbish in one cache and other rubbish in the next.
TEST(Attention, InvisibleSlotsCannotBeSeen) {
  constexpr int64_t kSlots = 512;
  for (const int64_t window : {0, 1, 20, 200}) {
    const Shape shape{12, 2, 300, 10, window, 0.0f, Values::kNormal, kSlots};
    Problem one(shape, 9), two(shape, 9);
    const int64_t oldest = window > 0 ? 300 - window + 1 : 0;
    for (int64_t p = 0; p < kSlots; ++p)
      if (p < oldest || p >= 310)
        for (int64_t d = 0; d < 12; ++d) two.key(p, d) = p % 2 == 0 ? -3e38f : 1e-40f;
    each_table([&](const KernelTable& table) {
      std::vector<float> a, b;
      ASSERT_EQ(one.run(table, a), INT64_MAX);
      ASSERT_EQ(two.run(table, b), INT64_MAX);
      ASSERT_TRUE(same_bits(a, b)) << "window " << window;
    });
  }
}

}  // namespace
}  // namespace isobit::testing

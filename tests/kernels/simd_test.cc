// SPDX-License-Identifier: Apache-2.0
// The 16-lane types agree with each other bit for bit in every operation, and the scalar one with plain C++.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/simd_ops.h"
#include "kernels/table.h"
#include "support/bits.h"

namespace isobit::kernels {

namespace scalar {
extern const SimdOps simd_ops;
}
#ifdef ISOBIT_HAVE_avx2
namespace avx2 {
extern const SimdOps simd_ops;
}
#endif
#ifdef ISOBIT_HAVE_avx512
namespace avx512 {
extern const SimdOps simd_ops;
}
#endif
#ifdef ISOBIT_HAVE_avx512vnni
namespace avx512vnni {
extern const SimdOps simd_ops;
}
#endif
#ifdef ISOBIT_HAVE_neon
namespace neon {
extern const SimdOps simd_ops;
}
#endif
#ifdef ISOBIT_HAVE_neondot
namespace neondot {
extern const SimdOps simd_ops;
}
#endif

namespace {

/// The types that this CPU runs.
std::vector<const SimdOps*> runnable() {
  std::vector<const SimdOps*> built = {&scalar::simd_ops};
#ifdef ISOBIT_HAVE_avx2
  built.push_back(&avx2::simd_ops);
#endif
#ifdef ISOBIT_HAVE_avx512
  built.push_back(&avx512::simd_ops);
#endif
#ifdef ISOBIT_HAVE_avx512vnni
  built.push_back(&avx512vnni::simd_ops);
#endif
#ifdef ISOBIT_HAVE_neon
  built.push_back(&neon::simd_ops);
#endif
#ifdef ISOBIT_HAVE_neondot
  built.push_back(&neondot::simd_ops);
#endif
  std::vector<const SimdOps*> result;
  for (const SimdOps* ops : built) {
    for (const KernelTable* table : available_tables()) {
      if (std::string(table->isa) == ops->isa) result.push_back(ops);
    }
  }
  return result;
}

using testing::bits_of;
using testing::float_of;

constexpr uint32_t kSpecials[] = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000,
                                  0x80800000, 0x3f800000, 0xbf800000, 0x3f7fffff, 0x3f800001, 0x4b800000,
                                  0x4effffff, 0xcf000000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                                  0x7fc00000, 0xffc00000, 0x7f800001, 0x33800000, 0x34000000, 0x7fffffff,
                                  0xffffffff, 0x3f000000, 0x40200000};

class Numbers {
 public:
  uint32_t any() {
    const uint32_t kind = random_() % 8;
    if (kind == 0) return kSpecials[random_() % std::size(kSpecials)];
    if (kind < 4) return random_() % 0x04000000u + 0x3e000000u;  // magnitudes near 1
    return random_();
  }
  uint32_t in(Domain domain, bool second) {
    switch (domain) {
      case Domain::kAny:
        return any();
      case Domain::kInt32: {
        const float x = float_of(any());
        return std::abs(x) < 0x1p31f
                   ? bits_of(x)
                   : bits_of(static_cast<float>(static_cast<int32_t>(random_()) / 2) * 0.25f);
      }
      case Domain::kLdexp:
        return second ? bits_of(static_cast<float>(static_cast<int>(random_() % 254) - 125))
                      : random_() % 0x01000000u + 0x3f000000u;
    }
    return 0;
  }

 private:
  std::mt19937 random_{20240229};
};

bool same(const SimdOp& op, uint32_t x, uint32_t y) {
  return x == y || (op.float_result && std::isnan(float_of(x)) && std::isnan(float_of(y)));
}

TEST(Simd, TypesAgreeInEveryOperation) {
  const std::vector<const SimdOps*> types = runnable();
  Numbers numbers;
  uint32_t a[16], b[16], c[16], expected[16], r[16];
  for (int k = 0; k < types[0]->count; ++k) {
    const SimdOp& op = types[0]->ops[k];
    for (int round = 0; round < 20000; ++round) {
      for (int i = 0; i < 16; ++i) {
        a[i] = numbers.in(op.domain, false);
        b[i] = numbers.in(op.domain, true);
        c[i] = numbers.any();
      }
      op.run(a, b, c, expected);
      for (const SimdOps* type : types) {
        ASSERT_STREQ(type->ops[k].name, op.name);
        type->ops[k].run(a, b, c, r);
        for (int i = 0; i < 16; ++i) {
          ASSERT_TRUE(same(op, expected[i], r[i]))
              << op.name << " on " << type->isa << " lane " << i << std::hex << " a " << a[i] << " b " << b[i]
              << " c " << c[i] << ": expected " << expected[i] << ", got " << r[i];
        }
      }
    }
  }
}

const SimdOp& operation(const char* name) {
  for (int k = 0; k < scalar::simd_ops.count; ++k) {
    if (std::string(scalar::simd_ops.ops[k].name) == name) return scalar::simd_ops.ops[k];
  }
  throw std::invalid_argument(name);
}

uint32_t first_lane(const char* name, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
  uint32_t va[16], vb[16], vc[16], r[16];
  for (int i = 0; i < 16; ++i) va[i] = a, vb[i] = b, vc[i] = c;
  operation(name).run(va, vb, vc, r);
  return r[0];
}

TEST(Simd, MaxAndMinAreTheStatedSelects) {
  const uint32_t nan = 0x7fc00000, one = bits_of(1.0f), zero = 0, minus_zero = 0x80000000;
  EXPECT_EQ(first_lane("max", nan, one), one);
  EXPECT_EQ(first_lane("max", one, nan), nan);
  EXPECT_EQ(first_lane("min", nan, one), one);
  EXPECT_EQ(first_lane("min", one, nan), nan);
  EXPECT_EQ(first_lane("max", zero, minus_zero), minus_zero);
  EXPECT_EQ(first_lane("max", minus_zero, zero), zero);
  EXPECT_EQ(first_lane("min", zero, minus_zero), minus_zero);
}

TEST(Simd, RoundsToNearestEven) {
  EXPECT_EQ(first_lane("to_i32", bits_of(2.5f)), 2u);
  EXPECT_EQ(first_lane("to_i32", bits_of(3.5f)), 4u);
  EXPECT_EQ(first_lane("to_i32", bits_of(-2.5f)), static_cast<uint32_t>(-2));
  EXPECT_EQ(first_lane("to_i32", bits_of(-0x1p31f)), 0x80000000u);
  EXPECT_EQ(first_lane("to_f32", 0x01000001), bits_of(0x1p24f));
  EXPECT_EQ(first_lane("to_f32", 0x01000003), bits_of(0x1.000004p24f));
}

TEST(Simd, IntegersWrap) {
  EXPECT_EQ(first_lane("i + j", 0x7fffffff, 1), 0x80000000u);
  EXPECT_EQ(first_lane("i * j", 0x10001, 0x10001), 0x20001u);
  EXPECT_EQ(first_lane("mulhi_u", 0xffffffff, 0xffffffff), 0xfffffffeu);
  EXPECT_EQ(first_lane("sar", 0x80000000), 0xff000000u);
  EXPECT_EQ(first_lane("shr", 0x80000000), 0x01000000u);
}

TEST(Simd, FusedOnesRoundOnce) {
  // (1 + 2^-23)^2 - 1 = 2^-22 + 2^-46: a rounded product would lose the last term.
  const uint32_t a = bits_of(0x1.000002p0f), minus_one = bits_of(-1.0f), one = bits_of(1.0f);
  EXPECT_EQ(first_lane("fma", a, a, minus_one), bits_of(0x1.000001p-22f));
  EXPECT_EQ(first_lane("fnma", a, a, one), bits_of(-0x1.000001p-22f));
}

TEST(Simd, LdexpOverflowsToInfinity) {
  EXPECT_EQ(first_lane("ldexp", bits_of(1.0f), bits_of(128.0f)), 0x7f800000u);
  EXPECT_EQ(first_lane("ldexp", bits_of(0.75f), bits_of(128.0f)), bits_of(0x1.8p127f));
  EXPECT_EQ(first_lane("ldexp", bits_of(1.0f), bits_of(-126.0f)), 0x00800000u);
  for (const SimdOps* type : runnable()) {
    uint32_t a[16], b[16], r[16];
    for (int i = 0; i < 16; ++i) a[i] = 0x7fc00001, b[i] = 0x7fc00001;
    for (int k = 0; k < type->count; ++k) {
      if (std::string(type->ops[k].name) == "ldexp") type->ops[k].run(a, b, a, r);
    }
    EXPECT_TRUE(std::isnan(float_of(r[0]))) << type->isa;
  }
}

TEST(Simd, SumHalvesAsTheContractSays) {
  // Lanes that make the order visible: 2^24 absorbs a 1 that is added to it alone.
  float lanes[16] = {0x1p24f, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, -0x1p24f};
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  const float in[16] = {0x1p24f, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, -0x1p24f};
  uint32_t a[16], r[16];
  std::memcpy(a, in, sizeof(a));
  for (const SimdOps* type : runnable()) {
    for (int k = 0; k < type->count; ++k) {
      if (std::string(type->ops[k].name) == "sum_halving") type->ops[k].run(a, a, a, r);
    }
    EXPECT_EQ(float_of(r[0]), lanes[0]) << type->isa;
  }
}

TEST(Simd, PartialLoadsAndStoresKeepToTheirLanes) {
  // Two pages, the second forbidden: touching one float past n ends the process.
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(static_cast<char*>(pages) + page, page, PROT_NONE), 0);
  float* const end = reinterpret_cast<float*>(static_cast<char*>(pages) + page);
  for (const SimdOps* type : runnable()) {
    for (int n = 0; n <= 16; ++n) {
      float lanes[16], stored[16];
      for (int i = 0; i < n; ++i) end[i - n] = static_cast<float>(i + 1);
      type->load_n(end - n, n, lanes);
      for (int i = 0; i < 16; ++i)
        EXPECT_EQ(bits_of(lanes[i]), bits_of(i < n ? static_cast<float>(i + 1) : 0.0f));
      for (int i = 0; i < 16; ++i) stored[i] = static_cast<float>(-i - 1);
      end[-n - 1] = 77.0f;
      type->store_n(end - n, stored, n);
      for (int i = 0; i < n; ++i) EXPECT_EQ(end[i - n], static_cast<float>(-i - 1));
      EXPECT_EQ(end[-n - 1], 77.0f);
      float room[17];
      for (float& x : room) x = 5.0f;
      type->store_n(room, stored, n);
      for (int i = n; i < 17; ++i) EXPECT_EQ(room[i], 5.0f) << type->isa << " n " << n;
    }
  }
  munmap(pages, 2 * page);
}

}  // namespace
}  // namespace isobit::kernels

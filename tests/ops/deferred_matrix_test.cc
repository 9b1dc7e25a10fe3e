// SPDX-License-Identifier: Apache-2.0
// A matrix of a file: the same bits from the file's rows and from panels, for several threads at once, and
// never those of a file that has changed.
#include "ops/deferred_matrix.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "isobit/safetensors.h"
#include "ops/elementwise.h"
#include "support/bits.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

/// Parts of a matrix in memory and, below the same names, in a file.
struct Parts {
  TempDir dir;
  std::vector<std::vector<std::byte>> values;
  std::vector<TensorView> in_memory, in_file;
  std::vector<std::string> names;

  Parts() = default;
  /// One part, written.
  Parts(uint64_t seed, DType dtype, int64_t rows, int64_t k) {
    Random random(seed);
    add(dtype, rows, k, random);
    write();
  }
  void add(DType dtype, int64_t rows, int64_t k, Random& random) {
    const std::vector<float> wide = random.units(rows * k);
    std::vector<std::byte> bytes(static_cast<size_t>(rows * k * itemsize(dtype)));
    for (size_t i = 0; i < wide.size(); ++i) {
      uint32_t bits;
      std::memcpy(&bits, &wide[i], sizeof bits);
      const auto half = static_cast<uint16_t>(dtype == DType::F16 ? bits >> 18 & 0x3bff : bits >> 16);
      if (dtype == DType::F32)
        std::memcpy(bytes.data() + 4 * i, &bits, sizeof bits);
      else
        std::memcpy(bytes.data() + 2 * i, &half, sizeof half);
    }
    values.push_back(std::move(bytes));
    in_memory.push_back({dtype, {rows, k}, values.back().data()});
    names.push_back("part" + std::to_string(names.size()));
  }
  std::filesystem::path path() const { return dir / "w.safetensors"; }
  void write() {
    std::map<std::string, TensorView> tensors;
    for (size_t i = 0; i < names.size(); ++i) tensors.emplace(names[i], in_memory[i]);
    write_safetensors(path(), tensors);
    const SafetensorsFile file(path());
    in_file.clear();
    for (const std::string& name : names) in_file.push_back(file.view(name));
  }
};

/// Of inputs that depend on the number of rows alone.
std::vector<float> product(const PackedMatrix& w, int64_t rows) {
  Random random(static_cast<uint32_t>(rows));
  const std::vector<float> x = random.units(rows * w.k);
  std::vector<float> y(static_cast<size_t>(rows * w.n));
  EXPECT_TRUE(ops::linear(x.data(), w.k, rows, w, nullptr, y.data(), w.n));
  return y;
}

std::vector<float> all_rows(const PackedMatrix& w) {
  std::vector<float> out(static_cast<size_t>(w.n * w.k));
  ops::unpack_rows(w, 0, w.n, out.data());
  return out;
}

TEST(DeferredMatrix, EveryUseGivesTheBitsOfPanels) {
  Random random(1);
  for (int i = 0; i < 25; ++i) {
    Parts parts;
    const int64_t k = random.in(1, 300);
    const bool only_bf16 = random.in(0, 1) == 1;
    for (int64_t count = random.in(1, 3); count > 0; --count) {
      const DType drawn[] = {DType::F32, DType::F16, DType::BF16};
      parts.add(drawn[only_bf16 ? 2 : random.in(0, 2)], random.in(1, 90), k, random);
    }
    parts.write();
    for (const WeightFormat format : {WeightFormat::kFloat32, WeightFormat::kBfloat16}) {
      if (format == WeightFormat::kBfloat16 && !only_bf16) continue;
      const PackedMatrix expected = ops::pack(parts.in_memory, parts.names, "Test", format);
      EXPECT_FALSE(expected.deferred);
      on_every_isa([&] {
        const PackedMatrix w = ops::pack(parts.in_file, parts.names, "Test", format);
        ASSERT_TRUE(w.deferred);
        for (const int64_t rows : {random.in(1, 4), random.in(5, 130), random.in(1, 130)}) {
          ASSERT_EQ(w.bytes(), expected.bytes());
          ASSERT_TRUE(same_bits(all_rows(w), all_rows(expected)));
          ASSERT_TRUE(same_bits(product(w, rows), product(expected, rows))) << rows;
        }
        ASSERT_TRUE(w.deferred->packed());
      });
    }
  }
}

TEST(DeferredMatrix, IsPackedByItsSecondUse) {
  Parts parts(2, DType::F32, 40, 20);
  const PackedMatrix w = ops::pack(parts.in_file, parts.names, "Test");
  for (const bool packed : {false, true, true}) {
    product(w, 2);
    EXPECT_EQ(w.deferred->packed() != nullptr, packed);
  }
}

TEST(DeferredMatrix, LookupsAndProductsOfOnePassAreFirstUses) {
  Parts parts(8, DType::F32, 40, 20);
  const PackedMatrix tied = ops::pack(parts.in_file, parts.names, "Test");
  const PackedMatrix table = ops::pack(parts.in_file, parts.names, "Test");
  const std::vector<int64_t> ids = {39, 0, 17, 17};
  const std::vector<float> rows = all_rows(ops::pack(parts.in_memory, parts.names, "Test"));
  for (const bool packed : {false, true, true})
    for (const PackedMatrix* w : {&tied, &table}) {
      std::vector<float> x(ids.size() * 20);
      ops::embed(*w, ids.data(), 4, x.data());
      for (size_t i = 0; i < ids.size(); ++i)
        EXPECT_TRUE(same_bits({x.data() + 20 * i, 20}, {rows.data() + 20 * ids[i], 20}));
      if (w == &tied) product(*w, 1);
      EXPECT_EQ(w->deferred->packed() != nullptr, packed);
    }
}

TEST(DeferredMatrix, WhatIsRoundedIsPackedAtOnce) {
  Parts parts(3, DType::F16, 40, 20);
  EXPECT_FALSE(ops::pack(parts.in_file, parts.names, "Test", WeightFormat::kBfloat16).deferred);
  EXPECT_FALSE(ops::pack(parts.in_file, parts.names, "Test", WeightFormat::kInt8).deferred);
  for (const NumericProfile profile : {NumericProfile::kFixed15V1, NumericProfile::kInt8x32V1})
    EXPECT_FALSE(ops::pack(parts.in_file, parts.names, "Test", WeightFormat::kFloat32, profile).deferred);
}

TEST(DeferredMatrix, ServesSeveralThreads) {
  Parts parts(4, DType::F32, 700, 130);
  const std::vector<float> expected = product(ops::pack(parts.in_memory, parts.names, "Test"), 3);
  for (int round = 0; round < 5; ++round) {
    const PackedMatrix w = ops::pack(parts.in_file, parts.names, "Test");
    std::vector<std::vector<float>> got(8);
    {
      std::vector<std::jthread> threads;
      for (auto& y : got) threads.emplace_back([&] { y = product(w, 3); });
    }
    for (const auto& y : got) EXPECT_TRUE(same_bits(y, expected));
  }
}

TEST(DeferredMatrix, RefusesWhatIsNotFinite) {
  Random random(5);
  Parts parts;
  parts.add(DType::F32, 40, 20, random);
  parts.add(DType::F32, 40, 20, random);
  const float bad = std::numeric_limits<float>::infinity();
  std::memcpy(parts.values[1].data() + 4 * 799, &bad, sizeof bad);
  parts.write();
  expect_error<ValueError>([&] { ops::pack(parts.in_file, parts.names, "Test"); },
                           {"[Test] part1", "finite"});
}

enum class Writing { kInPlace, kTimeSetBack, kShorter };

void overwrite(const std::filesystem::path& path, Writing writing) {
  const auto before = std::filesystem::last_write_time(path);
  std::string bytes = read_file(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(path, writing == Writing::kShorter ? bytes.substr(0, bytes.size() - 1) : bytes);
  std::filesystem::last_write_time(
      path, writing == Writing::kTimeSetBack ? before : before + std::chrono::seconds(2));
}

TEST(DeferredMatrix, NeverReadsAFileThatWasWritten) {
  Random random(6);
  Parts parts;
  parts.add(DType::F32, 40, 20, random);
  for (const Writing writing : {Writing::kInPlace, Writing::kTimeSetBack, Writing::kShorter}) {
    parts.write();
    const PackedMatrix fresh = ops::pack(parts.in_file, parts.names, "Test");
    const PackedMatrix used_once = ops::pack(parts.in_file, parts.names, "Test");
    const PackedMatrix packed = ops::pack(parts.in_file, parts.names, "Test");
    const std::vector<float> expected = product(used_once, 3);
    product(packed, 3);
    product(packed, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // clocks of file systems are coarse
    overwrite(parts.path(), writing);
    for (const PackedMatrix* w : {&fresh, &used_once}) {
      expect_error<ValueError>([&] { product(*w, 3); }, {parts.path().string(), "as it was opened"});
      expect_error<ValueError>([&] { all_rows(*w); }, {parts.path().string(), "as it was opened"});
    }
    expect_error<ValueError>([&] { ops::pack(parts.in_file, parts.names, "Test", WeightFormat::kInt8); },
                             {parts.path().string(), "as it was opened"});
    EXPECT_TRUE(same_bits(product(packed, 3), expected));
  }
}

// Whatever is written while a product reads the file: its bits or an error, and no panels of both.
TEST(DeferredMatrix, WritesDuringAUseAreSeen) {
  Parts parts(9, DType::F32, 6000, 512);
  Random random(9);
  const std::vector<float> expected = product(ops::pack(parts.in_memory, parts.names, "Test"), 1);
  for (int i = 0; i < 16; ++i) {
    parts.write();
    const PackedMatrix w = ops::pack(parts.in_file, parts.names, "Test");
    if (i % 2 == 1) product(w, 1);
    std::jthread writer([&, delay = random.in(0, 8000)] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
      std::fstream file(parts.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(1 << 20);
      file << std::string(10 << 20, '\1');
    });
    for (int use = 0; use < 3; ++use) {
      try {
        EXPECT_TRUE(same_bits(product(w, 1), expected));
      } catch (const ValueError&) {
      }
    }
  }
}

TEST(DeferredMatrix, WhatDoesNotWriteIsNoChange) {
  namespace fs = std::filesystem;
  Parts parts(10, DType::F32, 40, 20);
  const std::vector<float> expected = product(ops::pack(parts.in_memory, parts.names, "Test"), 1);
  const PackedMatrix linked = ops::pack(parts.in_file, parts.names, "Test");
  const PackedMatrix guarded = ops::pack(parts.in_file, parts.names, "Test");
  fs::create_hard_link(parts.path(), parts.dir / "other");
  EXPECT_TRUE(same_bits(product(linked, 1), expected));
  fs::permissions(parts.path(), fs::perms::owner_read);
  EXPECT_TRUE(same_bits(product(guarded, 1), expected));
}

TEST(DeferredMatrix, LetsGoOfItsFileOncePacked) {
  Parts parts(11, DType::F32, 40, 20);
  const std::weak_ptr<const MappedFile> file = parts.in_file[0].file;
  const PackedMatrix w = ops::pack(parts.in_file, parts.names, "Test");
  parts.in_file.clear();
  for (const bool open : {true, false}) {
    product(w, 1);
    EXPECT_EQ(!file.expired(), open);
  }
}

TEST(DeferredMatrix, OutlivesTheNameOfItsFile) {
  Parts parts(7, DType::BF16, 40, 20);
  const std::vector<float> expected = product(ops::pack(parts.in_memory, parts.names, "Test"), 3);
  const PackedMatrix w = ops::pack(parts.in_file, parts.names, "Test");
  parts.in_file.clear();
  std::filesystem::remove(parts.path());
  for (int use = 0; use < 3; ++use) EXPECT_TRUE(same_bits(product(w, 3), expected));
}

}  // namespace
}  // namespace isobit::testing

// SPDX-License-Identifier: Apache-2.0
// float32 from every float16 and every bfloat16, against the definition of the formats; slices of rows.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "isobit/safetensors.h"

namespace isobit {
namespace {

using testing::expect_error;

std::vector<uint16_t> all_halves() {
  std::vector<uint16_t> out(65536);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint16_t>(i);
  return out;
}

std::vector<float> widen(DType dtype, const std::vector<uint16_t>& halves) {
  std::vector<float> out(halves.size());
  widen_to_f32(
      {dtype, {static_cast<int64_t>(halves.size())}, reinterpret_cast<const std::byte*>(halves.data())},
      out.data());
  return out;
}

uint32_t bits(float value) {
  uint32_t out;
  std::memcpy(&out, &value, sizeof out);
  return out;
}

TEST(Widen, EveryFloat16) {
  const auto halves = all_halves();
  const auto wide = widen(DType::F16, halves);
  for (uint32_t half = 0; half < 65536; ++half) {
    const uint32_t exponent = half >> 10 & 31, fraction = half & 1023, sign = half >> 15;
    if (exponent == 31) {
      EXPECT_EQ(bits(wide[half]), sign << 31 | 0x7f800000u | fraction << 13) << half;
      continue;
    }
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25);
    EXPECT_EQ(bits(wide[half]), bits(static_cast<float>(sign ? -magnitude : magnitude))) << half;
  }
}

TEST(Widen, EveryBfloat16) {
  const auto halves = all_halves();
  const auto wide = widen(DType::BF16, halves);
  for (uint32_t half = 0; half < 65536; ++half) EXPECT_EQ(bits(wide[half]), half << 16);
}

TEST(Widen, UnalignedFloat32KeepsEveryBit) {
  const uint32_t values[] = {0x7f800001u, 0x80000000u, 0x00000001u, 0xffffffffu};
  std::vector<std::byte> memory(1 + sizeof values);
  std::memcpy(memory.data() + 1, values, sizeof values);
  float out[4];
  widen_to_f32({DType::F32, {4}, memory.data() + 1}, out);
  EXPECT_EQ(std::memcmp(out, values, sizeof values), 0);
}

TEST(Widen, UnalignedHalves) {
  const uint16_t values[] = {0x3c00, 0xc000, 0x0001};
  std::vector<std::byte> memory(1 + sizeof values);
  std::memcpy(memory.data() + 1, values, sizeof values);
  float out[3];
  widen_to_f32({DType::F16, {3}, memory.data() + 1}, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -2.0f);
  EXPECT_EQ(out[2], 0x1p-24f);
}

TEST(Widen, NothingToWiden) {
  float out = 5;
  widen_to_f32({DType::F32, {0, 3}, nullptr}, &out);
  widen_to_f32({DType::BF16, {0}, nullptr}, &out);
  EXPECT_EQ(out, 5);
}

TEST(Widen, OtherTypesAreRefused) {
  const std::byte data[8] = {};
  float out = 5;
  for (DType dtype : {DType::F64, DType::I8, DType::I32, DType::I64, DType::BOOL, DType::U16})
    expect_error<TypeError>(
        [&] {
          widen_to_f32({dtype, {1}, data}, &out);
        },
        {"[widen_to_f32] src", "F32, BF16 or F16", dtype_name(dtype)});
  EXPECT_EQ(out, 5);
}

TEST(TensorView, Rows) {
  const uint16_t values[] = {0, 1, 2, 3, 4, 5};
  const TensorView tensor{DType::U16, {3, 2}, reinterpret_cast<const std::byte*>(values)};
  const TensorView middle = tensor.rows(1, 2);
  EXPECT_EQ(middle.shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(std::memcmp(middle.data, values + 2, 4), 0);
  EXPECT_EQ(tensor.rows(0, 3).size(), 6);
  EXPECT_EQ(tensor.rows(3, 3).size(), 0);
  const TensorView vector{DType::U16, {6}, tensor.data};
  EXPECT_EQ(vector.rows(4, 6).data, tensor.data + 8);
}

TEST(TensorView, RowsOutOfRange) {
  const std::byte data[4] = {};
  const TensorView tensor{DType::U8, {2, 2}, data};
  expect_error<ValueError>([&] { tensor.rows(-1, 1); }, {"[TensorView::rows]", "end <= 2", "-1..1"});
  expect_error<ValueError>([&] { tensor.rows(0, 3); }, {"0..3"});
  expect_error<ValueError>([&] { tensor.rows(2, 1); }, {"2..1"});
  expect_error<ValueError>(
      [&] {
        TensorView{DType::U8, {}, data}.rows(0, 1);
      },
      {"rank of at least 1", "a scalar"});
}

TEST(DTypes, SizesAndNames) {
  EXPECT_EQ(itemsize(DType::BOOL), 1);
  EXPECT_EQ(itemsize(DType::BF16), 2);
  EXPECT_EQ(itemsize(DType::U32), 4);
  EXPECT_EQ(itemsize(DType::F64), 8);
  EXPECT_STREQ(dtype_name(DType::BF16), "BF16");
}

}  // namespace
}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Mamba blocks over many lengths, over long sequences and with extreme numbers: whole = any split = token by
// token, and everything stays finite. ISOBIT_LONG_TESTS=1 tries more.
#include <gtest/gtest.h>

#include "kernels/table.h"
#include "support/bits.h"
#include "support/mamba_cases.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

/// One row in pieces of at most `longest` tokens, and what the state then holds.
struct Pieced {
  std::vector<float> out, state;
};
Pieced in_pieces(const MambaBlock& block, const std::vector<float>& x, int64_t length, int64_t longest,
                 Random& random) {
  MambaState state = block.allocate_state(1);
  Pieced result;
  int64_t at = 0;
  for (const int64_t n : random.parts(length, longest)) {
    const std::vector<float> part = run(block, cut(x, 1, length, at, at + n), 1, n, &state);
    result.out.insert(result.out.end(), part.begin(), part.end());
    at += n;
  }
  result.state = contents(state);
  return result;
}

Pieced whole(const MambaBlock& block, const std::vector<float>& x, int64_t length) {
  MambaState state = block.allocate_state(1);
  Pieced result;
  result.out = run(block, x, 1, length, &state);
  result.state = contents(state);
  return result;
}

void expect_same(const Pieced& a, const Pieced& b) {
  EXPECT_TRUE(same_bits(a.out, b.out));
  EXPECT_TRUE(same_bits(a.state, b.state));
}

void expect_finite(const std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size());
  EXPECT_EQ(kernels::reference_table().first_nonfinite(x.data(), n), n);
}

class LongMamba : public ::testing::TestWithParam<MambaCase> {};

TEST_P(LongMamba, AnyLengthInAnyPieces) {
  const MambaCase& c = GetParam();
  const MambaBlock block = c.block();
  Random random(17);
  std::vector<int64_t> lengths;
  for (int64_t n = 1; n <= c.width + 2; ++n) lengths.push_back(n);
  for (int i = 0; i < (long_tests() ? 60 : 3); ++i) lengths.push_back(random.in(1, 600));
  for (const int64_t length : lengths) {
    SCOPED_TRACE(length);
    const std::vector<float> x = c.input(1, length);
    const Pieced expected = whole(block, x, length);
    for (const int64_t longest : {int64_t{1}, c.width, int64_t{300}})
      expect_same(in_pieces(block, x, length, longest, random), expected);
  }
}

// As many tokens as a long answer has: a path that drifted from the other would show.
TEST_P(LongMamba, ThousandsOfSteps) {
  const MambaCase& c = GetParam();
  const MambaBlock block = c.block();
  const int64_t length = long_tests() ? 10000 : 1500;
  const std::vector<float> x = c.input(1, length, 2.0f);
  const Pieced expected = whole(block, x, length);
  Random random(5);
  expect_same(in_pieces(block, x, length, 1, random), expected);
  expect_same(in_pieces(block, x, length, 999, random), expected);
  expect_finite(expected.out);
  expect_finite(expected.state);
}

// A from next to nothing to where every decay is +0, steps from subnormal to saturated, gates that are shut
// or wide open, inputs of zeros of both signs.
TEST_P(LongMamba, ExtremeNumbers) {
  const MambaCase& c = GetParam();
  const int64_t length = 40;
  Random random(3);
  for (const float a_log : {-100.0f, -20.0f, 80.0f})
    for (const float step : {-104.0f, -20.0f, 60.0f})
      for (const float gain : {0.0f, 1.0f, 30.0f}) {
        SCOPED_TRACE(std::to_string(a_log) + ", " + std::to_string(step) + ", " + std::to_string(gain));
        synthetic::Weights w = c.weights();
        if (w.map.contains("A_log"))
          for (float& v : w.at("A_log")) v = a_log;
        for (const char* name : {"dt_bias", "dt_proj.bias"})
          if (w.map.contains(name))
            for (float& v : w.at(name)) v = step;
        for (float& v : w.at("in_proj.weight")) v = v * gain;
        const MambaBlock block(w.map, c.options);
        std::vector<float> x = c.input(1, length);
        for (size_t i = 0; i < x.size(); i += 2) x[i] = i % 4 ? -0.0f : 0.0f;
        const Pieced expected = whole(block, x, length);
        expect_finite(expected.out);
        expect_finite(expected.state);
        expect_same(in_pieces(block, x, length, 1, random), expected);
        expect_same(in_pieces(block, x, length, 7, random), expected);
      }
}

INSTANTIATE_TEST_SUITE_P(All, LongMamba, ::testing::ValuesIn(mamba_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace isobit::testing

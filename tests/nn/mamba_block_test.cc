// SPDX-License-Identifier: Apache-2.0
// The bits of Mamba blocks: whole = any split = token by token = ragged = alone, under every instruction set
// and number of threads; and what a call leaves behind when it fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "kernels/table.h"
#include "support/bits.h"
#include "support/mamba_cases.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

class MambaBlocks : public ::testing::TestWithParam<MambaCase> {};

TEST_P(MambaBlocks, EverySplitGivesTheSameBits) {
  const MambaCase& c = GetParam();
  const MambaBlock block = c.block();
  for (const int64_t length : {int64_t{1}, int64_t{2}, c.width, c.width + 1, int64_t{33}, int64_t{70}}) {
    SCOPED_TRACE(length);
    const std::vector<float> x = c.input(2, length);
    MambaState whole_state = block.allocate_state(2);
    const std::vector<float> whole = run(block, x, 2, length, &whole_state);
    EXPECT_TRUE(same_bits(run(block, x, 2, length), whole));
    Random random(static_cast<uint64_t>(length));
    for (const int64_t longest : {int64_t{1}, int64_t{5}, int64_t{40}}) {
      MambaState state = block.allocate_state(2);
      std::vector<float> pieced(whole.size());
      int64_t at = 0;
      for (const int64_t n : random.parts(length, longest)) {
        const std::vector<float> part = run(block, cut(x, 2, length, at, at + n), 2, n, &state);
        for (int64_t row = 0; row < 2; ++row)
          std::copy_n(part.begin() + row * n * c.d_model, n * c.d_model,
                      pieced.begin() + (row * length + at) * c.d_model);
        at += n;
      }
      EXPECT_TRUE(same_bits(pieced, whole));
      EXPECT_TRUE(same_bits(contents(state), contents(whole_state)));
      EXPECT_EQ(state.tokens(1), length);
    }
  }
}

TEST_P(MambaBlocks, RaggedRowsEqualTheRowAlone) {
  const MambaCase& c = GetParam();
  const MambaBlock block = c.block();
  const std::vector<int64_t> lengths = {3, 19, 1};
  const std::vector<int64_t> more = {7, 2, 9};
  std::vector<float> x = c.input(3, 19), y = c.input(3, 9, 0.7f);
  MambaState state = block.allocate_state(3);
  const std::vector<float> first = run(block, x, 3, 19, &state, lengths);
  const std::vector<float> second = run(block, y, 3, 9, &state, more);
  const std::vector<float> all = contents(state);
  for (int64_t row = 0; row < 3; ++row) {
    const auto r = static_cast<size_t>(row);
    const int64_t d = c.d_model, n = lengths[r], m = more[r];
    const auto part = [d](const std::vector<float>& from, int64_t at, int64_t count) {
      return std::vector<float>(from.begin() + at * d, from.begin() + (at + count) * d);
    };
    MambaState alone = block.allocate_state(1);
    EXPECT_TRUE(same_bits(part(first, row * 19, n), run(block, part(x, row * 19, n), 1, n, &alone)));
    EXPECT_TRUE(same_bits(part(second, row * 9, m), run(block, part(y, row * 9, m), 1, m, &alone)));
    EXPECT_EQ(state.tokens(row), n + m);
    for (int64_t t = n; t < 19; ++t)
      for (int64_t i = 0; i < d; ++i) EXPECT_EQ(first[static_cast<size_t>((row * 19 + t) * d + i)], 0.0f);
    for (const std::string& name : state.buffer_names()) {
      const auto batch = state.buffer(name), own = alone.buffer(name);
      const size_t size = own->size();
      EXPECT_TRUE(same_bits(std::span(*batch).subspan(r * size, size), *own)) << name;
    }
  }
}

TEST_P(MambaBlocks, EveryInstructionSetGivesTheSameBits) {
  const MambaCase& c = GetParam();
  const MambaBlock block = c.block();
  const std::vector<float> x = c.input(2, 37);
  const std::vector<float> expected = run(block, x, 2, 37);
  on_every_isa([&] { EXPECT_TRUE(same_bits(run(c.block(), x, 2, 37), expected)); });
}

TEST_P(MambaBlocks, AFailedCallLeavesNoTrace) {
  const MambaCase& c = GetParam();
  const MambaBlock block = c.block();
  const std::vector<float> x = c.input(1, 12);
  MambaState state = block.allocate_state(1), twin = block.allocate_state(1);
  run(block, cut(x, 1, 12, 0, 5), 1, 5, &state);
  run(block, cut(x, 1, 12, 0, 5), 1, 5, &twin);
  const std::vector<float> before = contents(state);

  std::vector<float> bad = cut(x, 1, 12, 5, 12);
  bad[3] = std::numeric_limits<float>::quiet_NaN();
  expect_error<ValueError>([&] { run(block, bad, 1, 7, &state); }, {"x", "finite values"});
  // Squares beyond float32: the second token's norm overflows.
  std::vector<float> large = cut(x, 1, 12, 5, 12);
  for (int64_t i = 0; i < c.d_model; ++i) large[static_cast<size_t>(c.d_model + i)] = 3e38f;
  try {
    run(block, large, 1, 7, &state);
    ADD_FAILURE() << "no exception";
  } catch (const NonFiniteError& error) {
    EXPECT_EQ(error.position, 6);
    EXPECT_EQ(error.stage, "input norm");
  }
  EXPECT_TRUE(same_bits(contents(state), before));
  EXPECT_EQ(state.tokens(0), 5);
  EXPECT_TRUE(same_bits(run(block, cut(x, 1, 12, 5, 12), 1, 7, &state),
                        run(block, cut(x, 1, 12, 5, 12), 1, 7, &twin)));
}

TEST_P(MambaBlocks, EditedBuffersAreHonoured) {
  const MambaCase& c = GetParam();
  const MambaBlock block = c.block();
  const std::vector<float> x = c.input(1, 9);
  MambaState state = block.allocate_state(1), other = block.allocate_state(1);
  run(block, cut(x, 1, 9, 0, 6), 1, 6, &state);
  std::vector<std::shared_ptr<std::vector<float>>> held;
  for (const std::string& name : other.buffer_names()) {
    held.push_back(other.buffer(name));
    *held.back() = *state.buffer(name);
  }
  EXPECT_TRUE(
      same_bits(run(block, cut(x, 1, 9, 6, 9), 1, 3, &other), run(block, cut(x, 1, 9, 6, 9), 1, 3, &state)));
  for (size_t i = 0; i < held.size(); ++i)
    EXPECT_TRUE(same_bits(*held[i], *state.buffer(state.buffer_names()[i])));
  (*held[0])[0] = std::numeric_limits<float>::infinity();
  expect_error<ValueError>([&] { run(block, cut(x, 1, 9, 0, 1), 1, 1, &other); }, {"finite values"});
  held.clear();
  other.reset();
  for (const float v : contents(other)) EXPECT_EQ(v, 0.0f);
}

TEST_P(MambaBlocks, WeightsComeBackAsGiven) {
  const MambaCase& c = GetParam();
  const MambaBlock block = c.block();
  synthetic::Weights w = c.weights();
  EXPECT_EQ(block.weight_names().size(), w.map.size());
  for (const auto& [name, tensor] : w.map) {
    EXPECT_EQ(block.weight_shape(name), tensor.shape) << name;
    const bool rounded =
        weight_format_of(c.options) != WeightFormat::kFloat32 && name.ends_with("_proj.weight");
    EXPECT_NE(same_bits(block.weight(name), w.at(name)), rounded) << name;
  }
}

// Projections kept in fewer bits: the float32 block on what they widen to.
TEST_P(MambaBlocks, StoredWeightsEqualTheWidenedOnes) {
  for (const WeightFormat format : {WeightFormat::kBfloat16, WeightFormat::kInt8}) {
    MambaCase c = GetParam();
    set_weight_format(c.options, format);
    const MambaBlock stored = c.block();
    synthetic::Weights wide = c.weights();
    for (const std::string& name : stored.weight_names()) {
      const std::vector<float> values = stored.weight(name);
      std::copy(values.begin(), values.end(), wide.at(name).begin());
    }
    set_weight_format(c.options, WeightFormat::kFloat32);
    const std::vector<float> x = c.input(2, 19);
    EXPECT_TRUE(same_bits(run(stored, x, 2, 19), run(MambaBlock(wide.map, c.options), x, 2, 19)));
  }
}

TEST_P(MambaBlocks, BadWeightsAreRefused) {
  const MambaCase& c = GetParam();
  const synthetic::Weights good = c.weights();
  for (const auto& [name, tensor] : good.map) {
    SCOPED_TRACE(name);
    const bool optional = name.ends_with("_proj.bias") || name == "conv1d.bias" || name == "norm.weight" ||
                          name.starts_with("mimo_");
    WeightMap missing = good.map;
    missing.erase(name);
    if (!optional || (c.version() == 1 && !name.ends_with("bias")) || name == "dt_proj.bias")
      expect_error<ValueError>([&] { MambaBlock(missing, c.options); }, {"[Mamba"});
    WeightMap longer = good.map;
    longer[name].shape.front() += 1;
    expect_error<ValueError>([&] { MambaBlock(longer, c.options); }, {"[Mamba"});
    WeightMap typed = good.map;
    typed[name].dtype = DType::I32;
    expect_error<TypeError>([&] { MambaBlock(typed, c.options); }, {name, "float32"});
    synthetic::Weights nan = c.weights();
    nan.at(name).back() = std::numeric_limits<float>::quiet_NaN();
    expect_error<ValueError>([&] { MambaBlock(nan.map, c.options); }, {name, "finite"});
  }
  WeightMap unknown = good.map;
  unknown["other.weight"] = unknown.begin()->second;
  expect_error<ValueError>([&] { MambaBlock(unknown, c.options); }, {"other.weight"});
}

INSTANTIATE_TEST_SUITE_P(All, MambaBlocks, ::testing::ValuesIn(mamba_cases()),
                         [](const auto& info) { return info.param.name; });

// Two sequences of different lengths share passes of 512 tokens, so one pass meets a row twice.
TEST(MambaPasses, ARowThatAPassMeetsTwiceIsTakenInOrder) {
  for (const MambaCase& c : mamba_cases()) {
    if (c.name != "mamba1" && c.name != "mamba2" && c.name != "mamba3") continue;
    SCOPED_TRACE(c.name);
    const MambaBlock block = c.block();
    const std::vector<int64_t> lengths = {200, 600};
    const std::vector<float> x = c.input(2, 600);
    const std::vector<float> both = run(block, x, 2, 600, nullptr, lengths);
    const std::vector<float> alone(x.begin() + 600 * c.d_model, x.end());
    EXPECT_TRUE(
        same_bits(std::span(both).subspan(static_cast<size_t>(600 * c.d_model)), run(block, alone, 1, 600)));
  }
}

// Saturated steps and gates, decays of 0 and 1, signed zeros: still finite, and the same however it is cut.
TEST(MambaExtremes, StayFiniteAndExact) {
  for (const MambaCase& c : mamba_cases()) {
    SCOPED_TRACE(c.name);
    for (const float size : {-60.0f, -3.0f, 60.0f}) {
      synthetic::Weights w = c.weights();
      for (const char* name : {"A_log", "dt_bias", "dt_proj.bias"})
        if (w.map.contains(name))
          for (float& v : w.at(name)) v = size;
      for (float& v : w.at("in_proj.weight")) v = v * 8.0f;
      const MambaBlock block(w.map, c.options);
      std::vector<float> x = c.input(1, 24);
      for (size_t i = 0; i < x.size(); i += 3) x[i] = i % 2 ? -0.0f : 0.0f;
      const std::vector<float> whole = run(block, x, 1, 24);
      MambaState state = block.allocate_state(1);
      for (int64_t t = 0; t < 24; ++t)
        EXPECT_TRUE(
            same_bits(run(block, cut(x, 1, 24, t, t + 1), 1, 1, &state), cut(whole, 1, 24, t, t + 1)));
      EXPECT_EQ(kernels::reference_table().first_nonfinite(whole.data(), static_cast<int64_t>(whole.size())),
                static_cast<int64_t>(whole.size()));
    }
  }
}

TEST(MambaRefusals, OptionsThatDoNotFit) {
  MambaCase c = mamba_cases()[3];
  c.options = Mamba2Options{.n_groups = 2};
  expect_error<ValueError>([&] { MambaBlock(c.weights().map, Mamba2Options{.n_groups = 2}); }, {"n_groups"});
  c.options = Mamba2Options{};
  expect_error<ValueError>([&] { MambaBlock(c.weights().map, Mamba2Options{.dt_min = 1, .dt_max = 0.5}); },
                           {"dt_limit"});
  expect_error<ValueError>([&] { MambaBlock(c.weights().map, Mamba2Options{.norm_eps = 0}); }, {"norm_eps"});
  const MambaBlock block = c.block();
  const std::vector<float> x = c.input(2, 3);
  MambaState one = block.allocate_state(1);
  expect_error<ValueError>([&] { run(block, x, 2, 3, &one); }, {"batch_size"});
  MambaState other = mamba_cases()[4].block().allocate_state(2);
  expect_error<ValueError>([&] { run(block, x, 2, 3, &other); }, {"state"});
  const std::vector<int64_t> lengths = {0, 3};
  expect_error<ValueError>([&] { run(block, x, 2, 3, nullptr, lengths); }, {"lengths"});
  expect_error<ValueError>([&] { block.allocate_state(0); }, {"batch_size"});
}

}  // namespace
}  // namespace isobit::testing

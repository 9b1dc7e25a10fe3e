// SPDX-License-Identifier: Apache-2.0
// A model's logits are the same bits however its tokens are cut, batched, padded and computed, for every
// family.
#include <gtest/gtest.h>

#include "support/bits.h"
#include "support/random.h"
#include "support/tiny_model.h"

namespace isobit::testing {
namespace {

constexpr int64_t kBatch = 3, kLength = 19;

std::vector<int64_t> columns(const std::vector<int64_t>& ids, int64_t batch, int64_t length, int64_t begin,
                             int64_t end) {
  std::vector<int64_t> out;
  for (int64_t row = 0; row < batch; ++row)
    out.insert(out.end(), ids.begin() + row * length + begin, ids.begin() + row * length + end);
  return out;
}

// Rows [row][begin, end) of logits [batch, length, vocab].
std::vector<float> part(const std::vector<float>& all, int64_t length, int64_t row, int64_t begin,
                        int64_t end) {
  return {all.begin() + (row * length + begin) * kTinyVocab, all.begin() + (row * length + end) * kTinyVocab};
}

void check_split(const CausalLM& model, const std::vector<int64_t>& ids, const std::vector<float>& whole,
                 int64_t batch, int64_t length, const std::vector<int64_t>& parts, bool last_only) {
  CausalLMState state = model.allocate_state(batch, length);
  int64_t at = 0;
  for (const int64_t n : parts) {
    const std::vector<float> got =
        logits(model, columns(ids, batch, length, at, at + n), batch, n, &state, last_only);
    for (int64_t row = 0; row < batch; ++row) {
      const int64_t first = last_only ? at + n - 1 : at, shown = last_only ? 1 : n;
      ASSERT_TRUE(same_bits(part(got, shown, row, 0, shown), part(whole, length, row, first, at + n)));
    }
    at += n;
    ASSERT_EQ(state.position(), at);
  }
}

class Family : public ::testing::TestWithParam<std::string> {};

TEST_P(Family, AllWaysGiveTheSameBits) {
  const CausalLM model = TinyModel(GetParam()).load();
  const std::vector<int64_t> ids = tiny_ids(kBatch, kLength);
  const std::vector<float> whole = logits(model, ids, kBatch, kLength);
  Random random(1);
  for (const bool last_only : {false, true}) {
    for (int i = 0; i < 3; ++i)
      check_split(model, ids, whole, kBatch, kLength, random.parts(kLength, 9), last_only);
    check_split(model, ids, whole, kBatch, kLength, std::vector<int64_t>(kLength, 1), last_only);
  }
  const std::vector<int64_t> lengths = {7, kLength, 1};
  const std::vector<float> ragged = logits(model, ids, kBatch, kLength, nullptr, false, lengths);
  const std::vector<float> last = logits(model, ids, kBatch, kLength, nullptr, true, lengths);
  for (int64_t row = 0; row < kBatch; ++row) {
    const int64_t n = lengths[static_cast<size_t>(row)];
    const std::vector<int64_t> alone(ids.begin() + row * kLength, ids.begin() + row * kLength + n);
    ASSERT_TRUE(same_bits(logits(model, alone, 1, n), part(whole, kLength, row, 0, n))) << "alone";
    ASSERT_TRUE(same_bits(part(ragged, kLength, row, 0, n), part(whole, kLength, row, 0, n))) << "ragged";
    ASSERT_TRUE(same_bits(part(last, 1, row, 0, 1), part(whole, kLength, row, n - 1, n)))
        << "ragged, last only";
    const std::vector<float> padding = part(ragged, kLength, row, n, kLength);
    ASSERT_TRUE(same_bits(padding, std::vector<float>(padding.size(), 0.0f)));
  }
  on_every_isa([&] {
    ASSERT_TRUE(same_bits(logits(model, ids, kBatch, kLength), whole));
    check_split(model, ids, whole, kBatch, kLength, {8, 1, 10}, true);
    // Packed under this instruction set as well.
    ASSERT_TRUE(same_bits(logits(TinyModel(GetParam()).load(), ids, kBatch, kLength), whole));
  });
}

// Two ragged calls and a step: every row is as if it were alone, and its state ends at its own length.
TEST_P(Family, RaggedRowsContinue) {
  const CausalLM model = TinyModel(GetParam()).load();
  const std::vector<int64_t> first = {7, 19, 1}, second = {3, 1, 9};
  const std::vector<int64_t> ids = tiny_ids(kBatch, kLength), more = tiny_ids(kBatch, 9, 2),
                             last = tiny_ids(kBatch, 1, 3);
  const auto check = [&] {
    CausalLMState state = model.allocate_state(kBatch, 24);
    const std::vector<float> a = logits(model, ids, kBatch, kLength, &state, false, first);
    const std::vector<float> b = logits(model, more, kBatch, 9, &state, true, second);
    const std::vector<float> c = logits(model, last, kBatch, 1, &state);
    EXPECT_EQ(state.position(), 21);
    for (int64_t row = 0; row < kBatch; ++row) {
      const int64_t n = first[static_cast<size_t>(row)], m = second[static_cast<size_t>(row)];
      std::vector<int64_t> alone(ids.begin() + row * kLength, ids.begin() + row * kLength + n);
      alone.insert(alone.end(), more.begin() + row * 9, more.begin() + row * 9 + m);
      alone.push_back(last[static_cast<size_t>(row)]);
      const std::vector<float> whole = logits(model, alone, 1, n + m + 1);
      EXPECT_EQ(state.position(row), n + m + 1);
      EXPECT_TRUE(same_bits(part(a, kLength, row, 0, n), part(whole, n + m + 1, 0, 0, n)));
      EXPECT_TRUE(same_bits(part(b, 1, row, 0, 1), part(whole, n + m + 1, 0, n + m - 1, n + m)));
      EXPECT_TRUE(same_bits(part(c, 1, row, 0, 1), part(whole, n + m + 1, 0, n + m, n + m + 1)));
      const std::vector<float> padding = part(a, kLength, row, n, kLength);
      EXPECT_TRUE(same_bits(padding, std::vector<float>(padding.size(), 0.0f)));
    }
  };
  check();
  on_every_isa(check);
}

TEST_P(Family, StepIsForwardOfOneToken) {
  const CausalLM model = TinyModel(GetParam()).load();
  const std::vector<int64_t> ids = tiny_ids(2, 6);
  const std::vector<float> whole = logits(model, ids, 2, 6);
  CausalLMState state = model.allocate_state(2, 6);
  for (int64_t t = 0; t < 6; ++t) {
    std::vector<float> got(2 * kTinyVocab);
    model.step(columns(ids, 2, 6, t, t + 1), state, got.data());
    for (int64_t row = 0; row < 2; ++row)
      ASSERT_TRUE(same_bits(part(got, 1, row, 0, 1), part(whole, 6, row, t, t + 1)));
  }
  model.reset_state(state);
  EXPECT_EQ(state.position(), 0);
  EXPECT_TRUE(same_bits(logits(model, ids, 2, 6, &state), whole));
}

// Lengths around the width of a convolution, and any up to 600.
TEST_P(Family, AnyLengthInAnyPieces) {
  const CausalLM model = TinyModel(GetParam()).load();
  Random random(23);
  std::vector<int64_t> lengths = {1, 2, 3, 4, 5, 6};
  for (int i = 0; i < (long_tests() ? 30 : 2); ++i) lengths.push_back(random.in(1, 600));
  for (const int64_t length : lengths) {
    SCOPED_TRACE(length);
    const std::vector<int64_t> ids = tiny_ids(1, length);
    const std::vector<float> whole = logits(model, ids, 1, length);
    check_split(model, ids, whole, 1, length, random.parts(length, 4), false);
    check_split(model, ids, whole, 1, length, random.parts(length, 300), true);
  }
}

// Longer than a pass of 512 tokens and, with windows, longer than the ring.
TEST_P(Family, LongPrompts) {
  const CausalLM model = TinyModel(GetParam()).load();
  constexpr int64_t kLong = 1300;
  const std::vector<int64_t> ids = tiny_ids(1, kLong);
  const std::vector<float> whole = logits(model, ids, 1, kLong);
  check_split(model, ids, whole, 1, kLong, {500, 700, 99, 1}, false);
  check_split(model, ids, whole, 1, kLong, {1299, 1}, true);
}

INSTANTIATE_TEST_SUITE_P(Each, Family, ::testing::ValuesIn(tiny_families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace isobit::testing

// SPDX-License-Identifier: Apache-2.0
// A call that fails leaves no trace: refused, interrupted or overflowing, on plain caches and on rings that
// it had already overwritten.
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "support/bits.h"
#include "support/block_cases.h"

namespace isobit::testing {
namespace {

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("stop") {}
};

/// Throws at the n-th check, and takes the check away again.
class InterruptAt {
 public:
  explicit InterruptAt(int n) {
    set_interrupt_check([n, count = 0]() mutable {
      if (++count == n) throw Interrupted();
    });
  }
  ~InterruptAt() { set_interrupt_check({}); }
};

// After `before` tokens a call with `more` fails at its end; then all that follows is as on an undisturbed
// state.
void check_recovery(int64_t window, int64_t before, int64_t more) {
  SCOPED_TRACE("window " + std::to_string(window) + ", " + std::to_string(before) + " + " +
               std::to_string(more));
  const BlockCase c = narrow_case(window);
  const TransformerBlock block = c.block();
  const int64_t length = before + more + 40;
  const std::vector<float> x = c.input(1, length), whole = run(block, x, 1, length);
  TransformerState state = block.allocate_state(1, length);
  if (before > 0) run(block, tokens(x, 1, length, 0, before), 1, before, &state);
  const std::vector<float> keys = state.keys(), values = state.values();

  const auto untouched = [&] {
    EXPECT_EQ(state.cached_tokens(), before);
    EXPECT_TRUE(same_bits(state.keys(), keys));
    EXPECT_TRUE(same_bits(state.values(), values));
  };
  std::vector<float> other = synthetic::values(99, more * c.d_model, 4.0f);
  other[static_cast<size_t>((more - 1) * c.d_model)] = 1e30f;  // the last token overflows in the first norm
  expect_error<NonFiniteError>([&] { run(block, other, 1, more, &state); },
                               {std::to_string(before + more - 1)});
  untouched();
  {
    const InterruptAt last_pass(static_cast<int>((more + 511) / 512));
    EXPECT_THROW(run(block, synthetic::values(98, more * c.d_model), 1, more, &state), Interrupted);
  }
  untouched();
  other.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(run(block, other, 1, more, &state), ValueError);
  untouched();
  const std::vector<float> too_many = synthetic::values(97, (length - before + 1) * c.d_model);
  expect_error<ValueError>([&] { run(block, too_many, 1, length - before + 1, &state); },
                           {"[TransformerBlock] state", "room"});
  untouched();

  const std::vector<float> rest =
      run(block, tokens(x, 1, length, before, length), 1, length - before, &state);
  EXPECT_TRUE(same_bits(rest, tokens(whole, 1, length, before, length)));
}

TEST(Transaction, PlainCache) {
  check_recovery(0, 0, 5);
  check_recovery(0, 20, 1);
  check_recovery(0, 300, 700);
}

TEST(Transaction, Ring) {
  for (const int64_t before : {0, 1, 700, 1000})
    for (const int64_t more : {1, 100, 668, 669, 1700}) check_recovery(100, before, more);  // 768 slots
  check_recovery(300, 900, 1200);
}

// Going back after a failed call must not find what that call wrote.
TEST(Transaction, ForgettingAfterAFailure) {
  const BlockCase c = narrow_case(50);
  const TransformerBlock block = c.block();
  constexpr int64_t kLong = 1200;
  const std::vector<float> x = c.input(1, kLong), whole = run(block, x, 1, kLong);
  TransformerState state = block.allocate_state(1, kLong);
  run(block, tokens(x, 1, kLong, 0, 900), 1, 900, &state);  // slots hold positions 132..899
  std::vector<float> bad = synthetic::values(5, 200 * c.d_model);
  bad.back() = 1e30f;
  EXPECT_THROW(run(block, bad, 1, 200, &state), NonFiniteError);  // they were given to 900..1099
  expect_error<ValueError>([&] { state.set_cached_tokens(300); }, {"still cached"});
  state.set_cached_tokens(390);
  EXPECT_TRUE(
      same_bits(run(block, tokens(x, 1, kLong, 390, 400), 1, 10, &state), tokens(whole, 1, kLong, 390, 400)));

  TransformerState fresh = block.allocate_state(1, kLong);
  std::vector<float> long_bad = synthetic::values(6, kLong * c.d_model);
  long_bad.back() = 1e30f;
  EXPECT_THROW(run(block, long_bad, 1, kLong, &fresh), NonFiniteError);
  run(block, tokens(x, 1, kLong, 0, 10), 1, 10, &fresh);
  fresh.set_cached_tokens(5);
  EXPECT_TRUE(
      same_bits(run(block, tokens(x, 1, kLong, 5, 10), 1, 5, &fresh), tokens(whole, 1, kLong, 5, 10)));
}

TEST(Transaction, BuffersOnShowStayAsTheyWere) {
  const BlockCase c = narrow_case(6);
  const TransformerBlock block = c.block();
  const std::vector<float> x = c.input(1, 12);
  TransformerState state = block.allocate_state(1, 12);
  run(block, tokens(x, 1, 12, 0, 8), 1, 8, &state);
  const auto k = state.k_cache();
  const std::vector<float> before = *k;
  std::vector<float> bad = tokens(x, 1, 12, 8, 12);
  bad.back() = 1e30f;
  EXPECT_THROW(run(block, bad, 1, 4, &state), NonFiniteError);
  EXPECT_TRUE(same_bits(*k, before));
  run(block, tokens(x, 1, 12, 8, 12), 1, 4, &state);
  EXPECT_FALSE(same_bits(*k, before));
}

}  // namespace
}  // namespace isobit::testing

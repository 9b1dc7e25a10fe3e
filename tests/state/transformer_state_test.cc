// SPDX-License-Identifier: Apache-2.0
// The documented layout of a state, edits through it, its rules and its refusals.
#include "isobit/transformer_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "support/bits.h"
#include "support/block_cases.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kHeadDim = 4;

BlockCase small_case(int64_t window) {
  BlockCase c;
  c.d_model = 12;
  c.intermediate = 16;
  c.options.n_heads = 4;
  c.options.n_kv_heads = kHeads;
  c.options.head_dim = kHeadDim;
  c.options.window = window;
  return c;
}

// What position p of (row, head) holds in a documented buffer.
std::vector<float> entry(const std::vector<float>& buffer, int64_t stride, int64_t slot, int64_t row,
                         int64_t head) {
  const int64_t at = ((row * kHeads + head) * stride + slot) * kHeadDim;
  return {buffer.begin() + at, buffer.begin() + at + kHeadDim};
}

TEST(TransformerState, StartsEmptyAndZero) {
  TransformerState s(kBatch, kHeads, kHeadDim, 10, 0);
  EXPECT_EQ(s.batch_size(), kBatch);
  EXPECT_EQ(s.n_kv_heads(), kHeads);
  EXPECT_EQ(s.head_dim(), kHeadDim);
  EXPECT_EQ(s.max_tokens(), 10);
  EXPECT_EQ(s.window(), 0);
  EXPECT_EQ(s.capacity(), 10);
  EXPECT_EQ(s.cached_tokens(), 0);
  EXPECT_TRUE(same_bits(*s.k_cache(), std::vector<float>(kBatch * kHeads * 10 * kHeadDim, 0.0f)));
  EXPECT_TRUE(s.keys().empty());
  EXPECT_EQ(TransformerState(kBatch, kHeads, kHeadDim, 10, 3).capacity(), 3);
}

// Without a window the used part is packed as [batch, head, cached, head_dim], and packed again as it grows.
TEST(TransformerState, PackedLayoutWithoutWindow) {
  const BlockCase c = small_case(0);
  const TransformerBlock block = c.block();
  const std::vector<float> x = c.input(kBatch, 9);
  TransformerState state = block.allocate_state(kBatch, 20);
  const auto k = state.k_cache(), v = state.v_cache();
  int64_t cached = 0;
  std::vector<float> first_keys;
  for (const int64_t n : {5, 1, 3}) {
    run(block, tokens(x, kBatch, 9, cached, cached + n), kBatch, n, &state);
    cached += n;
    ASSERT_EQ(state.cached_tokens(), cached);
    const std::vector<float> keys = state.keys(), values = state.values();
    ASSERT_EQ(keys.size(), static_cast<size_t>(kBatch * kHeads * cached * kHeadDim));
    ASSERT_TRUE(same_bits({k->data(), keys.size()}, keys));
    ASSERT_TRUE(same_bits({v->data(), values.size()}, values));
    if (first_keys.empty()) first_keys = keys;
  }
  for (int64_t row = 0; row < kBatch; ++row)
    for (int64_t head = 0; head < kHeads; ++head)
      for (int64_t p = 0; p < 5; ++p)
        ASSERT_TRUE(same_bits(entry(*k, 9, p, row, head), entry(first_keys, 5, p, row, head)));
}

// With a window the key of position p lies in slot p % window, and keys() is chronological.
TEST(TransformerState, RingLayout) {
  constexpr int64_t kWindow = 5;
  const BlockCase windowed = small_case(kWindow);
  const TransformerBlock block = windowed.block(), full = small_case(0).block();
  const std::vector<float> x = windowed.input(kBatch, 13);
  TransformerState state = block.allocate_state(kBatch, 13);
  TransformerState all =
      full.allocate_state(kBatch, 13);  // the keys of this layer do not depend on the window
  run(full, x, kBatch, 13, &all);
  const std::vector<float> every_key = all.keys(), every_value = all.values();
  int64_t cached = 0;
  for (const int64_t n : {3, 1, 8, 1}) {
    run(block, tokens(x, kBatch, 13, cached, cached + n), kBatch, n, &state);
    cached += n;
    const int64_t held = std::min(cached, kWindow);
    const auto k = state.k_cache(), v = state.v_cache();
    ASSERT_EQ(k->size(), static_cast<size_t>(kBatch * kHeads * kWindow * kHeadDim));
    const std::vector<float> keys = state.keys();
    for (int64_t row = 0; row < kBatch; ++row)
      for (int64_t head = 0; head < kHeads; ++head)
        for (int64_t p = cached - held; p < cached; ++p) {
          ASSERT_TRUE(
              same_bits(entry(*k, kWindow, p % kWindow, row, head), entry(every_key, 13, p, row, head)));
          ASSERT_TRUE(
              same_bits(entry(*v, kWindow, p % kWindow, row, head), entry(every_value, 13, p, row, head)));
          ASSERT_TRUE(same_bits(entry(keys, held, p - (cached - held), row, head),
                                entry(every_key, 13, p, row, head)));
        }
  }
}

// A state made from what another one showed continues it bit for bit.
TEST(TransformerState, RoundTrip) {
  for (const int64_t window : {0, 4, 30}) {
    const BlockCase c = small_case(window);
    const TransformerBlock block = c.block();
    const std::vector<float> x = c.input(kBatch, 12);
    const std::vector<float> whole = run(block, x, kBatch, 12);
    for (const int64_t cut : {0, 1, 3, 4, 5, 11}) {
      TransformerState state = block.allocate_state(kBatch, 12);
      if (cut > 0) run(block, tokens(x, kBatch, 12, 0, cut), kBatch, cut, &state);
      const auto k = state.k_cache(), v = state.v_cache();
      TransformerState copy(kBatch, kHeads, kHeadDim, 12, k->data(), v->data(),
                            static_cast<int64_t>(k->size()), cut, window);
      EXPECT_TRUE(same_bits(*copy.k_cache(), *k));
      EXPECT_TRUE(same_bits(*copy.v_cache(), *v));
      const std::vector<float> rest = run(block, tokens(x, kBatch, 12, cut, 12), kBatch, 12 - cut, &copy);
      ASSERT_TRUE(same_bits(rest, tokens(whole, kBatch, 12, cut, 12)))
          << "window " << window << ", cut " << cut;
    }
  }
}

// Whoever keeps the buffers may edit them: the next call reads the edit, as if the state had been made from
// it.
TEST(TransformerState, EditsAreHonoured) {
  for (const int64_t window : {0, 4}) {
    const BlockCase c = small_case(window);
    const TransformerBlock block = c.block();
    const std::vector<float> x = c.input(kBatch, 8);
    for (const bool edit_keys : {true, false}) {
      TransformerState state = block.allocate_state(kBatch, 8);
      run(block, tokens(x, kBatch, 8, 0, 6), kBatch, 6, &state);
      const auto k = state.k_cache(), v = state.v_cache();
      for (float& value : edit_keys ? *k : *v) value += 0.125f;
      TransformerState made(kBatch, kHeads, kHeadDim, 8, k->data(), v->data(),
                            static_cast<int64_t>(k->size()), 6, window);
      EXPECT_TRUE(same_bits(state.keys(), made.keys()));
      const std::vector<float> next = tokens(x, kBatch, 8, 6, 7), last = tokens(x, kBatch, 8, 7, 8);
      ASSERT_TRUE(same_bits(run(block, next, kBatch, 1, &state), run(block, next, kBatch, 1, &made)));
      // Updated in place (the used part, which fills a ring), and read again by the call after that.
      const size_t used = made.keys().size();
      const auto made_keys = made.k_cache();
      ASSERT_TRUE(same_bits({k->data(), used}, {made_keys->data(), used}));
      for (float& value : *k) value -= 0.25f;
      *made_keys = *k;
      ASSERT_TRUE(same_bits(run(block, last, kBatch, 1, &state), run(block, last, kBatch, 1, &made)));
    }
  }
}

TEST(TransformerState, OnlyOneBufferHeld) {
  const BlockCase c = small_case(0);
  const TransformerBlock block = c.block();
  const std::vector<float> x = c.input(kBatch, 6), whole = run(block, x, kBatch, 6);
  TransformerState state = block.allocate_state(kBatch, 6);
  const auto v = state.v_cache();
  for (int64_t t = 0; t < 6; ++t)
    ASSERT_TRUE(same_bits(run(block, tokens(x, kBatch, 6, t, t + 1), kBatch, 1, &state),
                          tokens(whole, kBatch, 6, t, t + 1)));
  EXPECT_TRUE(same_bits(*v, state.values()));
}

TEST(TransformerState, RefusesNonFiniteEdits) {
  const BlockCase c = small_case(4);
  const TransformerBlock block = c.block();
  const std::vector<float> x = c.input(kBatch, 8);
  TransformerState state = block.allocate_state(kBatch, 8);
  run(block, tokens(x, kBatch, 8, 0, 6), kBatch, 6, &state);
  TransformerState same = block.allocate_state(kBatch, 8);
  run(block, tokens(x, kBatch, 8, 0, 6), kBatch, 6, &same);
  const std::vector<float> next = tokens(x, kBatch, 8, 6, 7);
  {
    const auto v = state.v_cache();
    const float kept = (*v)[7];
    (*v)[7] = std::numeric_limits<float>::infinity();
    expect_error<ValueError>(
        [&] { run(block, next, kBatch, 1, &state); },
        {"[TransformerState] v_cache", "finite", "batch row 0", "kv head 0", "position 5"});
    EXPECT_EQ(state.cached_tokens(), 6);
    (*v)[7] = kept;
    const auto k = state.k_cache();
    k->pop_back();
    expect_error<ValueError>([&] { run(block, next, kBatch, 1, &state); },
                             {"k_cache and v_cache", "64", "63"});
    k->push_back(same.k_cache()->back());
  }
  ASSERT_TRUE(same_bits(run(block, next, kBatch, 1, &state), run(block, next, kBatch, 1, &same)));
}

// What lies beyond the used part may be anything.
// An assignment is an edit at once, with or without a holder, and is refused whole.
TEST(TransformerState, AssignedBuffers) {
  for (const int64_t window : {0, 4}) {
    const BlockCase c = small_case(window);
    const TransformerBlock block = c.block();
    const std::vector<float> x = c.input(kBatch, 6);
    for (const bool keys : {true, false}) {
      TransformerState state = block.allocate_state(kBatch, 8), other = block.allocate_state(kBatch, 8);
      for (TransformerState* s : {&state, &other}) run(block, x, kBatch, 6, s);
      std::vector<float> values = keys ? *state.k_cache() : *state.v_cache();
      for (float& value : values) value += 0.125f;
      const auto held = keys ? other.k_cache() : other.v_cache();
      *held = values;
      keys ? state.set_k_cache(values) : state.set_v_cache(values);
      ASSERT_TRUE(same_bits(state.keys(), other.keys()));
      ASSERT_TRUE(same_bits(state.values(), other.values()));
      values[1] = std::numeric_limits<float>::infinity();
      const std::string part = keys ? "k_cache" : "v_cache";
      const auto assign = [&] { keys ? state.set_k_cache(values) : state.set_v_cache(values); };
      expect_error<ValueError>(assign, {"[TransformerState] " + part, "finite", "batch row 0", "kv head 0",
                                        window == 0 ? "position 0" : "position 4"});
      values.pop_back();
      expect_error<ValueError>(assign, {"[TransformerState] " + part, std::to_string(values.size() + 1)});
      EXPECT_TRUE(same_bits(state.keys(), other.keys()));
      EXPECT_TRUE(same_bits(state.values(), other.values()));
    }
  }
}

TEST(TransformerState, SpareCapacityIsNotRead) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> k(kBatch * kHeads * 5 * kHeadDim, kNan);
  for (size_t i = 0; i < kBatch * kHeads * 2 * kHeadDim; ++i) k[i] = 0.5f;
  TransformerState packed(kBatch, kHeads, kHeadDim, 5, k.data(), k.data(), static_cast<int64_t>(k.size()), 2,
                          0);
  EXPECT_EQ(packed.cached_tokens(), 2);
  EXPECT_THROW(
      TransformerState(kBatch, kHeads, kHeadDim, 5, k.data(), k.data(), static_cast<int64_t>(k.size()), 3, 0),
      ValueError);
}

TEST(TransformerState, ForgettingTheNewest) {
  for (const int64_t window : {0, 6}) {
    const BlockCase c = small_case(window);
    const TransformerBlock block = c.block();
    const std::vector<float> x = c.input(kBatch, 10), whole = run(block, x, kBatch, 10);
    TransformerState state = block.allocate_state(kBatch, 10);
    run(block, x, kBatch, 10, &state);
    for (const int64_t n : {9, 8, 2, 0}) {
      state.set_cached_tokens(n);
      EXPECT_EQ(state.cached_tokens(), n);
      const std::vector<float> again = run(block, tokens(x, kBatch, 10, n, 10), kBatch, 10 - n, &state);
      ASSERT_TRUE(same_bits(again, tokens(whole, kBatch, 10, n, 10)))
          << "window " << window << ", back to " << n;
    }
    expect_error<ValueError>([&] { state.set_cached_tokens(11); },
                             {"[TransformerState] cached_tokens", "0..10", "11"});
    expect_error<ValueError>([&] { state.set_cached_tokens(-1); }, {"cached_tokens", "-1"});
    state.reset();
    EXPECT_EQ(state.cached_tokens(), 0);
  }
}

// A ring forgets; going back to where its window is gone is refused, however the positions were lost.
TEST(TransformerState, ForgettingMoreThanARingHolds) {
  BlockCase c = small_case(10);
  const TransformerBlock block = c.block();
  constexpr int64_t kLong = 1500;  // the ring has 768 slots
  const std::vector<float> x = c.input(1, kLong), whole = run(block, x, 1, kLong);
  const auto continues = [&](TransformerState& state) {
    const int64_t n = state.cached_tokens();
    return same_bits(run(block, tokens(x, 1, kLong, n, n + 3), 1, 3, &state),
                     tokens(whole, 1, kLong, n, n + 3));
  };
  Random random(3);
  for (int i = 0; i < 40; ++i) {
    TransformerState state = block.allocate_state(1, kLong);
    run(block, tokens(x, 1, kLong, 0, 1000), 1, 1000, &state);
    int64_t refused = 0;
    for (int step = 0; step < 4; ++step) {
      const int64_t n = random.in(1, state.cached_tokens());
      try {
        state.set_cached_tokens(n);
      } catch (const ValueError&) {
        ++refused;
        EXPECT_LT(n - 10, 300);
        continue;
      }
      ASSERT_TRUE(continues(state)) << "back to " << n;
    }
  }
  TransformerState state = block.allocate_state(1, kLong);
  run(block, tokens(x, 1, kLong, 0, 1000), 1, 1000, &state);
  state.set_cached_tokens(900);
  expect_error<ValueError>([&] { state.set_cached_tokens(235); }, {"cached_tokens", "still cached", "235"});
  state.set_cached_tokens(242);  // positions 232..999 are held
  EXPECT_TRUE(continues(state));
  state.reset();
  EXPECT_TRUE(continues(state));

  // From documented buffers only the window is there.
  TransformerState source = block.allocate_state(1, kLong);
  run(block, tokens(x, 1, kLong, 0, 1000), 1, 1000, &source);
  const auto k = source.k_cache(), v = source.v_cache();
  TransformerState made(1, kHeads, kHeadDim, kLong, k->data(), v->data(), static_cast<int64_t>(k->size()),
                        1000, 10);
  expect_error<ValueError>([&] { made.set_cached_tokens(999); }, {"still cached"});
  EXPECT_TRUE(continues(made));
}

TEST(TransformerState, Refusals) {
  expect_error<ValueError>([] { TransformerState(0, 1, 4, 8); },
                           {"[TransformerState] batch_size", "positive", "0"});
  expect_error<ValueError>([] { TransformerState(1, -2, 4, 8); }, {"n_kv_heads", "-2"});
  expect_error<ValueError>([] { TransformerState(1, 1, 0, 8); }, {"head_dim", "0"});
  expect_error<ValueError>([] { TransformerState(1, 1, 4, 0); }, {"max_tokens", "0"});
  expect_error<ValueError>([] { TransformerState(1, 1, 4, 8, -1); }, {"window", "-1"});
  const std::vector<float> x(32);
  expect_error<ValueError>([&] { TransformerState(1, 1, 4, 8, x.data(), x.data(), 31, 2, 0); },
                           {"k_cache and v_cache", "32", "31"});
  expect_error<ValueError>([&] { TransformerState(1, 1, 4, 8, x.data(), x.data(), 32, 9, 0); },
                           {"cached_tokens", "0..8", "9"});
  expect_error<ValueError>([&] { TransformerState(1, 1, 4, 8, x.data(), x.data(), 32, -1, 0); },
                           {"cached_tokens", "-1"});
}

// Sizes that no memory holds, and whose products do not fit an integer.
TEST(TransformerState, HugeSizes) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(TransformerState(1, 1, 2, kMost), std::bad_alloc);
  EXPECT_THROW(TransformerState(kMost, kMost, 2, 8), std::bad_alloc);
  EXPECT_THROW(TransformerState(1, 1, 2, 8, kMost), std::bad_alloc);
  EXPECT_THROW(TransformerState(1, 1, 1, kMost, kMost), std::bad_alloc);
  EXPECT_THROW(TransformerState(int64_t{1} << 40, 1, 64, int64_t{1} << 30), std::bad_alloc);
  TransformerState endless(1, 1, 2, kMost, 8);  // a ring has its own size
  EXPECT_EQ(endless.capacity(), 8);
}

}  // namespace
}  // namespace isobit::testing

// SPDX-License-Identifier: Apache-2.0
// A host that flushes subnormals and rounds upward changes no bit, and keeps its mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <thread>

#include "backends/cpu/thread_pool.h"
#include "checkpoint/helpers.h"
#include "isobit/causal_lm.h"
#include "support/bits.h"
#include "support/block_cases.h"
#include "support/host_env.h"
#include "support/tiny_model.h"

namespace isobit::testing {
namespace {

// Inputs down to subnormals, with an epsilon that keeps them so behind the norm.
BlockCase subnormal_case() {
  BlockCase c = option_cases().front();
  c.options.norm_eps = 1.0;
  return c;
}

std::vector<float> subnormal_input(int64_t length) {
  std::vector<float> x = subnormal_case().input(1, length);
  for (size_t i = 0; i < x.size(); ++i) x[i] = x[i] * (i % 48 < 24 ? 0x1p-127f : 1.0f);
  return x;
}

// Whether this thread keeps subnormals and rounds to nearest; by bits, since a comparison flushes as well.
bool in_own_mode() {
  volatile float tiny = 0x1p-130f, one = 1.0f, five = 5.0f, three = 3.0f;
  return std::bit_cast<uint32_t>(tiny * one) == std::bit_cast<uint32_t>(0x1p-130f) &&
         std::bit_cast<uint32_t>(five / three) == std::bit_cast<uint32_t>(0x1.aaaaaap0f);
}

TEST(HostMode, TheTestCanFail) {
  EXPECT_TRUE(in_own_mode());
  const HostMode host;
  EXPECT_FALSE(in_own_mode());
  EXPECT_TRUE(host.intact());
}

TEST(HostMode, Block) {
  const RestoreRuntime restore;
  const BlockCase c = subnormal_case();
  const std::vector<float> x = subnormal_input(40);
  const std::vector<float> expected = run(c.block(), x, 1, 40);
  const auto subnormal = [](float v) { return v != 0.0f && std::abs(v) < 0x1p-126f; };
  ASSERT_TRUE(std::any_of(expected.begin(), expected.end(), subnormal)) << "the case must reach subnormals";
  const synthetic::Weights weights = c.weights();
  const HostMode host;
  for (const std::string& isa : available_isas())
    for (const int threads : {1, 3, 4}) {  // a new count makes new threads, which inherit this thread's mode
      set_isa(isa);
      set_num_threads(threads);
      const TransformerBlock block(weights.map, c.options);
      std::vector<float> out(x.size());
      block.forward(x.data(), 1, 40, out.data());
      EXPECT_TRUE(same_bits(out, expected)) << isa << ", " << threads << " threads";
      TransformerState state = block.allocate_state(1, 40);
      block.forward(x.data(), 1, 39, out.data(), &state);
      const auto keys = state.k_cache();
      block.forward(x.data() + 39 * 24, 1, 1, out.data() + 39 * 24, &state);
      EXPECT_TRUE(same_bits(out, expected)) << isa << ", " << threads << " threads, a step";
      EXPECT_TRUE(host.intact());
    }
}

TEST(HostMode, GivenBackAfterAnError) {
  const TransformerBlock block = subnormal_case().block();
  std::vector<float> x = subnormal_input(4), out(x.size());
  x[30] = 1e30f;
  const HostMode host;
  EXPECT_ANY_THROW(block.forward(x.data(), 1, 4, out.data()));
  EXPECT_TRUE(host.intact());
}

// Workers do not inherit the mode of the thread that made them.
TEST(HostMode, WorkersHaveTheirOwn) {
  const RestoreRuntime restore;
  const HostMode host;
  set_num_threads(1);
  set_num_threads(4);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> by_workers{0}, kept{0};
  for (int round = 0; by_workers == 0 && round < 100; ++round)
    cpu::parallel_for(64, [&](int64_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (std::this_thread::get_id() == caller) return;
      ++by_workers;
      kept += in_own_mode();
    });
  EXPECT_GT(by_workers, 0);
  EXPECT_EQ(kept, by_workers);
}

// Logits that differ by subnormals are different numbers.
TEST(HostMode, TheGreedyChoice) {
  TinyModel tiny("llama");
  std::vector<float>& head = tiny.weights.at("lm_head.weight");
  std::fill(head.begin(), head.end(), 0.0f);
  for (size_t i = 0; i < 16; ++i) {  // one of the two has the only positive logit
    head[5 * 16 + i] = 0x1p-140f * static_cast<float>(i + 1);
    head[6 * 16 + i] = -head[5 * 16 + i];
  }
  const CausalLM model = tiny.load();
  const std::vector<int32_t> expected = model.generate(tiny_ids(1, 4), 1, 4, 6);
  EXPECT_TRUE(expected[4] == 5 || expected[4] == 6);
  const HostMode host;
  EXPECT_EQ(model.generate(tiny_ids(1, 4), 1, 4, 6), expected);
}

TEST(HostMode, Model) {
  const TempDir dir;
  TinyModel tiny("llama");
  tiny.config["rms_norm_eps"] = 1.1e-5;  // no binary number: reading it rounds
  tiny.write(dir.path());
  const std::vector<int64_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
  const CausalLM before = CausalLM::load(dir.path());
  std::vector<float> expected(ids.size() * 32), logits(expected.size());
  before.forward(ids, 1, 8, expected.data());
  const std::vector<int32_t> generated = before.generate(ids, 1, 8, 12);
  bool callback_saw_host = true;
  const HostMode host;
  const CausalLM model = CausalLM::load(dir.path());
  EXPECT_TRUE(host.intact());
  model.forward(ids, 1, 8, logits.data());
  EXPECT_TRUE(same_bits(logits, expected));
  const std::vector<int32_t> again = model.generate(ids, 1, 8, 12, [&](int64_t, auto, auto) {
    callback_saw_host = callback_saw_host && host.intact();
    return true;
  });
  EXPECT_EQ(again, generated);
  EXPECT_TRUE(callback_saw_host);
  EXPECT_TRUE(host.intact());
}

}  // namespace
}  // namespace isobit::testing

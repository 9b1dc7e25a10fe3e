// SPDX-License-Identifier: Apache-2.0
// A value that stops being finite inside a block is found at the stage where it arises, named by the smallest
// (position, layer, stage), whatever the split, the batch, the threads and the instruction set; the state
// stays.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "support/bits.h"
#include "support/block_cases.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

constexpr int64_t kLength = 14;
constexpr int64_t kFirst = 5, kSecond = 9;  // the tokens with a signal in their first element

// A block whose matrices are zero but for what a case plants, so that only tokens with a signal are affected.
struct Plant {
  std::string stage;
  int64_t position;
  std::function<void(TransformerOptions&)> options;
  std::function<void(synthetic::Weights&)> weights;
  float signal = 8.0f;
  int64_t d_model = 8;
};

void set(synthetic::Weights& w, const std::string& name, size_t index, float value) {
  w.at(name)[index] = value;
}

std::vector<Plant> plants() {
  const auto none = [](TransformerOptions&) {};
  const auto qk_norm = [](TransformerOptions& o) { o.qk_norm = true; };
  const auto layer_norm = [](TransformerOptions& o) { o.norm = NormKind::kLayerNorm; };
  using W = synthetic::Weights;
  // The norm of a row whose only element is a signal is sqrt(8) there.
  return {
      {"input norm", kFirst, none, [](W&) {}, 1e30f},
      {"input norm", kFirst, layer_norm, [](W&) {}, 1e30f},
      {"query projection", kFirst, none, [](W& w) { set(w, "q_proj.weight", 0, 3e38f); }},
      {"key projection", kFirst, none, [](W& w) { set(w, "k_proj.weight", 0, 3e38f); }},
      {"value projection", kFirst, none, [](W& w) { set(w, "v_proj.weight", 0, 3e38f); }},
      {"query norm", kFirst, qk_norm, [](W& w) { set(w, "q_proj.weight", 0, 1e38f); }},
      {"key norm", kFirst, qk_norm, [](W& w) { set(w, "k_proj.weight", 0, 1e38f); }},
      {"rotary embedding", kFirst, none,
       [](W& w) {  // cos(5) - sin(5) is 1.24
         set(w, "q_proj.weight", 0, 1.1e38f);
         set(w, "q_proj.weight", 2 * 8, 1.1e38f);
       }},
      {"attention scores", kFirst, none,
       [](W& w) {
         set(w, "q_proj.weight", 0, 1e38f);
         set(w, "k_proj.weight", 0, 1e38f);
       }},
      {"attention scores", kFirst, [](TransformerOptions& o) { o.attn_softcap = 10.0; },
       [](W& w) {
         set(w, "q_proj.weight", 0, 1e38f);
         set(w, "k_proj.weight", 0, -1e38f);
       }},
      {"attention output", kSecond, none, [](W& w) { set(w, "v_proj.weight", 0, 1.15e38f); }},
      {"output projection", kFirst, none,
       [](W& w) {
         set(w, "v_proj.weight", 0, 1e38f);
         set(w, "o_proj.weight", 0, 100.0f);
       }},
      {"attention residual", kFirst,
       [](TransformerOptions& o) {
         o.norm = NormKind::kLayerNorm;
         o.o_bias = true;
       },
       [](W& w) { set(w, "o_proj.bias", 0, 1e37f); }, 3.4e38f, 1},
      {"post-attention norm", kFirst, none,
       [](W& w) {
         set(w, "v_proj.weight", 0, 1.0f);
         set(w, "o_proj.weight", 0, 1e30f);
       }},
      {"gate projection", kFirst, none, [](W& w) { set(w, "gate_proj.weight", 0, 3e38f); }},
      {"up projection", kFirst, none, [](W& w) { set(w, "up_proj.weight", 0, 3e38f); }},
      {"up projection", kFirst, [](TransformerOptions& o) { o.mlp = MlpKind::kGelu; },
       [](W& w) { set(w, "up_proj.weight", 0, 3e38f); }},
      {"activation", kFirst, none,
       [](W& w) {
         set(w, "gate_proj.weight", 0, 1e30f);
         set(w, "up_proj.weight", 0, 1e30f);
       }},
      {"down projection", kFirst, none,
       [](W& w) {
         set(w, "gate_proj.weight", 0, 1e15f);
         set(w, "up_proj.weight", 0, 1e20f);
         set(w, "down_proj.weight", 0, 1e10f);
       }},
      {"mlp residual", kFirst,
       [](TransformerOptions& o) {
         o.norm = NormKind::kLayerNorm;
         o.mlp_bias = true;
       },
       [](W& w) { set(w, "down_proj.bias", 0, 1e37f); }, 3.4e38f, 1},
  };
}

class Planted {
 public:
  explicit Planted(const Plant& plant) : plant_(plant) {
    options_.n_heads = 2;
    options_.n_kv_heads = 1;
    options_.head_dim = 4;
    plant.options(options_);
    weights_ = synthetic::block(options_, plant.d_model, 6, 1);
    for (const auto& [name, tensor] : weights_.map) {
      const bool norm = name.ends_with("norm.weight");
      for (float& v : weights_.at(name)) v = norm ? 1.0f : 0.0f;
    }
    plant.weights(weights_);
  }
  TransformerBlock block() const { return {weights_.map, options_}; }
  /// Noise everywhere but in the first element, which is zero for all but the signals' tokens; nothing else
  /// is in theirs.
  std::vector<float> input(bool with_signals) const {
    const int64_t d = plant_.d_model;
    std::vector<float> x = synthetic::values(3, kLength * d);
    for (int64_t t = 0; t < kLength; ++t) {
      const bool signal = with_signals && (t == kFirst || t == kSecond);
      if (signal) std::fill_n(x.begin() + t * d, d, 0.0f);
      x[static_cast<size_t>(t * d)] = signal ? plant_.signal : 0.0f;
    }
    return x;
  }

 private:
  const Plant& plant_;
  TransformerOptions options_;
  synthetic::Weights weights_;
};

template <typename Call>
void expect_fault(const Plant& plant, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no exception";
  } catch (const NonFiniteError& e) {
    EXPECT_EQ(e.position, plant.position);
    EXPECT_EQ(e.layer, 0);
    EXPECT_EQ(e.stage, plant.stage);
    EXPECT_NE(std::string(e.what()).find("[TransformerBlock] non-finite value at position"),
              std::string::npos);
  }
}

// Calls of the given lengths until one throws; then the state is as before that call and continues as if
// never disturbed.
void check_split(const Plant& plant, const Planted& planted, const TransformerBlock& block,
                 const std::vector<int64_t>& parts) {
  const std::vector<float> bad = planted.input(true), good = planted.input(false);
  TransformerState state = block.allocate_state(1, kLength), twin = block.allocate_state(1, kLength);
  int64_t at = 0;
  for (const int64_t n : parts) {
    if (at + n > plant.position) {
      expect_fault(plant, [&] { run(block, tokens(bad, 1, kLength, at, at + n), 1, n, &state); });
      ASSERT_EQ(state.cached_tokens(), at);
      ASSERT_TRUE(same_bits(state.keys(), twin.keys()));
      ASSERT_TRUE(same_bits(state.values(), twin.values()));
      if (plant.position == kFirst) {  // no signal has passed yet
        const std::vector<float> rest = tokens(good, 1, kLength, at, kLength);
        ASSERT_TRUE(
            same_bits(run(block, rest, 1, kLength - at, &state), run(block, rest, 1, kLength - at, &twin)));
      }
      return;
    }
    const std::vector<float> part = tokens(bad, 1, kLength, at, at + n);
    ASSERT_TRUE(same_bits(run(block, part, 1, n, &state), run(block, part, 1, n, &twin)));
    at += n;
  }
}

TEST(NonFinite, EveryStageIsNamedWhateverTheSplit) {
  for (const Plant& plant : plants()) {
    SCOPED_TRACE(plant.stage);
    const Planted planted(plant);
    const TransformerBlock block = planted.block();
    Random random(11);
    for (int i = 0; i < 4; ++i) check_split(plant, planted, block, random.parts(kLength, 7));
    check_split(plant, planted, block, std::vector<int64_t>(kLength, 1));
    on_every_isa([&] {
      check_split(plant, planted, block, {kLength});
      check_split(plant, planted, block, {3, 8, 3});
    });
  }
}

TEST(NonFinite, InABatchAndRagged) {
  for (const Plant& plant : plants()) {
    SCOPED_TRACE(plant.stage);
    const Planted planted(plant);
    const TransformerBlock block = planted.block();
    std::vector<float> x = planted.input(false);
    for (const bool signals : {true, false, true}) {
      const std::vector<float> row = planted.input(signals);
      x.insert(x.end(), row.begin(), row.end());
    }
    expect_fault(plant, [&] { run(block, x, 4, kLength); });
    expect_fault(plant, [&] { run(block, x, 4, kLength, nullptr, std::vector<int64_t>{3, 11, 14, 12}); });
    // Padding is never tested.
    const std::vector<int64_t> short_rows = {14, 5, 14, 5};
    EXPECT_NO_THROW(run(block, x, 4, kLength, nullptr, short_rows));
  }
}

TEST(NonFinite, TheMessageNamesTheFirstRow) {
  const std::vector<Plant> all = plants();
  const Planted planted(all[2]);
  const TransformerBlock block = planted.block();
  std::vector<float> x = planted.input(false);
  for (int i = 0; i < 2; ++i) {
    const std::vector<float> row = planted.input(true);
    x.insert(x.end(), row.begin(), row.end());
  }
  expect_error<NonFiniteError>(
      [&] { run(block, x, 3, kLength); },
      {"position 5, layer 0, stage 'query projection'", "batch row 1", "state is as before"});
}

TEST(NonFinite, RefusedBeforeAnyWork) {
  const BlockCase c = option_cases().front();
  const TransformerBlock block = c.block();
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x = c.input(2, 6);
    x[(6 + 4) * 24 + 3] = odd;
    TransformerState state = block.allocate_state(2, 6);
    expect_error<ValueError>([&] { run(block, x, 2, 6, &state); },
                             {"[TransformerBlock] x", "finite", "row 1, token 4"});
    EXPECT_EQ(state.cached_tokens(), 0);
    const std::vector<int64_t> lengths = {6, 4};
    const std::vector<float> padded = run(block, x, 2, 6, nullptr, lengths);
    EXPECT_TRUE(same_bits(padded, run(block, c.input(2, 6), 2, 6, nullptr, lengths)))
        << "padding may be anything";
    for (const auto& [name, tensor] : c.weights().map) {
      synthetic::Weights w = c.weights();
      w.at(name).back() = odd;
      expect_error<ValueError>([&] { TransformerBlock(w.map, c.options); },
                               {"[TransformerBlock] " + name, "finite"});
    }
  }
}

}  // namespace
}  // namespace isobit::testing

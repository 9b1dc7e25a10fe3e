// SPDX-License-Identifier: Apache-2.0
// CausalLM's calls: what they refuse, what a failed call leaves, and greedy generation.
#include "isobit/causal_lm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "support/bits.h"
#include "support/random.h"
#include "support/tiny_model.h"

namespace isobit::testing {
namespace {

TEST(CausalLM, RefusesIdsAndSizes) {
  const CausalLM model = TinyModel("llama").load();
  std::vector<int64_t> ids = tiny_ids(2, 5);
  for (const int64_t bad : {int64_t{-1}, kTinyVocab, std::numeric_limits<int64_t>::max()}) {
    std::vector<int64_t> wrong = ids;
    wrong[8] = bad;
    expect_error<ValueError>([&] { logits(model, wrong, 2, 5); },
                             {"[CausalLM] ids", "0..31", std::to_string(bad), "row 1, column 3"});
    expect_error<ValueError>([&] { model.generate(wrong, 2, 5, 3); },
                             {"[CausalLM.generate] ids", "0..31", std::to_string(bad)});
  }
  expect_error<ValueError>([&] { logits(model, ids, 2, 6); }, {"[CausalLM] ids", "12", "10"});
  expect_error<ValueError>([&] { logits(model, {}, 0, 5); }, {"[CausalLM] input", "batch 0, length 5"});
  expect_error<ValueError>([&] { logits(model, {}, 2, 0); }, {"[CausalLM] input", "length 0"});
  expect_error<ValueError>([&] { model.generate(ids, 2, 6, 1); }, {"[CausalLM.generate] ids", "12", "10"});
  const auto ragged = [&](std::vector<int64_t> lengths, CausalLMState* state = nullptr) {
    logits(model, ids, 2, 5, state, false, lengths);
  };
  expect_error<ValueError>([&] { ragged({5}); }, {"[CausalLM] lengths", "2", "1"});
  expect_error<ValueError>([&] { ragged({5, 0}); }, {"lengths", "1..5", "0"});
  expect_error<ValueError>([&] { ragged({6, 5}); }, {"lengths", "1..5", "6"});
  CausalLMState state = model.allocate_state(2, 5);
  ragged({5, 2}, &state);
  EXPECT_EQ(state.position(), 5);
  EXPECT_EQ(state.position(1), 2);
  expect_error<ValueError>([&] { ragged({1, 3}, &state); }, {"state", "room for 1", "5 of max_tokens = 5"});
  expect_error<ValueError>([&] { state.position(2); }, {"[CausalLMState] row", "0..1", "2"});
}

TEST(CausalLM, RefusesStates) {
  const CausalLM model = TinyModel("llama").load(), other = TinyModel("llama").load();
  const std::vector<int64_t> ids = tiny_ids(2, 5);
  CausalLMState state = other.allocate_state(2, 8);
  expect_error<ValueError>([&] { logits(model, ids, 2, 5, &state); }, {"[CausalLM] state", "another model"});
  expect_error<ValueError>([&] { model.reset_state(state); }, {"another model"});
  CausalLMState narrow = model.allocate_state(1, 8);
  expect_error<ValueError>([&] { logits(model, ids, 2, 5, &narrow); }, {"state.batch_size", "2", "1"});
  CausalLMState small = model.allocate_state(2, 8);
  logits(model, ids, 2, 5, &small);
  expect_error<ValueError>([&] { logits(model, ids, 2, 5, &small); },
                           {"state", "room for 5", "5 of max_tokens = 8"});
  EXPECT_EQ(small.position(), 5);
  small.layer(1).set_cached_tokens(4);
  expect_error<ValueError>([&] { logits(model, tiny_ids(2, 1), 2, 1, &small); }, {"state", "layer 1 at 4"});
  expect_error<ValueError>([&] { small.layer(3); }, {"[CausalLMState] layer", "0..2", "3"});
  expect_error<ValueError>([&] { model.allocate_state(0, 5); }, {"batch_size", "0"});
  expect_error<ValueError>([&] { model.allocate_state(1, 2001); }, {"max_tokens", "1..2000", "2001"});
  EXPECT_EQ(small.batch_size(), 2);
  EXPECT_EQ(small.max_tokens(), 8);
  EXPECT_EQ(small.n_layers(), 3);
}

// Even where the new model lies where the old one was.
TEST(CausalLM, RefusesTheStateOfAModelThatIsGone) {
  const TinyModel tiny("llama");
  for (int i = 0; i < 5; ++i) {
    std::optional<CausalLM> model(tiny.load());
    CausalLMState state = model->allocate_state(1, 4);
    model.reset();
    model.emplace(tiny.load());
    expect_error<ValueError>([&] { logits(*model, tiny_ids(1, 4), 1, 4, &state); },
                             {"[CausalLM] state", "another model"});
  }
}

// A moved model keeps its states.
TEST(CausalLM, Moves) {
  CausalLM model = TinyModel("llama").load();
  const std::vector<int64_t> ids = tiny_ids(1, 5);
  const std::vector<float> expected = logits(model, ids, 1, 5);
  CausalLMState state = model.allocate_state(1, 5);
  const CausalLM moved = std::move(model);
  EXPECT_TRUE(same_bits(logits(moved, ids, 1, 5, &state), expected));
}

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("stop") {}
};

// Interrupted between any two layers, of any pass, no layer's state has moved.
TEST(CausalLM, InterruptedCallsLeaveNoTrace) {
  for (const std::string family : {"llama", "mistral"}) {  // mistral: rings of 768 slots
    const CausalLM model = TinyModel(family).load();
    constexpr int64_t kBefore = 900, kMore = 800, kLong = kBefore + kMore;
    const std::vector<int64_t> ids = tiny_ids(1, kLong), wrong = tiny_ids(1, kMore, 2);
    const std::vector<int64_t> first(ids.begin(), ids.begin() + kBefore),
        rest(ids.begin() + kBefore, ids.end());
    const std::vector<float> expected = logits(model, ids, 1, kLong, nullptr, true);
    CausalLMState state = model.allocate_state(1, kLong);
    logits(model, first, 1, kBefore, &state, true);
    for (const int at : {1, 3, 5, 6}) {
      set_interrupt_check([at, count = 0]() mutable {
        if (++count == at) throw Interrupted();
      });
      EXPECT_THROW(logits(model, wrong, 1, kMore, &state, true), Interrupted);
      set_interrupt_check({});
      ASSERT_EQ(state.position(), kBefore);
      for (int64_t i = 0; i < 3; ++i) ASSERT_EQ(state.layer(i).cached_tokens(), kBefore);
    }
    EXPECT_TRUE(same_bits(logits(model, rest, 1, kMore, &state, true), expected)) << family;
  }
}

// id 1 carries a signal in the first element that overflows where a case plants it.
TEST(CausalLM, NonFiniteNamesTheSmallestPositionAndLayer) {
  struct Case {
    std::string name;
    std::vector<std::pair<std::string, float>> plants;  // first element of a tensor
    int64_t position, layer;
    std::string stage;
  };
  const std::string layers = "model.layers.";
  const std::vector<Case> cases = {
      {"second layer", {{layers + "1.self_attn.q_proj.weight", 3e38f}}, 4, 1, "query projection"},
      {"lower layer first",
       {{layers + "2.self_attn.q_proj.weight", 3e38f}, {layers + "1.mlp.up_proj.weight", 3e38f}},
       4,
       1,
       "up projection"},
      {"earlier stage first",
       {{layers + "1.self_attn.k_proj.weight", 3e38f}, {layers + "1.self_attn.q_proj.weight", 3e38f}},
       4,
       1,
       "query projection"},
      // Layer 0 fails at the second signal only, once its values add up; layer 1 at the first.
      {"earlier position first",
       {{layers + "0.self_attn.v_proj.weight", 0.6e38f}, {layers + "1.mlp.gate_proj.weight", 3e38f}},
       4,
       1,
       "gate projection"},
      {"final norm",
       {{layers + "2.mlp.gate_proj.weight", 1e15f},
        {layers + "2.mlp.up_proj.weight", 1e10f},
        {layers + "2.mlp.down_proj.weight", 1e5f}},
       4,
       3,
       "final norm"},
      {"logits", {{"lm_head.weight", 3e38f}}, 4, 3, "logits"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    TinyModel tiny("llama");
    for (const auto& [name, tensor] : tiny.weights.map) {
      const bool norm = name.ends_with("norm.weight");
      if (name == "model.embed_tokens.weight") continue;
      for (float& v : tiny.weights.at(name)) v = norm ? 1.0f : 0.0f;
    }
    std::vector<float>& embedding = tiny.weights.at("model.embed_tokens.weight");
    for (int64_t id = 0; id < kTinyVocab; ++id) embedding[static_cast<size_t>(id * 16)] = 0.0f;
    std::fill_n(embedding.begin() + 16, 16, 0.0f);
    embedding[16] = 8.0f;
    for (const auto& [name, value] : c.plants) tiny.weights.at(name)[0] = value;
    const CausalLM model = tiny.load();
    const std::vector<int64_t> ids = {0, 5, 9, 2, 1, 7, 1, 1, 30, 1};

    const auto check = [&](const std::vector<int64_t>& parts) {
      CausalLMState state = model.allocate_state(1, 10);
      int64_t at = 0;
      for (const int64_t n : parts) {
        const std::vector<int64_t> some(ids.begin() + at, ids.begin() + at + n);
        try {
          logits(model, some, 1, n, &state);
          at += n;
          ASSERT_LE(at, c.position);
        } catch (const NonFiniteError& e) {
          EXPECT_EQ(std::tie(e.position, e.layer, e.stage), std::tie(c.position, c.layer, c.stage));
          EXPECT_EQ(state.position(), at);
          return;
        }
      }
    };
    Random random(4);
    for (int i = 0; i < 4; ++i) check(random.parts(10, 6));
    check(std::vector<int64_t>(10, 1));
    on_every_isa([&] { check({10}); });
  }
}

TEST(Generate, IsTheArgmaxOfStepsAndNothingElse) {
  for (const std::string& family : tiny_families()) {
    const CausalLM model = TinyModel(family).load();
    const std::vector<int64_t> ids = tiny_ids(3, 4);
    std::vector<std::vector<float>> seen;
    std::vector<std::vector<int32_t>> columns;
    const std::vector<int32_t> out =
        model.generate(ids, 3, 4, 20, [&](int64_t step, auto column, auto logits_of_it) {
          EXPECT_EQ(step, static_cast<int64_t>(columns.size()));
          columns.emplace_back(column.begin(), column.end());
          seen.emplace_back(logits_of_it.begin(), logits_of_it.end());
          return true;
        });
    ASSERT_EQ(out.size(), 3u * 24u);
    for (int64_t row = 0; row < 3; ++row) {
      // Every choice again from a forward over everything before it.
      std::vector<int64_t> text(ids.begin() + row * 4, ids.begin() + row * 4 + 4);
      for (int64_t i = 0; i < 20; ++i) {
        const std::vector<float> last =
            logits(model, text, 1, static_cast<int64_t>(text.size()), nullptr, true);
        const auto& all = seen[static_cast<size_t>(i)];
        ASSERT_TRUE(same_bits({all.data() + row * kTinyVocab, static_cast<size_t>(kTinyVocab)}, last));
        const int32_t chosen =
            static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
        ASSERT_EQ(columns[static_cast<size_t>(i)][static_cast<size_t>(row)], chosen);
        text.push_back(chosen);
      }
      for (int64_t i = 0; i < 24; ++i)
        ASSERT_EQ(out[static_cast<size_t>(row * 24 + i)], text[static_cast<size_t>(i)]);
    }
    on_every_isa([&] { EXPECT_EQ(model.generate(ids, 3, 4, 20), out); });
  }
}

TEST(Generate, FromSeveralThreadsAtOnce) {
  const RestoreRuntime restore;
  set_num_threads(3);
  const CausalLM model = TinyModel("mistral").load();
  const std::vector<int64_t> ids = tiny_ids(2, 6);
  const std::vector<int32_t> expected = model.generate(ids, 2, 6, 40);
  std::atomic<int> right{0};
  std::vector<std::thread> hosts;
  for (int i = 0; i < 4; ++i) hosts.emplace_back([&] { right += model.generate(ids, 2, 6, 40) == expected; });
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(right, 4);
}

TEST(Generate, EdgesOfItsArguments) {
  const CausalLM model = TinyModel("llama").load();
  const std::vector<int64_t> ids = tiny_ids(2, 3);
  EXPECT_EQ(model.generate(ids, 2, 3, 0), std::vector<int32_t>(ids.begin(), ids.end()));
  EXPECT_EQ(model.generate(ids, 2, 3, 1).size(), 8u);
  int calls = 0;
  const std::vector<int32_t> stopped = model.generate(ids, 2, 3, 10, [&](int64_t step, auto, auto) {
    ++calls;
    return step < 2;
  });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(stopped.size(), 2u * 6u);
  EXPECT_EQ(stopped, model.generate(ids, 2, 3, 3));
  expect_error<ValueError>([&] { model.generate(ids, 2, 3, -1); },
                           {"[CausalLM.generate] max_new_tokens", "-1"});
  expect_error<ValueError>([&] { model.generate(ids, 2, 3, 1998); },
                           {"length + max_new_tokens", "2000", "3 + 1998"});
  expect_error<ValueError>([&] { model.generate({}, 2, 0, 3); }, {"[CausalLM.generate] ids", "length 0"});
  EXPECT_THROW(model.generate(ids, 2, 3, 5, [](int64_t, auto, auto) -> bool { throw Interrupted(); }),
               Interrupted);
  const CausalLM limited(TinyModel("llama").plan(), TinyModel("llama").weights.map, {.max_positions = 8});
  EXPECT_EQ(limited.generate(ids, 2, 3, 5), model.generate(ids, 2, 3, 5)) << "to the last position";
}

// A head of equal rows: every logit ties, and +0 equals -0.
TEST(Generate, TiesGoToTheLowestId) {
  TinyModel tiny("llama");
  std::vector<float>& head = tiny.weights.at("lm_head.weight");
  for (size_t i = 16; i < head.size(); ++i) head[i] = head[i - 16];
  EXPECT_EQ(tiny.load().generate(tiny_ids(1, 3), 1, 3, 2)[3], 0);
  std::fill(head.begin(), head.end(), 0.0f);
  std::fill(head.begin(), head.begin() + 5 * 16, -0.0f);
  EXPECT_EQ(tiny.load().generate(tiny_ids(1, 3), 1, 3, 2)[4], 0);
}

}  // namespace
}  // namespace isobit::testing

// SPDX-License-Identifier: Apache-2.0
// Loading: from directories and memory, what is refused before any weight is packed, tied heads, narrow
// dtypes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "isobit/safetensors.h"
#include "support/bits.h"
#include "support/tiny_model.h"

namespace isobit::testing {
namespace {

std::vector<float> some_logits(const CausalLM& model) { return logits(model, tiny_ids(1, 9), 1, 9); }

void rename(TinyModel& tiny, const std::string& from, const std::string& to) {
  tiny.weights.map[to] = tiny.weights.map.at(from);
  tiny.weights.map.erase(from);
}

TEST(Load, DirectoryEqualsMemory) {
  for (const std::string& family : tiny_families()) {
    const TempDir dir;
    const TinyModel tiny(family);
    tiny.write(dir.path());
    std::vector<int64_t> done;
    int64_t total = 0;
    const CausalLM model = CausalLM::load(dir.path(), {.progress = [&](int64_t n, int64_t all) {
                                            done.push_back(n);
                                            total = all;
                                          }});
    EXPECT_TRUE(same_bits(some_logits(model), some_logits(tiny.load()))) << family;
    EXPECT_EQ(total, static_cast<int64_t>(tiny.weights.map.size()));
    EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
    EXPECT_EQ(model.max_positions(), tiny.plan().max_position_embeddings);
    EXPECT_TRUE(model.unused_names().empty());
  }
}

// A fused tensor is read in three slices but is one tensor.
TEST(Load, ProgressEndsAtTheTotal) {
  for (const std::string& family : tiny_families()) {
    int64_t last = 0, total = -1;
    const TinyModel tiny(family);
    const LoadOptions options{.progress = [&](int64_t n, int64_t all) {
      last = n;
      total = all;
    }};
    const CausalLM model(tiny.plan(), tiny.weights.map, options);
    EXPECT_EQ(last, total) << family;
  }
}

TEST(Load, ParametersAreWhatWasGiven) {
  for (const std::string& family : tiny_families()) {
    TinyModel tiny(family);
    const CausalLM model = tiny.load();
    std::vector<std::string> given;
    for (const auto& [name, tensor] : tiny.weights.map) given.push_back(name);
    std::vector<std::string> names = model.parameter_names();
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, given) << family;
    for (const std::string& name : given) {
      EXPECT_EQ(model.parameter_shape(name), tiny.weights.map.at(name).shape) << name;
      EXPECT_TRUE(same_bits(model.parameter(name), tiny.weights.at(name))) << name;
    }
    expect_error<ValueError>([&] { model.parameter("model.nothing"); },
                             {"[CausalLM] parameter", "'model.nothing'"});
    expect_error<ValueError>([&] { model.parameter_shape("x"); }, {"parameter", "'x'"});
  }
}

TEST(Load, PathErrors) {
  const TempDir dir;
  expect_error<FileNotFound>([&] { CausalLM::load(dir / "nowhere"); },
                             {"[CausalLM.load] path", "nowhere", "does not exist"});
  write_file(dir / "file", "x");
  expect_error<FileNotFound>([&] { CausalLM::load(dir / "file"); },
                             {"[CausalLM.load] path", "file", "no directory"});
  EXPECT_THROW(CausalLM::load(dir.path()), FileNotFound);  // no config.json
  const TinyModel tiny("llama");
  tiny.write(dir.path());
  std::filesystem::remove(dir / "model.safetensors");
  EXPECT_THROW(CausalLM::load(dir.path()), FileNotFound);
}

TEST(Load, MissingTensorsAreCountedAndFiveAreNamed) {
  TinyModel tiny("llama");
  tiny.weights.map.erase("model.norm.weight");
  expect_error<UnsupportedModel>([&] { tiny.load(); },
                                 {"[CausalLM] checkpoint", "1 missing: model.norm.weight"});
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
    for (int layer = 0; layer < 2; ++layer)
      tiny.weights.map.erase("model.layers." + std::to_string(layer) + ".self_attn." + name + ".weight");
  try {
    tiny.load();
    FAIL() << "no exception";
  } catch (const UnsupportedModel& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find("9 missing: "), std::string::npos) << message;
    EXPECT_EQ(std::count(message.begin(), message.end(), ','), 6)
        << message;  // four between names, one before the dots
    EXPECT_NE(message.find(", ..."), std::string::npos) << message;
  }
}

TEST(Load, TensorsThatNothingReads) {
  TinyModel tiny("llama");
  const TensorView some = tiny.weights.map.at("model.norm.weight");
  tiny.weights.map["model.layers.1.self_attn.rotary_emb.inv_freq"] = some;
  const CausalLM model = tiny.load();
  EXPECT_EQ(model.unused_names(), std::vector<std::string>{"model.layers.1.self_attn.rotary_emb.inv_freq"});
  tiny.weights.map["model.layers.1.self_attn.q_proj.bias"] = some;
  expect_error<UnsupportedModel>([&] { tiny.load(); },
                                 {"no tensor that nothing reads", "'model.layers.1.self_attn.q_proj.bias'"});
}

TEST(Load, NamesWithoutThePrefix) {
  TinyModel tiny("qwen2");
  const std::vector<float> expected = some_logits(tiny.load());
  const WeightMap all = tiny.weights.map;
  for (const auto& [name, tensor] : all)
    if (name.starts_with("model.")) rename(tiny, name, name.substr(6));
  const CausalLM model = tiny.load();
  EXPECT_TRUE(same_bits(some_logits(model), expected));
}

TEST(Load, WrongShapes) {
  const auto expect_refused = [](const std::string& name, std::vector<int64_t> shape,
                                 std::initializer_list<std::string_view> parts) {
    TinyModel tiny("llama");
    tiny.weights.map.at(name).shape = std::move(shape);
    expect_error<ValueError>([&] { tiny.load(); }, parts);
  };
  expect_refused("model.embed_tokens.weight", {31, 16}, {"[CausalLM] model.embed_tokens.weight", "(32, 16)"});
  expect_refused("lm_head.weight", {512}, {"[CausalLM] lm_head.weight", "(32, 16)"});
  expect_refused("model.norm.weight", {15}, {"[CausalLM] model.norm.weight", "(16,)"});
  expect_refused("model.layers.2.mlp.down_proj.weight", {24, 16},
                 {"[CausalLM layer 2] down_proj.weight", "(16, 24)", "(24, 16)"});
  expect_refused("model.layers.0.self_attn.k_proj.weight", {8, 15},
                 {"[CausalLM layer 0] k_proj.weight", "(8, 16)"});
  expect_refused("model.layers.1.input_layernorm.weight", {8}, {"[CausalLM layer 1]"});
  TinyModel phi("phi3");
  for (const int64_t rows : {33, 31}) {  // a row that no slice would read, and a slice that is not there
    std::vector<float> values(static_cast<size_t>(rows * 16));
    phi.weights.map["model.layers.1.self_attn.qkv_proj.weight"] = {
        DType::F32, {rows, 16}, reinterpret_cast<const std::byte*>(values.data())};
    expect_error<ValueError>([&] { phi.load(); },
                             {"model.layers.1.self_attn.qkv_proj.weight", "32 rows", std::to_string(rows)});
  }
}

TEST(Load, NonFiniteAndWrongDtype) {
  for (const std::string name :
       {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
        "model.layers.1.self_attn.v_proj.weight", "model.layers.2.post_attention_layernorm.weight"}) {
    TinyModel tiny("llama");
    tiny.weights.at(name)[3] = std::numeric_limits<float>::infinity();
    expect_error<ValueError>([&] { tiny.load(); }, {"[CausalLM", "finite values"});
    tiny.weights.at(name)[3] = 0.0f;
    tiny.weights.map.at(name).dtype = DType::I32;
    EXPECT_THROW(tiny.load(), TypeError) << name;
  }
}

TEST(Load, TiedHeads) {
  const std::string embed = "model.embed_tokens.weight", head = "lm_head.weight";
  const auto make = [] {
    TinyModel tiny("llama");
    tiny.config["tie_word_embeddings"] = true;
    tiny.remake_weights();
    return tiny;
  };
  const CausalLM only_embed = make().load();
  EXPECT_TRUE(only_embed.tied());
  const std::vector<float> expected = some_logits(only_embed);

  TinyModel only_head = make();
  rename(only_head, embed, head);
  EXPECT_TRUE(only_head.load().tied());
  EXPECT_TRUE(same_bits(some_logits(only_head.load()), expected));

  TinyModel both = make();
  both.weights.map[head] = both.weights.map.at(embed);
  EXPECT_TRUE(both.load().tied());
  EXPECT_TRUE(same_bits(some_logits(both.load()), expected));

  // Stored and different: transformers uses what is stored.
  std::vector<float> other = both.weights.at(embed);
  for (float& v : other) v = v * 0.5f;
  both.weights.map[head].data = reinterpret_cast<const std::byte*>(other.data());
  const CausalLM untied = both.load();
  EXPECT_FALSE(untied.tied());
  const std::vector<float> halved = some_logits(untied);
  for (size_t i = 0; i < halved.size(); ++i) ASSERT_EQ(halved[i], expected[i] * 0.5f);

  TinyModel neither = make();
  neither.weights.map.erase(embed);
  expect_error<UnsupportedModel>([&] { neither.load(); }, {"1 missing: model.embed_tokens.weight"});
  TinyModel not_tied("llama");
  not_tied.weights.map.erase(head);
  expect_error<UnsupportedModel>([&] { not_tied.load(); }, {"1 missing: lm_head.weight"});
}

// A model on narrow weights is the model on the widened ones.
TEST(Load, NarrowWeightsEqualTheWidenedOnes) {
  for (const std::string& family : tiny_families())
    for (const DType dtype : {DType::BF16, DType::F16}) {
      TinyModel wide(family), narrow(family);
      std::vector<std::vector<uint16_t>> bits;
      for (auto& [name, tensor] : narrow.weights.map) {
        std::vector<float>& values = wide.weights.at(name);
        std::vector<uint16_t>& stored = bits.emplace_back();
        for (size_t i = 0; i < values.size(); ++i) {
          // bfloat16: the upper half; binary16: signs, zeros, subnormals and numbers up to 1.
          const uint64_t noise = synthetic::hash(i, bits.size());
          stored.push_back(dtype == DType::BF16
                               ? static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i]) >> 16)
                               : static_cast<uint16_t>(noise & 0xbbff));
        }
        tensor = {dtype, tensor.shape, reinterpret_cast<const std::byte*>(stored.data())};
        widen_to_f32(tensor, values.data());
      }
      const TempDir dir;
      narrow.write(dir.path());
      const std::vector<float> expected = some_logits(wide.load());
      EXPECT_TRUE(same_bits(some_logits(narrow.load()), expected)) << family;
      EXPECT_TRUE(same_bits(some_logits(CausalLM::load(dir.path())), expected)) << family;
    }
}

TEST(Load, MaxPositions) {
  const TinyModel tiny("llama");
  const auto load = [&](int64_t n) { return CausalLM(tiny.plan(), tiny.weights.map, {.max_positions = n}); };
  const CausalLM model = load(10);
  EXPECT_EQ(model.max_positions(), 10);
  EXPECT_TRUE(same_bits(some_logits(model), some_logits(tiny.load())));
  expect_error<ValueError>([&] { model.allocate_state(1, 11); }, {"[CausalLM] max_tokens", "1..10", "11"});
  expect_error<ValueError>([&] { logits(model, tiny_ids(1, 11), 1, 11); },
                           {"[CausalLM] length", "max_positions = 10", "11"});
  for (const int64_t n : {0, -4, 2001})
    expect_error<ValueError>([&] { load(n); }, {"[CausalLM] max_positions", "1..2000", std::to_string(n)});
}

TEST(Load, AProgressCallThatThrowsStopsTheLoad) {
  const TinyModel tiny("llama");
  const LoadOptions options{.progress = [](int64_t n, int64_t) {
    if (n > 5) throw std::runtime_error("stop");
  }};
  EXPECT_THROW(CausalLM(tiny.plan(), tiny.weights.map, options), std::runtime_error);
}

}  // namespace
}  // namespace isobit::testing

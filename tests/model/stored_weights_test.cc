// SPDX-License-Identifier: Apache-2.0
// Models in bfloat16 and int8: the bits of the float32 model on the widened weights, a bfloat16 checkpoint in
// bfloat16 the bits of the float32 load, in every family.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "isobit/safetensors.h"
#include "support/bits.h"
#include "support/tiny_model.h"

namespace isobit::testing {
namespace {

constexpr int64_t kBatch = 2, kLength = 11;

std::vector<float> some_logits(const CausalLM& model) {
  return logits(model, tiny_ids(kBatch, kLength), kBatch, kLength);
}

CausalLM load(const TinyModel& tiny, WeightFormat weights, WeightFormat embedding) {
  return {tiny.plan(), tiny.weights.map, {.weight_format = weights, .embed_format = embedding}};
}

// The tensors as bfloat16 bits, cut off.
struct Narrow {
  explicit Narrow(const std::string& family) : tiny(family) {
    for (auto& [name, tensor] : tiny.weights.map) {
      std::vector<uint16_t>& stored = bits.emplace_back();
      for (const float v : tiny.weights.at(name))
        stored.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16));
      tensor = {DType::BF16, tensor.shape, reinterpret_cast<const std::byte*>(stored.data())};
    }
  }
  TinyModel tiny;
  std::vector<std::vector<uint16_t>> bits;
};

class StoredModel : public ::testing::TestWithParam<std::string> {};

TEST_P(StoredModel, ABf16CheckpointInBf16IsItsFloat32Load) {
  const Narrow narrow(GetParam());
  const TempDir dir;
  narrow.tiny.write(dir.path());
  const CausalLM wide = CausalLM::load(dir.path());
  const std::vector<float> expected = some_logits(wide);
  for (const WeightFormat embedding : {WeightFormat::kFloat32, WeightFormat::kBfloat16}) {
    const CausalLM stored =
        CausalLM::load(dir.path(), {.weight_format = WeightFormat::kBfloat16, .embed_format = embedding});
    EXPECT_EQ(stored.weight_format(), WeightFormat::kBfloat16);
    EXPECT_EQ(stored.embed_format(), embedding);
    on_every_isa([&] { ASSERT_TRUE(same_bits(some_logits(stored), expected)); });
    for (const std::string& name : wide.parameter_names())
      ASSERT_TRUE(same_bits(stored.parameter(name), wide.parameter(name))) << name;
  }
}

TEST_P(StoredModel, EqualsTheFloat32ModelOnTheWidenedWeights) {
  const TinyModel tiny(GetParam());
  for (const WeightFormat format : {WeightFormat::kBfloat16, WeightFormat::kInt8})
    for (const WeightFormat embedding : {WeightFormat::kFloat32, WeightFormat::kBfloat16}) {
      const CausalLM stored = load(tiny, format, embedding);
      TinyModel wide(GetParam());
      for (const std::string& name : stored.parameter_names()) {
        const std::vector<float> values = stored.parameter(name);
        std::copy(values.begin(), values.end(), wide.weights.at(name).begin());
      }
      const std::vector<float> expected = some_logits(wide.load());
      ASSERT_TRUE(same_bits(some_logits(stored), expected)) << to_string(format);
      ASSERT_FALSE(same_bits(some_logits(tiny.load()), expected));
      // Decode is prefill.
      CausalLMState state = stored.allocate_state(1, kLength);
      const std::vector<int64_t> ids = tiny_ids(kBatch, kLength);
      for (size_t i = 0; i < kLength; ++i)
        ASSERT_TRUE(same_bits(logits(stored, {ids[i]}, 1, 1, &state),
                              {expected.data() + i * kTinyVocab, size_t{kTinyVocab}}));
      // So is any split.
      for (int64_t cut = 1; cut < kLength; ++cut) {
        stored.reset_state(state);
        std::vector<float> pieces;
        for (const auto& [from, to] : {std::pair{int64_t{0}, cut}, std::pair{cut, kLength}}) {
          const std::vector<float> piece =
              logits(stored, {ids.begin() + from, ids.begin() + to}, 1, to - from, &state);
          pieces.insert(pieces.end(), piece.begin(), piece.end());
        }
        ASSERT_TRUE(same_bits(pieces, {expected.data(), pieces.size()}));
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Each, StoredModel, ::testing::ValuesIn(tiny_families()),
                         [](const auto& info) { return info.param; });

TEST(StoredModelOptions, EmbeddingsAreNotStoredAsInt8) {
  const TinyModel tiny("llama");
  expect_error<ValueError>([&] { load(tiny, WeightFormat::kInt8, WeightFormat::kInt8); },
                           {"[CausalLM] embed_format", "float32 or bfloat16", "int8"});
}

}  // namespace
}  // namespace isobit::testing

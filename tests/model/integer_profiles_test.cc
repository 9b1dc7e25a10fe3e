// SPDX-License-Identifier: Apache-2.0
// Models under the integer profiles: one sequence, one result, in every family, format and way to compute it;
// the head is an integer product as well; what has no such arithmetic is refused by name.
#include <gtest/gtest.h>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "support/bits.h"
#include "support/tiny_model.h"

namespace isobit::testing {
namespace {

constexpr int64_t kBatch = 2, kLength = 11;
constexpr NumericProfile kProfiles[] = {NumericProfile::kFixed15V1, NumericProfile::kInt8x32V1};

CausalLM load(const TinyModel& tiny, NumericProfile profile, WeightFormat weights = WeightFormat::kFloat32,
              WeightFormat embedding = WeightFormat::kFloat32) {
  return {tiny.plan(),
          tiny.weights.map,
          {.weight_format = weights, .embed_format = embedding, .numeric_profile = profile}};
}

/// The families with Mamba layers, or those without.
std::vector<std::string> families(bool mamba) {
  std::vector<std::string> names;
  for (const std::string& name : tiny_families()) {
    const ModelPlan plan = TinyModel(name).plan();
    bool found = false;
    for (int64_t i = 0; i < plan.n_layers; ++i) found = found || plan.is_mamba(i);
    if (found == mamba) names.push_back(name);
  }
  return names;
}

class ProfileOfFamily : public ::testing::TestWithParam<std::string> {};

TEST_P(ProfileOfFamily, AllWaysGiveTheSameBits) {
  const TinyModel tiny(GetParam());
  const std::vector<int64_t> ids = tiny_ids(kBatch, kLength);
  std::vector<std::vector<float>> results = {logits(tiny.load(), ids, kBatch, kLength)};
  for (const NumericProfile profile : kProfiles)
    for (const WeightFormat format : {WeightFormat::kFloat32, WeightFormat::kBfloat16, WeightFormat::kInt8}) {
      const CausalLM model = load(tiny, profile, format, WeightFormat::kBfloat16);
      EXPECT_EQ(model.numeric_profile(), profile);
      EXPECT_EQ(model.weight_format(), format);
      const std::vector<float> whole = logits(model, ids, kBatch, kLength);
      CausalLMState state = model.allocate_state(1, kLength);
      for (size_t i = 0; i < kLength; ++i)
        ASSERT_TRUE(same_bits(logits(model, {ids[i]}, 1, 1, &state),
                              {whole.data() + i * kTinyVocab, size_t{kTinyVocab}}));
      for (int64_t cut = 1; cut < kLength; ++cut) {
        model.reset_state(state);
        std::vector<float> pieces = logits(model, {ids.begin(), ids.begin() + cut}, 1, cut, &state);
        const std::vector<float> rest =
            logits(model, {ids.begin() + cut, ids.begin() + kLength}, 1, kLength - cut, &state);
        pieces.insert(pieces.end(), rest.begin(), rest.end());
        ASSERT_TRUE(same_bits(pieces, {whole.data(), pieces.size()})) << cut;
      }
      on_every_isa([&] {
        ASSERT_TRUE(same_bits(logits(model, ids, kBatch, kLength), whole));
        ASSERT_TRUE(same_bits(
            logits(load(tiny, profile, format, WeightFormat::kBfloat16), ids, kBatch, kLength), whole));
      });
      for (const std::vector<float>& other : results) ASSERT_FALSE(same_bits(whole, other));
      results.push_back(whole);
    }
}

TEST_P(ProfileOfFamily, TheModelOfItsParametersIsTheSame) {
  const TinyModel tiny(GetParam());
  for (const NumericProfile profile : kProfiles) {
    const CausalLM model = load(tiny, profile);
    TinyModel again(GetParam());
    for (const std::string& name : model.parameter_names()) {
      const std::vector<float> values = model.parameter(name);
      std::copy(values.begin(), values.end(), again.weights.at(name).begin());
    }
    const std::vector<int64_t> ids = tiny_ids(1, 5);
    EXPECT_TRUE(same_bits(logits(load(again, profile), ids, 1, 5), logits(model, ids, 1, 5)));
  }
}

INSTANTIATE_TEST_SUITE_P(Each, ProfileOfFamily, ::testing::ValuesIn(families(false)),
                         [](const auto& info) { return info.param; });

TEST(ProfileOfMamba, IsRefusedByName) {
  EXPECT_GE(families(false).size(), 5u);
  EXPECT_GE(families(true).size(), 4u);
  for (const std::string& name : families(true))
    for (const NumericProfile profile : kProfiles)
      expect_error<NotImplemented>([&] { load(TinyModel(name), profile); },
                                   {"[CausalLM] numeric_profile", "fp32_v1", name, to_string(profile)});
}

}  // namespace
}  // namespace isobit::testing

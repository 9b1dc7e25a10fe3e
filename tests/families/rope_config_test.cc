// SPDX-License-Identifier: Apache-2.0
// The rope block of a config in every spelling: where each value comes from, and what is refused.
#include "checkpoint/helpers.h"
#include "families/config_helpers.h"
#include "isobit/error.h"

namespace isobit {
namespace {

using testing::expect_error;
using testing::Fields;
using testing::small_plan;

TransformerOptions layer_of(const std::string& type, const Fields& fields) {
  const ModelPlan plan = small_plan(type, fields);
  for (const TransformerOptions& layer : plan.layers) {
    EXPECT_EQ(layer.rope_theta, plan.layers[0].rope_theta);
    EXPECT_EQ(layer.rope_scaling.has_value(), plan.layers[0].rope_scaling.has_value());
  }
  return plan.layers[0];
}

RopeScaling scaling_of(const std::string& type, const Fields& fields) {
  const auto scaling = layer_of(type, fields).rope_scaling;
  if (!scaling) throw ValueError("no scaling");
  return *scaling;
}

TEST(RopeConfig, WhereThetaComesFrom) {
  const auto theta = [](const Fields& fields) { return layer_of("llama", fields).rope_theta; };
  EXPECT_EQ(theta({}), 10000.0);
  EXPECT_EQ(theta({{"rope_theta", "500000.0"}}), 500000.0);
  EXPECT_EQ(theta({{"rope_parameters", R"({"rope_theta":1e6,"rope_type":"default"})"}}), 1e6);
  EXPECT_EQ(
      theta({{"rope_theta", "5e5"}, {"rope_parameters", R"({"rope_theta":1e6,"rope_type":"default"})"}}),
      1e6);
  EXPECT_EQ(theta({{"rope_theta", "5e5"}, {"rope_parameters", R"({"rope_type":"default"})"}}), 5e5);
  EXPECT_EQ(theta({{"rope_theta", "5e5"}, {"rope_scaling", R"({"type":"linear","factor":2})"}}), 5e5);
  EXPECT_EQ(theta({{"rope_scaling", R"({"rope_theta":7,"type":"linear","factor":2})"}}), 7);
}

TEST(RopeConfig, ScalingReplacesParameters) {
  const Fields both = {{"rope_scaling", R"({"rope_type":"linear","factor":2.0})"},
                       {"rope_parameters", R"({"rope_type":"default","rope_theta":1e6})"}};
  EXPECT_EQ(scaling_of("llama", both).type, RopeType::kLinear);
  EXPECT_EQ(layer_of("llama", both).rope_theta, 10000.0);
  for (const char* nothing : {"null", "{}"}) {
    const auto layer =
        layer_of("llama", {{"rope_scaling", nothing}, {"rope_parameters", R"({"rope_theta":1e6})"}});
    EXPECT_EQ(layer.rope_theta, 1e6);
    EXPECT_FALSE(layer.rope_scaling.has_value());
  }
}

/// CTranslate2 issue 1745: Llama 3.1 files say "rope_type" where older ones say "type".
TEST(RopeConfig, RopeTypeOrType) {
  const std::string rest =
      R"("factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192})";
  for (const std::string spelling :
       {R"({"rope_type":"llama3",)", R"({"type":"llama3",)", R"({"rope_type":"llama3","type":"llama3",)"}) {
    for (const char* block : {"rope_scaling", "rope_parameters"}) {
      const RopeScaling scaling = scaling_of("llama", {{block, spelling + rest}});
      EXPECT_EQ(scaling.type, RopeType::kLlama3);
      EXPECT_EQ(scaling.factor, 8.0);
      EXPECT_EQ(scaling.low_freq_factor, 1.0);
      EXPECT_EQ(scaling.high_freq_factor, 4.0);
      EXPECT_EQ(scaling.original_max_position_embeddings, 8192);
      EXPECT_FALSE(scaling.attention_factor.has_value());
    }
  }
}

TEST(RopeConfig, ContradictingTypesAreRefused) {
  for (const char* block : {"rope_scaling", "rope_parameters"}) {
    for (const char* types : {R"({"rope_type":"default","type":"linear","factor":2})",
                              R"({"rope_type":"linear","type":"default","factor":2})"})
      expect_error<UnsupportedModel>(
          [&] {
            layer_of("llama", {{block, types}});
          },
          {std::string(block) + ".type", "what rope_type says"});
  }
  const std::string factors = R"("short_factor":[1,1,1,1],"long_factor":[2,2,2,2]})";
  EXPECT_EQ(scaling_of("llama", {{"rope_scaling", R"({"rope_type":"longrope","type":"su",)" + factors}}).type,
            RopeType::kLongRope);
}

TEST(RopeConfig, OriginalMaxPositions) {
  const auto original = [](const Fields& fields) {
    return scaling_of("llama", fields).original_max_position_embeddings;
  };
  const std::string yarn = R"({"type":"yarn","factor":4.0)";
  EXPECT_EQ(original({{"rope_scaling", yarn + "}"}}), 512) << "max_position_embeddings";
  EXPECT_EQ(original({{"rope_scaling", yarn + R"(,"original_max_position_embeddings":128})"}}), 128);
  EXPECT_EQ(original({{"rope_scaling", yarn + R"(,"original_max_position_embeddings":128})"},
                      {"original_max_position_embeddings", "256"}}),
            256);
  expect_error<UnsupportedModel>(
      [&] {
        original({{"rope_scaling", yarn + R"(,"original_max_position_embeddings":0})"}});
      },
      {"rope_scaling.original_max_position_embeddings", "got 0"});
}

TEST(RopeConfig, Linear) {
  EXPECT_EQ(scaling_of("llama", {{"rope_scaling", R"({"type":"linear","factor":4})"}}).factor, 4.0);
  expect_error<UnsupportedModel>(
      [] {
        scaling_of("llama", {{"rope_scaling", R"({"type":"linear"})"}});
      },
      {"[plan_for] rope_scaling.factor", "positive", "got nothing"});
  expect_error<UnsupportedModel>(
      [] {
        scaling_of("llama", {{"rope_scaling", R"({"type":"linear","factor":0})"}});
      },
      {"rope_scaling.factor", "got 0"});
}

TEST(RopeConfig, DynamicIsBoundToTheMaxPositionsOfTheConfig) {
  const RopeScaling scaling = scaling_of(
      "llama", {{"rope_scaling", R"({"type":"dynamic","factor":2,"original_max_position_embeddings":64})"}});
  EXPECT_EQ(scaling.type, RopeType::kDynamic);
  EXPECT_EQ(scaling.factor, 2.0);
  EXPECT_EQ(scaling.original_max_position_embeddings, 512);
}

TEST(RopeConfig, Llama3FactorsInOrder) {
  expect_error<UnsupportedModel>(
      [] {
        scaling_of("llama", {{"rope_scaling",
                              R"({"type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4})"}});
      },
      {"rope_scaling.high_freq_factor", "more than low_freq_factor = 4", "got 4"});
  expect_error<UnsupportedModel>(
      [] {
        scaling_of("llama", {{"rope_scaling", R"({"type":"llama3","factor":8,"high_freq_factor":4})"}});
      },
      {"rope_scaling.low_freq_factor", "got nothing"});
}

TEST(RopeConfig, YarnDefaultsAreFilledIn) {
  const RopeScaling plain = scaling_of("qwen2", {{"rope_scaling", R"({"type":"yarn","factor":4.0})"}});
  EXPECT_EQ(plain.factor, 4.0);
  EXPECT_EQ(plain.beta_fast, 32.0);
  EXPECT_EQ(plain.beta_slow, 1.0);
  EXPECT_TRUE(plain.truncate);
  EXPECT_FALSE(plain.mscale || plain.mscale_all_dim || plain.attention_factor);
  const RopeScaling full = scaling_of(
      "qwen3",
      {{"rope_parameters",
        R"({"rope_type":"yarn","factor":null,"original_max_position_embeddings":128,"beta_fast":16,"beta_slow":0,)"
        R"("mscale":0.5,"mscale_all_dim":0,"attention_factor":1.25,"truncate":false})"}});
  EXPECT_EQ(full.factor, 4.0) << "512 / 128";
  EXPECT_EQ(full.beta_fast, 16.0);
  EXPECT_EQ(full.beta_slow, 1.0);
  EXPECT_EQ(full.mscale, 0.5);
  EXPECT_FALSE(full.mscale_all_dim.has_value());
  EXPECT_EQ(full.attention_factor, 1.25);
  EXPECT_FALSE(full.truncate);
}

const std::string kFactors = R"("short_factor":[1,1.5,2,2.5],"long_factor":[4,5,6.5,7])";

/// CTranslate2 issue 1685: "su" is the first name of longrope, and Phi-3 files also say "yarn".
TEST(RopeConfig, LongropeUnderEveryName) {
  for (const std::string name : {"longrope", "su", "yarn"}) {
    const RopeScaling scaling =
        scaling_of("phi3", {{"rope_scaling", R"({"type":")" + name + "\"," + kFactors + "}"},
                            {"original_max_position_embeddings", "128"}});
    EXPECT_EQ(scaling.type, RopeType::kLongRope);
    EXPECT_EQ(scaling.short_factor, (std::vector<double>{1, 1.5, 2, 2.5}));
    EXPECT_EQ(scaling.long_factor, (std::vector<double>{4, 5, 6.5, 7}));
    EXPECT_EQ(scaling.original_max_position_embeddings, 128);
    EXPECT_EQ(scaling.factor, 4.0) << "512 / 128";
  }
  EXPECT_EQ(scaling_of("llama", {{"rope_scaling", R"({"type":"su",)" + kFactors + "}"}}).type,
            RopeType::kLongRope);
}

/// unsloth issue 10681 turns on where the boundary lies: it is the original maximum of the config, 4096 for a
/// Phi-3 file without the field whatever the rope block says, and the factor is fixed by the config's own
/// maximum.
TEST(RopeConfig, LongropeBoundaryAndFactor) {
  const RopeScaling absent = scaling_of(
      "phi3",
      {{"rope_scaling", R"({"type":"longrope","original_max_position_embeddings":64,)" + kFactors + "}"},
       {"max_position_embeddings", "131072"}});
  EXPECT_EQ(absent.original_max_position_embeddings, 4096);
  EXPECT_EQ(absent.factor, 32.0);
  const RopeScaling given = scaling_of(
      "phi3",
      {{"rope_scaling", R"({"type":"longrope","factor":8,"attention_factor":1.5,)" + kFactors + "}"}});
  EXPECT_EQ(given.factor, 8.0);
  EXPECT_EQ(given.attention_factor, 1.5);
  const RopeScaling llama = scaling_of(
      "llama",
      {{"rope_scaling", R"({"type":"longrope","original_max_position_embeddings":64,)" + kFactors + "}"}});
  EXPECT_EQ(llama.original_max_position_embeddings, 64);
  EXPECT_EQ(llama.factor, 8.0);
}

TEST(RopeConfig, LongropeListsFitTheRotation) {
  const auto refuse = [](const std::string& lists, std::initializer_list<std::string_view> parts) {
    expect_error<UnsupportedModel>(
        [&] {
          scaling_of("phi3", {{"rope_scaling", R"({"type":"longrope",)" + lists + "}"}});
        },
        parts);
  };
  refuse(R"("short_factor":[1,1,1],"long_factor":[1,1,1,1])",
         {"rope_scaling.short_factor", "a list of 4 numbers"});
  refuse(R"("short_factor":[1,1,1,1])", {"rope_scaling.long_factor", "got nothing"});
  refuse(R"("short_factor":[1,1,1,0],"long_factor":[1,1,1,1])", {"short_factor", "positive numbers"});
  refuse(R"("short_factor":[1,1,1,Infinity],"long_factor":[1,1,1,1])", {"short_factor", "positive numbers"});
  refuse(R"("short_factor":[1,1,1,"1"],"long_factor":[1,1,1,1])", {"short_factor", "positive numbers"});
}

TEST(RopeConfig, Phi3KnowsOnlyLongrope) {
  for (const char* type : {"linear", "llama3", "dynamic", "proportional"})
    expect_error<UnsupportedModel>(
        [&] {
          layer_of("phi3", {{"rope_scaling", R"({"factor":2,"type":")" + std::string(type) + "\"}"}});
        },
        {"rope_scaling.type", "\"default\" or \"longrope\"", type});
}

TEST(RopeConfig, UnknownTypes) {
  for (const char* type : {"proportional", "ntk", "axial", ""})
    expect_error<UnsupportedModel>(
        [&] {
          layer_of("llama", {{"rope_parameters", R"({"rope_type":")" + std::string(type) + "\"}"}});
        },
        {"rope_parameters.rope_type", "linear, llama3, yarn, longrope, dynamic",
         "got \"" + std::string(type) + "\""});
  expect_error<UnsupportedModel>(
      [] {
        layer_of("llama", {{"rope_scaling", R"({"rope_type":null})"}});
      },
      {"rope_scaling.rope_type", "a string", "got null"});
  expect_error<UnsupportedModel>(
      [] {
        layer_of("llama", {{"rope_scaling", "2.0"}});
      },
      {"rope_scaling", "an object or null", "got 2.0"});
}

TEST(RopeConfig, OneRopePerLayerTypeIsRefused) {
  expect_error<UnsupportedModel>(
      [] {
        layer_of("qwen3", {{"rope_parameters", R"({"full_attention":{"rope_theta":1e6}})"}});
      },
      {"rope_parameters", "one rope for all layers", "full_attention"});
}

TEST(RopeConfig, Phi3RotatesAPartOfEachHead) {
  EXPECT_EQ(layer_of("phi3", {{"partial_rotary_factor", "0.75"}}).rope_dim, 6);
  EXPECT_EQ(layer_of("phi3", {{"rope_parameters", R"({"partial_rotary_factor":0.5})"}}).rope_dim, 4);
  EXPECT_EQ(layer_of("phi3", {{"head_dim", "128"}, {"partial_rotary_factor", "0.75"}}).rope_dim, 96);
  const auto mini = layer_of(
      "phi3", {{"partial_rotary_factor", "0.75"},
               {"rope_scaling", R"({"type":"longrope","short_factor":[1,1,1],"long_factor":[2,2,2]})"}});
  EXPECT_EQ(mini.rope_dim, 6);
  EXPECT_EQ(mini.rope_scaling->long_factor.size(), 3u);
}

TEST(RopeConfig, PartialRotaryFactorsThatMakeNoSense) {
  const auto refuse = [](const std::string& type, const Fields& fields,
                         std::initializer_list<std::string_view> parts) {
    expect_error<UnsupportedModel>([&] { layer_of(type, fields); }, parts);
  };
  refuse("phi3", {{"partial_rotary_factor", "1.5"}}, {"partial_rotary_factor", "at most 1"});
  refuse("phi3", {{"partial_rotary_factor", "0.4"}}, {"partial_rotary_factor", "even", "got 0.4"});
  refuse("phi3", {{"partial_rotary_factor", "0.1"}}, {"partial_rotary_factor", "even"});
  refuse("phi3", {{"partial_rotary_factor", "0.5"}, {"rope_parameters", R"({"partial_rotary_factor":0.75})"}},
         {"rope_parameters.partial_rotary_factor", "0.5", "got 0.75"});
  refuse("llama", {{"partial_rotary_factor", "0.5"}, {"rope_scaling", R"({"type":"linear","factor":2})"}},
         {"partial_rotary_factor", "1 for this family", "got 0.5"});
}

}  // namespace
}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Configs of Mamba models: sizes, options, names, and what is refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "isobit/model_plan.h"

namespace isobit::testing {
namespace {

ModelPlan plan_of(const std::string& fields) { return plan_for(HFConfig::from_text("{" + fields + "}")); }

constexpr const char* kMamba =
    R"("model_type":"mamba","hidden_size":32,"num_hidden_layers":2,"vocab_size":50)";
constexpr const char* kMamba2 =
    R"("model_type":"mamba2","hidden_size":32,"num_hidden_layers":2,"vocab_size":50,"num_heads":8,"head_dim":8,)"
    R"("n_groups":2,"state_size":16)";

bool names(const ModelPlan& plan, const std::string& name) {
  const auto all = plan.checkpoint_names();
  return std::find(all.begin(), all.end(), name) != all.end();
}

TEST(MambaPlans, Mamba1) {
  const ModelPlan plan = plan_of(kMamba);
  EXPECT_EQ(plan.kind, "mamba1");
  EXPECT_EQ(plan.mamba_layers.size(), 2u);
  EXPECT_TRUE(plan.layers.empty());
  EXPECT_TRUE(plan.tie_embeddings);
  EXPECT_EQ(plan.mamba_shape.channels, 64);
  EXPECT_EQ(plan.mamba_shape.states, 16);
  EXPECT_TRUE(names(plan, "backbone.layers.1.mixer.conv1d.bias"));
  EXPECT_FALSE(names(plan, "backbone.layers.1.mixer.in_proj.bias"));
  EXPECT_FALSE(std::get<Mamba1Options>(*plan.mamba_layers[0]).inner_norm);
  const ModelPlan biased = plan_of(std::string(kMamba) + R"(,"use_bias":true,"use_conv_bias":false)");
  EXPECT_FALSE(names(biased, "backbone.layers.1.mixer.conv1d.bias"));
  EXPECT_TRUE(names(biased, "backbone.layers.1.mixer.out_proj.bias"));
}

TEST(MambaPlans, FalconMambaNormalisesInside) {
  const ModelPlan plan = plan_of(
      R"("model_type":"falcon_mamba","hidden_size":32,"num_hidden_layers":1,"vocab_size":50,"mixer_rms_eps":1e-5)");
  const auto& o = std::get<Mamba1Options>(*plan.mamba_layers[0]);
  EXPECT_TRUE(o.inner_norm);
  EXPECT_EQ(o.inner_norm_eps, 1e-5);
}

TEST(MambaPlans, Mamba2) {
  const ModelPlan plan = plan_of(kMamba2);
  EXPECT_EQ(plan.kind, "mamba2");
  EXPECT_FALSE(plan.tie_embeddings);
  EXPECT_EQ(plan.mamba_shape.conv_channels, 64 + 2 * 2 * 16);
  const auto& o = std::get<Mamba2Options>(*plan.mamba_layers[0]);
  EXPECT_EQ(o.n_groups, 2);
  EXPECT_TRUE(o.grouped_norm);
  EXPECT_EQ(o.dt_max, std::numeric_limits<double>::infinity());
  for (const char* limit : {"[0.0, Infinity]", R"([0.0, {"__float__":"Infinity"}])", "null"})
    EXPECT_EQ(std::get<Mamba2Options>(
                  *plan_of(std::string(kMamba2) + R"(,"time_step_limit":)" + limit).mamba_layers[0])
                  .dt_max,
              std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::get<Mamba2Options>(
                *plan_of(std::string(kMamba2) + R"(,"time_step_limit":[0.01,0.1])").mamba_layers[0])
                .dt_min,
            0.01);
}

TEST(MambaPlans, OriginalFormatNamesNoType) {
  const ModelPlan one = plan_of(R"("d_model":32,"n_layer":2,"vocab_size":50,"ssm_cfg":{})");
  EXPECT_EQ(one.kind, "mamba1");
  EXPECT_EQ(one.vocab_size, 56);  // padded to 8
  const ModelPlan two = plan_of(
      R"("d_model":32,"n_layer":2,"vocab_size":64,"ssm_cfg":{"layer":"Mamba2","headdim":16,"rmsnorm":false},)"
      R"("tie_embeddings":false,"pad_vocab_size_multiple":16,"attn_layer_idx":[],"d_intermediate":0)");
  EXPECT_EQ(two.kind, "mamba2");
  EXPECT_EQ(two.mamba_shape.heads, 4);
  EXPECT_FALSE(names(two, "backbone.layers.0.mixer.norm.weight"));
  EXPECT_FALSE(two.tie_embeddings);
  const ModelPlan three = plan_of(
      R"("d_model":32,"n_layer":2,"vocab_size":64,"ssm_cfg":{"layer":"Mamba3","headdim":16,"is_mimo":true})");
  EXPECT_EQ(three.kind, "mamba3");
  EXPECT_EQ(three.mamba_shape.rank, 4);
  EXPECT_EQ(three.mamba_shape.angles, 32);
  EXPECT_TRUE(names(three, "backbone.layers.0.mixer.mimo_o"));
}

struct BadConfig {
  std::string fields;
  std::string part;
};

TEST(MambaPlans, RefusedByName) {
  const std::string one = kMamba, two = kMamba2;
  const std::string ssm = R"("d_model":32,"n_layer":2,"vocab_size":50,"ssm_cfg":)";
  for (const BadConfig& bad : std::vector<BadConfig>{
           {one + R"(,"hidden_act":"gelu")", "hidden_act"},
           {one + R"(,"expand":0)", "expand"},
           {one + R"(,"expand":1e300)", "expand"},
           {one + R"(,"state_size":-1)", "state_size"},
           {one + R"(,"quantization_config":{})", "quantization_config"},
           {R"("model_type":"mamba2","hidden_size":32,"num_heads":7,"head_dim":8)", "num_heads"},
           {R"("model_type":"mamba2","hidden_size":32,"num_heads":8,"head_dim":8,"n_groups":3)", "n_groups"},
           {two + R"(,"time_step_limit":[0.1])", "time_step_limit"},
           {two + R"(,"time_step_limit":[0.2,0.1])", "time_step_limit"},
           {two + R"(,"time_step_limit":[-1,0.1])", "time_step_limit"},
           {two + R"(,"norm_before_gate":true)", "norm_before_gate"},
           {ssm + "3", "ssm_cfg"},
           {ssm + R"({"layer":"Mamba9"})", "layer"},
           {ssm + R"({"layer":"Mamba2","d_ssm":16})", "d_ssm"},
           {ssm + R"({"layer":"Mamba2","D_has_hdim":true})", "D_has_hdim"},
           {ssm + R"({"layer":"Mamba2","headdim":48})", "headdim"},
           {ssm + R"({"layer":"Mamba3","rope_fraction":0.3})", "rope_fraction"},
           {ssm + R"({},"attn_layer_idx":[1])", "attn_layer_idx"},
           {ssm + R"({},"d_intermediate":64)", "d_intermediate"},
           {ssm + R"({},"rms_norm":false)", "rms_norm"}})
    expect_error<UnsupportedModel>([&] { plan_of(bad.fields); }, {bad.part});
}

}  // namespace
}  // namespace isobit::testing

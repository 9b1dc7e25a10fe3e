// SPDX-License-Identifier: Apache-2.0
// Configs of hybrids: which layer is what, and what is refused by name.
#include <gtest/gtest.h>

#include "checkpoint/helpers.h"
#include "isobit/error.h"
#include "isobit/model_plan.h"

namespace isobit::testing {
namespace {

ModelPlan plan_of(const std::string& fields) { return plan_for(HFConfig::from_text("{" + fields + "}")); }

const std::string kBamba =
    R"("model_type":"bamba","hidden_size":32,"num_hidden_layers":3,"intermediate_size":48,"vocab_size":50,)"
    R"("num_attention_heads":4,"num_key_value_heads":2,"mamba_n_heads":8,"mamba_d_state":16)";

TEST(HybridPlans, Bamba) {
  const ModelPlan plan = plan_of(kBamba + R"(,"attn_layer_indices":[1])");
  EXPECT_EQ(plan.kind, "hybrid");
  EXPECT_TRUE(plan.is_mamba(0));
  EXPECT_FALSE(plan.is_mamba(1));
  EXPECT_TRUE(plan.is_mamba(2));
  EXPECT_EQ(plan.layers[1].rope_dim, 4);  // half of each head
  EXPECT_EQ(plan.mamba_shape.head_dim, 8);
  EXPECT_EQ(plan.norm_name, "model.final_layernorm.weight");
  EXPECT_TRUE(plan_of(kBamba).is_mamba(1));
}

TEST(HybridPlans, Samba) {
  const std::string samba =
      R"("model_type":"samba","vocab":40,"d_model":32,"n_layers":2,"layers":["mamba3","attention"],"n_heads":4)";
  const ModelPlan plan = plan_of(samba + R"(,"intermediate":48)");
  EXPECT_TRUE(plan.is_mamba(0));
  EXPECT_FALSE(plan.is_mamba(1));
  EXPECT_EQ(plan.mamba_shape.heads, 1);
  expect_error<UnsupportedModel>([&] { plan_of(samba); }, {"intermediate"});
  expect_error<UnsupportedModel>([&] { plan_of(samba + R"(,"intermediate":48,"n_kv_heads":3)"); },
                                 {"n_kv_heads"});
}

TEST(HybridPlans, RefusedByName) {
  for (const std::string bad :
       {R"("attn_layer_indices":[3])", R"("attn_layer_indices":3)", R"("attn_layer_indices":[0.5])"})
    expect_error<UnsupportedModel>([&] { plan_of(kBamba + "," + bad); }, {"attn_layer_indices"});
  expect_error<UnsupportedModel>([&] { plan_of(kBamba + R"(,"mamba_n_groups":3)"); }, {"mamba_n_groups"});
  expect_error<UnsupportedModel>([&] { plan_of(kBamba + R"(,"mamba_expand":0)"); }, {"mamba_expand"});
}

}  // namespace
}  // namespace isobit::testing

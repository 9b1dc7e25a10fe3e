// SPDX-License-Identifier: Apache-2.0
#include "model/synthetic_models.h"

#include <functional>

#include "isobit/error.h"

namespace isobit::synthetic {
namespace {

BlockCase plain(const std::string& name) {
  BlockCase c;
  c.name = name;
  c.options.n_heads = 4;
  c.options.n_kv_heads = 2;
  return c;
}

}  // namespace

RopeScaling scaling(RopeType type, int64_t rope_dim, int64_t original_max_positions) {
  RopeScaling s;
  s.type = type;
  s.factor = 4.0;
  if (type == RopeType::kLlama3) {
    s.low_freq_factor = 1.0;
    s.high_freq_factor = 4.0;
  }
  if (type == RopeType::kLongRope)
    for (int64_t i = 0; i < rope_dim / 2; ++i) {
      s.short_factor.push_back(1.0 + 0.25 * static_cast<double>(i));
      s.long_factor.push_back(2.0 + static_cast<double>(i));
    }
  s.original_max_position_embeddings = original_max_positions;
  return s;
}

std::vector<BlockCase> option_cases() {
  std::vector<BlockCase> cases;
  const auto add = [&cases](const char* name, const std::function<void(BlockCase&)>& change) {
    cases.push_back(plain(name));
    cases.back().seed = cases.size();
    change(cases.back());
  };
  add("plain", [](BlockCase&) {});
  add("one_kv_head", [](BlockCase& c) { c.options.n_kv_heads = 1; });
  add("as_many_kv_heads", [](BlockCase& c) { c.options.n_kv_heads.reset(); });
  add("narrow_heads", [](BlockCase& c) { c.options.head_dim = 2; });
  add("wide_heads", [](BlockCase& c) { c.options.head_dim = 20; });
  add("odd_width", [](BlockCase& c) {
    c.d_model = 23;
    c.intermediate = 37;
    c.options.head_dim = 10;
  });
  add("window", [](BlockCase& c) { c.options.window = 9; });
  add("window_of_one", [](BlockCase& c) { c.options.window = 1; });
  add("rope_theta", [](BlockCase& c) { c.options.rope_theta = 500.0; });
  add("partial_rotary", [](BlockCase& c) { c.options.rope_dim = 2; });
  const std::pair<const char*, RopeType> types[] = {{"linear", RopeType::kLinear},
                                                    {"llama3", RopeType::kLlama3},
                                                    {"yarn", RopeType::kYarn},
                                                    {"longrope", RopeType::kLongRope}};
  for (const auto& [name, type] : types)
    add(name, [type = type](BlockCase& c) { c.options.rope_scaling = scaling(type, 6, 64); });
  add("longrope_short", [](BlockCase& c) {
    c.options.rope_scaling = scaling(RopeType::kLongRope, 6, 4096);
    c.options.max_positions = 4096;
  });
  add("dynamic", [](BlockCase& c) {
    c.options.rope_scaling = scaling(RopeType::kDynamic, 6, 4096);
    c.options.max_positions = 4096;
  });
  add("qkv_bias", [](BlockCase& c) { c.options.qkv_bias = true; });
  add("o_bias", [](BlockCase& c) { c.options.o_bias = true; });
  add("norm_eps", [](BlockCase& c) { c.options.norm_eps = 0.25; });
  add("layernorm", [](BlockCase& c) { c.options.norm = NormKind::kLayerNorm; });
  add("layernorm_bias", [](BlockCase& c) {
    c.options.norm = NormKind::kLayerNorm;
    c.options.norm_bias = true;
  });
  add("rmsnorm_offset", [](BlockCase& c) { c.options.norm = NormKind::kRmsNormOffset; });
  for (const MlpKind kind : {MlpKind::kGelu, MlpKind::kGeluTanh, MlpKind::kGeGlu, MlpKind::kGeGluTanh})
    add(to_string(kind), [kind](BlockCase& c) { c.options.mlp = kind; });
  add("mlp_bias", [](BlockCase& c) { c.options.mlp_bias = true; });
  add("mlp_bias_ungated", [](BlockCase& c) {
    c.options.mlp = MlpKind::kGelu;
    c.options.mlp_bias = true;
  });
  add("qk_norm", [](BlockCase& c) { c.options.qk_norm = true; });
  add("qk_norm_offset", [](BlockCase& c) {
    c.options.norm = NormKind::kRmsNormOffset;
    c.options.qk_norm = true;
  });
  add("softcap", [](BlockCase& c) { c.options.attn_softcap = 1.5; });
  for (const WeightFormat format : {WeightFormat::kBfloat16, WeightFormat::kInt8})
    add((std::string(to_string(format)) + "_weights").c_str(),
        [format](BlockCase& c) { c.options.weight_format = format; });
  add("relu2", [](BlockCase& c) {
    c.options.mlp = MlpKind::kRelu2;
  });  // the seed is the place: new ones go to the end
  for (const NumericProfile profile : {NumericProfile::kFixed15V1, NumericProfile::kInt8x32V1})
    for (const WeightFormat format : {WeightFormat::kFloat32, WeightFormat::kBfloat16, WeightFormat::kInt8})
      add((std::string(to_string(profile)) + "_" + to_string(format)).c_str(),
          [profile, format](BlockCase& c) {
            c.options.numeric_profile = profile;
            c.options.weight_format = format;
          });
  return cases;
}

const std::vector<std::string>& families() {
  static const std::vector<std::string> names = {
      "llama", "mistral",          "qwen2",     "qwen3",      "phi3",   "mamba", "falcon_mamba", "mamba2",
      "bamba", "granitemoehybrid", "falcon_h1", "nemotron_h", "zamba2", "samba"};
  return names;
}

std::string family_config(const std::string& family) {
  std::string own;
  if (family == "llama") own = R"("tie_word_embeddings": false)";
  if (family == "mistral") own = R"("head_dim": 6, "sliding_window": 5)";
  if (family == "qwen2") own = R"("use_sliding_window": true, "sliding_window": 6, "max_window_layers": 1)";
  if (family == "qwen3") own = R"("head_dim": 8, "tie_word_embeddings": true)";
  if (family == "phi3")
    own = R"("original_max_position_embeddings": 1000, "sliding_window": null,
             "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.25], "long_factor": [1.0, 2.5]})";
  if (family == "mamba") own = R"("state_size": 5, "use_bias": true)";
  if (family == "falcon_mamba") own = R"("state_size": 16, "tie_word_embeddings": false)";
  if (family == "mamba2") own = R"("num_heads": 4, "head_dim": 8, "n_groups": 2, "state_size": 6)";
  const std::string mixer = R"("mamba_n_heads": 4, "mamba_d_state": 6, )";
  if (family == "bamba") own = mixer + R"("attn_layer_indices": [1], "mamba_n_groups": 2)";
  if (family == "granitemoehybrid")
    own = mixer + R"("num_local_experts": 0, "shared_intermediate_size": 20, "layer_types":
                     ["mamba", "attention", "mamba"], "embedding_multiplier": 3.0, "logits_scaling": 1.5,
                     "residual_multiplier": 0.75, "attention_multiplier": 0.375)";
  if (family == "falcon_h1")
    own = mixer + R"("mamba_d_ssm": 24, "mamba_rms_norm": true, "attention_in_multiplier": 0.875,
                     "attention_out_multiplier": 0.75, "key_multiplier": 0.625, "ssm_in_multiplier": 1.25,
                     "ssm_out_multiplier": 0.375, "ssm_multipliers": [0.5, 0.75, 1.25, 1.5, 0.875],
                     "mlp_multipliers": [0.75, 1.125], "embedding_multiplier": 2.5,
                     "lm_head_multiplier": 0.625)";
  if (family == "nemotron_h")
    own = R"("hybrid_override_pattern": "-M*M", "ssm_state_size": 6, "mamba_num_heads": 4,
             "mamba_head_dim": 6, "n_groups": 2, "head_dim": 8)";
  if (family == "zamba2")
    return R"({"model_type": "zamba2", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
               "num_hidden_layers": 4, "num_attention_heads": 4, "max_position_embeddings": 2000,
               "layers_block_type": ["hybrid", "hybrid", "mamba", "hybrid"], "num_mem_blocks": 2,
               "n_mamba_heads": 4, "mamba_d_state": 6, "use_mem_rope": true,
               "use_shared_attention_adapter": true, "add_bias_linear": true})";
  if (family == "samba")
    return R"({"model_type": "samba", "vocab": 32, "d_model": 32, "n_layers": 3, "n_heads": 4,
               "intermediate": 24, "layers": ["mamba3", "attention", "mamba3"]})";
  if (own.empty()) throw ValueError("[synthetic] family: expected a known one, got '" + family + "'");
  return R"({"vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2000,
             "rms_norm_eps": 1e-5, "rope_theta": 1000.0, "hidden_act": "silu", "model_type": ")" +
         family + "\", " + own + "}";
}

}  // namespace isobit::synthetic

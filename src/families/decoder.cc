// SPDX-License-Identifier: Apache-2.0
// Sizes, windows and names of pre-norm decoders.
#include "families/decoder.h"

#include <utility>

#include "isobit/error.h"

namespace isobit::families {
namespace {

constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;
// A config is hostile until checked: these bound what the plan itself takes, far above any real model.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxMatrix = int64_t{1} << 40;  // elements

void refuse_unsupported(const ConfigFields& config, const ClassDefaults& defaults) {
  for (const char* field : {"num_local_experts", "num_experts", "num_experts_per_tok", "n_routed_experts"})
    if (!defaults.own_experts && config.has_value(field) && !config.is(field, 0) && !config.is(field, 1))
      config.refuse(field, "no mixture of experts");
  if (config.has_value("quantization_config"))
    config.refuse("quantization_config", "weights that are not quantized");
  if (config.has_value("text_config")) config.refuse("text_config", "a config of a text model");
  const std::string act = config.string_or("hidden_act", defaults.activation);
  const std::string wanted = defaults.activation;
  if (act != wanted && (act != "swish" || wanted != "silu"))
    config.refuse("hidden_act", wanted == "silu" ? "\"silu\" or \"swish\"" : '"' + wanted + '"');
  if (config.has_value("attention_dropout") && !config.is("attention_dropout", 0))
    config.refuse("attention_dropout", "0");
}

int64_t read_kv_heads(const ConfigFields& config, const ClassDefaults& defaults, int64_t n_heads) {
  const bool is_null = config.has("num_key_value_heads") && !config.has_value("num_key_value_heads");
  const int64_t if_absent = defaults.n_kv_heads > 0 ? defaults.n_kv_heads : n_heads;
  const int64_t n_kv_heads =
      is_null ? n_heads : config.integer_or("num_key_value_heads", if_absent, 1, kMaxExtent);
  if (n_heads % n_kv_heads != 0)
    config.refuse("num_key_value_heads", "a divisor of num_attention_heads = " + std::to_string(n_heads) +
                                             " (absent means " + std::to_string(if_absent) + ")");
  return n_kv_heads;
}

int64_t read_head_dim(const ConfigFields& config, const ClassDefaults& defaults, int64_t d_model,
                      int64_t n_heads) {
  const bool is_null = config.has("head_dim") && !config.has_value("head_dim");
  const int64_t derived = d_model / n_heads;
  const int64_t head_dim =
      is_null ? derived
              : config.integer_or("head_dim", defaults.head_dim > 0 ? defaults.head_dim : derived, 1,
                                  kMaxHeadDim);
  if (head_dim < 2 || head_dim > kMaxHeadDim || head_dim % 2 != 0)
    config.refuse("head_dim", "an even number in 2.." + std::to_string(kMaxHeadDim) +
                                  " (hidden_size / heads is " + std::to_string(derived) + ")");
  return head_dim;
}

void check_matrices(const ConfigFields& config, const ModelPlan& plan) {
  const int64_t width = plan.n_heads * plan.head_dim;  // below 2^31 * 2^9
  if (width > kMaxExtent) config.refuse("num_attention_heads", "num_attention_heads * head_dim below 2^31");
  const std::pair<const char*, int64_t> rows[] = {{"vocab_size", plan.vocab_size},
                                                  {"intermediate_size", plan.intermediate},
                                                  {"num_attention_heads", width}};
  for (const auto& [field, n] : rows)
    if (n * plan.d_model > kMaxMatrix) config.refuse(field, "matrices of at most 2^40 elements");
}

}  // namespace

ModelPlan read_decoder(const ConfigFields& config, const ClassDefaults& defaults) {
  refuse_unsupported(config, defaults);
  ModelPlan plan;
  plan.kind = "transformer";
  plan.d_model = config.integer("hidden_size", 1, kMaxExtent);
  plan.n_layers =
      defaults.n_layers > 0 ? defaults.n_layers : config.integer("num_hidden_layers", 1, kMaxLayers);
  plan.vocab_size = config.integer("vocab_size", 1, kMaxExtent);
  plan.intermediate = defaults.intermediate > 0 && !config.has_value("intermediate_size")
                          ? defaults.intermediate
                          : config.integer("intermediate_size", 1, kMaxExtent);
  plan.n_heads = config.integer("num_attention_heads", 1, kMaxExtent);
  plan.n_kv_heads = read_kv_heads(config, defaults, plan.n_heads);
  plan.head_dim = read_head_dim(config, defaults, plan.d_model, plan.n_heads);
  plan.norm_eps = config.positive_or(defaults.eps_field, defaults.norm_eps);
  plan.tie_embeddings = config.flag_or("tie_word_embeddings", defaults.tied);
  plan.max_position_embeddings =
      config.integer_or("max_position_embeddings", defaults.max_position_embeddings, 1, kMaxExtent);
  check_matrices(config, plan);

  TransformerOptions options;
  options.n_heads = plan.n_heads;
  options.n_kv_heads = plan.n_kv_heads;
  options.head_dim = plan.head_dim;
  options.rope_dim = plan.head_dim;
  options.norm_eps = plan.norm_eps;
  options.max_positions = plan.max_position_embeddings;
  plan.layers.assign(static_cast<size_t>(plan.n_layers), options);
  return plan;
}

void read_uniform_window(const ConfigFields& config, int64_t if_absent, ModelPlan& plan) {
  int64_t window = if_absent;
  if (config.has("sliding_window"))
    window = config.has_value("sliding_window") ? config.integer("sliding_window", 0, kMaxExtent) : 0;
  for (TransformerOptions& layer : plan.layers) layer.window = window;
}

void read_qwen_windows(const ConfigFields& config, ModelPlan& plan) {
  int64_t window = 0;
  if (config.flag_or("use_sliding_window", false))
    window = config.has("sliding_window") && !config.has_value("sliding_window")
                 ? 0
                 : config.integer_or("sliding_window", 4096, 0, kMaxExtent);
  if (config.has_value("layer_types")) {
    const auto types = config.strings("layer_types", plan.n_layers);
    for (size_t i = 0; i < types.size(); ++i) {
      const bool sliding = types[i] == "sliding_attention";
      if (!sliding && types[i] != "full_attention" && types[i] != "attention")
        config.refuse("layer_types", "\"full_attention\" or \"sliding_attention\" everywhere");
      if (sliding && window == 0)
        config.refuse("layer_types",
                      "no \"sliding_attention\" where use_sliding_window and sliding_window give none");
      plan.layers[i].window = sliding ? window : 0;
    }
    return;
  }
  const int64_t first = config.integer_or("max_window_layers", 28, 0, kMaxExtent);
  for (int64_t i = 0; i < plan.n_layers; ++i)
    plan.layers[static_cast<size_t>(i)].window = i >= first ? window : 0;
}

std::string layer_prefix(int64_t layer) { return "model.layers." + std::to_string(layer) + "."; }

void add_outer_names(ModelPlan& plan) {
  plan.embed_name = "model.embed_tokens.weight";
  plan.norm_name = "model.norm.weight";
  plan.head_name = "lm_head.weight";
  plan.layer_weights.resize(plan.layers.size());
}

void add_llama_names(ModelPlan& plan) {
  add_outer_names(plan);
  for (int64_t i = 0; i < plan.n_layers; ++i) {
    const std::string prefix = layer_prefix(i);
    const TransformerOptions& options = plan.layers[static_cast<size_t>(i)];
    std::vector<WeightSource>& weights = plan.layer_weights[static_cast<size_t>(i)];
    const auto add = [&](const std::string& group, const std::string& name, bool bias) {
      weights.push_back({name + ".weight", prefix + group + name + ".weight"});
      if (bias) weights.push_back({name + ".bias", prefix + group + name + ".bias"});
    };
    add("", "input_layernorm", false);
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) add("self_attn.", name, options.qkv_bias);
    add("self_attn.", "o_proj", options.o_bias);
    if (options.qk_norm)
      for (const char* name : {"q_norm", "k_norm"}) add("self_attn.", name, false);
    add("", "post_attention_layernorm", false);
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) add("mlp.", name, options.mlp_bias);
  }
}

}  // namespace isobit::families

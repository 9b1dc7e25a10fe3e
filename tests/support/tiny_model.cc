// SPDX-License-Identifier: Apache-2.0
#include "support/tiny_model.h"

#include <fstream>

#include "isobit/safetensors.h"

namespace isobit::testing {

TinyModel::TinyModel(const std::string& family) {
  config = {{"model_type", family},     {"vocab_size", kTinyVocab},
            {"hidden_size", 16},        {"intermediate_size", 24},
            {"num_hidden_layers", 3},   {"num_attention_heads", 4},
            {"num_key_value_heads", 2}, {"max_position_embeddings", 2000},
            {"rms_norm_eps", 1e-5},     {"tie_word_embeddings", false},
            {"rope_theta", 1000.0}};
  if (family == "mistral") config.update({{"head_dim", 6}, {"sliding_window", 5}});
  if (family == "qwen2")
    config.update({{"use_sliding_window", true}, {"sliding_window", 6}, {"max_window_layers", 1}});
  if (family == "qwen3") config.update({{"head_dim", 8}, {"tie_word_embeddings", true}});
  if (family == "phi3") {
    const nlohmann::json factors = {1.0, 2.5};
    config.update({{"original_max_position_embeddings", 1000}, {"sliding_window", nullptr}});
    config["rope_scaling"] = {{"type", "longrope"}, {"short_factor", factors}, {"long_factor", factors}};
  }
  remake_weights();
}

void TinyModel::write(const std::filesystem::path& directory) const {
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "config.json") << config.dump(2);
  write_safetensors(directory / "model.safetensors", weights.map);
}

const std::vector<std::string>& tiny_families() {
  static const std::vector<std::string> families = {"llama", "mistral", "qwen2", "qwen3", "phi3"};
  return families;
}

std::vector<int64_t> tiny_ids(int64_t batch, int64_t length, uint64_t seed) {
  std::vector<int64_t> ids(static_cast<size_t>(batch * length));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int64_t>(synthetic::hash(seed, i) % kTinyVocab);
  return ids;
}

std::vector<float> logits(const CausalLM& model, const std::vector<int64_t>& ids, int64_t batch,
                          int64_t length, CausalLMState* state, bool last_only,
                          std::span<const int64_t> lengths) {
  std::vector<float> out(static_cast<size_t>(batch * (last_only ? 1 : length) * model.plan().vocab_size));
  model.forward(ids, batch, length, out.data(), state, last_only, lengths);
  return out;
}

}  // namespace isobit::testing

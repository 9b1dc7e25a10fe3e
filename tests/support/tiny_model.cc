// SPDX-License-Identifier: Apache-2.0
#include "support/tiny_model.h"

#include <fstream>

#include "isobit/safetensors.h"

namespace isobit::testing {

TinyModel::TinyModel(const std::string& family)
    : config(nlohmann::json::parse(synthetic::family_config(family))) {
  remake_weights();
}

void TinyModel::write(const std::filesystem::path& directory) const {
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "config.json") << config.dump(2);
  write_safetensors(directory / "model.safetensors", weights.map);
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

// SPDX-License-Identifier: Apache-2.0
// What a Hugging Face config.json means: the block options, the sizes and where each weight lies in the
// checkpoint.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isobit/layer_parts.h"
#include "isobit/mamba_options.h"
#include "isobit/mamba_state.h"
#include "isobit/transformer_options.h"

namespace isobit {

/// A parsed config.json. Holds the JSON privately; `text()` gives it back.
class HFConfig {
 public:
  /// Parses JSON text. Throws ValueError when it is not a JSON object with a string "model_type".
  static HFConfig from_text(const std::string& text, std::filesystem::path path = {});
  /// Reads a file, or config.json in a directory. Throws FileNotFound or ValueError.
  static HFConfig from_json(const std::filesystem::path& path);

  const std::string& model_type() const;
  const std::filesystem::path& path() const;
  std::string text() const;

  struct Json;  ///< private to src/checkpoint and src/families
  const Json& json() const { return *json_; }

 private:
  HFConfig() = default;
  std::shared_ptr<const Json> json_;
};

/// One weight of a block: rows [row_begin, row_end) of a checkpoint tensor (row_end < 0: all rows).
struct WeightSource {
  std::string block_key;        ///< "q_proj.weight"
  std::string checkpoint_name;  ///< "model.layers.0.self_attn.q_proj.weight"
  int64_t row_begin = 0;
  int64_t row_end = -1;
};

struct ModelPlan {
  std::string model_type;
  std::string kind;  ///< "transformer", "mamba1", "mamba2", "mamba3" or "hybrid"
  int64_t n_layers = 0;
  int64_t d_model = 0;
  int64_t vocab_size = 0;
  int64_t intermediate = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  bool tie_embeddings = false;
  double norm_eps = 1e-6;  ///< of the final norm
  int64_t max_position_embeddings = 0;
  std::string embed_name;
  std::string norm_name;
  std::string head_name;  ///< also named when tied: a stored head that differs from the embedding is used
  std::vector<TransformerOptions> layers;  ///< options of each layer (windows can differ)
  /// Empty where all layers are transformer layers. Else of each layer its options if it is a Mamba layer;
  /// where it has none it is a transformer layer of `layers`.
  std::vector<std::optional<MambaOptions>> mamba_layers;
  MambaShape mamba_shape;         ///< sizes that each Mamba layer must turn out to have
  std::vector<LayerParts> parts;  ///< of each layer; empty: all have the usual ones
  Multipliers multipliers;
  double embedding_multiplier = 1;
  double logits_multiplier = 1;
  double logits_divisor = 1;
  LayerParts parts_of(int64_t layer) const {
    return parts.empty() ? LayerParts{} : parts[static_cast<size_t>(layer)];
  }
  bool is_mamba(int64_t layer) const {
    return !mamba_layers.empty() && mamba_layers[static_cast<size_t>(layer)].has_value();
  }
  std::vector<std::vector<WeightSource>> layer_weights;  ///< [layer] -> its weights
  /// All names the plan reads, in order, each once.
  std::vector<std::string> checkpoint_names() const;
};

/// Maps a config to a plan, or throws UnsupportedModel naming the field, its value and what is known.
ModelPlan plan_for(const HFConfig& config);
/// The model types that plan_for knows, sorted.
std::vector<std::string> known_model_types();

}  // namespace isobit

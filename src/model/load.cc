// SPDX-License-Identifier: Apache-2.0
// Checkpoint directory -> packed model. Everything that can be wrong is found from headers before a weight is
// read.
#include <algorithm>
#include <functional>
#include <set>

#include "checkpoint/file_io.h"
#include "checkpoint/names.h"
#include "core/checked.h"
#include "core/fp_env.h"
#include "core/interrupt.h"
#include "isobit/safetensors.h"
#include "kernels/table.h"
#include "model/causal_lm_impl.h"

namespace isobit {
namespace {

constexpr const char* kWho = "CausalLM";

/// Where tensors come from: a checkpoint on disk or a map in memory.
struct Source {
  std::vector<std::string> names;
  std::function<bool(const std::string&)> contains_name;
  std::function<TensorView(const std::string&)> view;
  bool contains(const std::string& name) const { return contains_name(name); }
};

class Loader {
 public:
  Loader(CausalLM::Impl& model, const Source& source, const LoadOptions& options)
      : model_(model), plan_(model.plan), source_(source), options_(options) {}

  void check() {
    check_profile();
    set_max_positions();
    set_formats();
    resolve_names();
    check_unused();
    check_top();
    for (int64_t i = 0; i < plan_.n_layers; ++i) check_layer(i);
  }

  void load() {
    check();
    const int64_t total = static_cast<int64_t>(names_.size());
    auto done = [&, n = int64_t{0}](int64_t more) mutable {
      check_interrupt();
      n += more;
      if (options_.progress) options_.progress(n, total);
    };
    load_top(done);
    for (int64_t i = 0; i < plan_.n_layers; ++i) {
      done(load_layer(i));
    }
    for (const auto& [wanted, name] : names_)
      if (const TensorView t = source_.view(name); t.file) t.file->check_unchanged();
  }

 private:
  void set_max_positions() {
    model_.max_positions = plan_.max_position_embeddings;
    if (!options_.max_positions) return;
    const int64_t n = *options_.max_positions;
    expect(n >= 1 && n <= plan_.max_position_embeddings, kWho, "max_positions",
           "1.." + std::to_string(plan_.max_position_embeddings), std::to_string(n));
    model_.max_positions = n;
    for (TransformerOptions& o : plan_.layers) o.max_positions = n;
  }

  void check_profile() {
    const NumericProfile profile = options_.numeric_profile;
    for (int64_t i = 0; i < plan_.n_layers; ++i)
      if (plan_.is_mamba(i) && profile != NumericProfile::kFp32V1)
        throw NotImplemented(refusal(kWho, "numeric_profile",
                                     "fp32_v1 for " + plan_.model_type + ", which has Mamba layers",
                                     to_string(profile)));
    model_.numeric_profile = profile;
    for (TransformerOptions& o : plan_.layers) o.numeric_profile = profile;
  }

  void set_formats() {
    expect(options_.embed_format != WeightFormat::kInt8, kWho, "embed_format", "float32 or bfloat16", "int8");
    model_.weight_format = options_.weight_format;
    model_.embed_format = options_.embed_format;
    for (TransformerOptions& o : plan_.layers) o.weight_format = options_.weight_format;
    for (std::optional<MambaOptions>& o : plan_.mamba_layers)
      if (o) set_weight_format(*o, options_.weight_format);
  }

  void resolve_names() {
    std::vector<std::string> missing;
    for (const std::string& wanted : plan_.checkpoint_names()) {
      std::string name = resolve_name(source_, wanted);
      // A tied model stores its one table under either name, or both.
      if (name.empty() && plan_.tie_embeddings && (wanted == plan_.head_name || wanted == plan_.embed_name))
        continue;
      if (name.empty())
        missing.push_back(wanted);
      else
        names_.emplace(wanted, std::move(name));
    }
    if (plan_.tie_embeddings && !names_.contains(plan_.embed_name) && !names_.contains(plan_.head_name))
      missing.push_back(plan_.embed_name);
    if (missing.empty()) return;
    std::string text;
    for (size_t i = 0; i < missing.size() && i < 5; ++i) text += (i ? ", " : "") + missing[i];
    throw UnsupportedModel(
        refusal(kWho, "checkpoint", "every tensor of the plan",
                std::to_string(missing.size()) + " missing: " + text + (missing.size() > 5 ? ", ..." : "")));
  }

  void check_unused() {
    std::set<std::string> used;
    for (const auto& [wanted, name] : names_) used.insert(name);
    for (const std::string& name : source_.names) {
      if (used.contains(name)) continue;
      if (!harmless_unused(name))
        throw UnsupportedModel(refusal(kWho, "checkpoint", "no tensor that nothing reads", "'" + name + "'"));
      model_.unused.push_back(name);
    }
  }

  TensorView view(const std::string& wanted) const { return source_.view(names_.at(wanted)); }

  void check_dtype(const std::string& wanted, const TensorView& t) const {
    if (t.dtype != DType::F32 && t.dtype != DType::F16 && t.dtype != DType::BF16 &&
        t.blocks == BlockType::kNone)
      throw TypeError(refusal(kWho, wanted, "F32, F16 or BF16", dtype_name(t.dtype)));
  }

  TensorView matrix(const std::string& wanted) const {
    TensorView t = view(wanted);
    check_dtype(wanted, t);
    const std::vector<int64_t> shape = {plan_.vocab_size, plan_.d_model};
    if (t.shape != shape)
      throw ValueError(
          refusal(kWho, wanted,
                  "shape (vocab_size, d_model) = (" + std::to_string(shape[0]) + ", " +
                      std::to_string(shape[1]) + ")",
                  "rank " + std::to_string(t.shape.size()) + ", " + std::to_string(t.size()) + " values"));
    return t;
  }

  PackedMatrix pack(const std::string& wanted, NumericProfile profile) const {
    const TensorView t = matrix(wanted);
    return ops::pack({&t, 1}, {&wanted, 1}, kWho, options_.embed_format, profile);
  }

  static bool same_bytes(const TensorView& a, const TensorView& b) {
    return a.dtype == b.dtype && a.blocks == b.blocks && a.shape == b.shape &&
           std::equal(a.data, a.data + a.bytes(), b.data);
  }

  TensorView final_norm() const {
    TensorView norm = view(plan_.norm_name);
    check_dtype(plan_.norm_name, norm);
    expect(norm.shape == std::vector<int64_t>{plan_.d_model}, kWho, plan_.norm_name,
           "shape (d_model,) = (" + std::to_string(plan_.d_model) + ",)",
           std::to_string(norm.size()) + " values");
    return norm;
  }

  void check_top() const {
    for (const std::string& name : {plan_.embed_name, plan_.head_name})
      if (names_.contains(name)) matrix(name);
    final_norm();
  }

  template <typename Done>
  void load_top(Done& done) {
    const bool has_embed = names_.contains(plan_.embed_name), has_head = names_.contains(plan_.head_name);
    // Tied in the config and both stored: one table if they are equal, else both are used, as transformers
    // does.
    model_.tied = plan_.tie_embeddings &&
                  (!has_embed || !has_head || same_bytes(matrix(plan_.embed_name), matrix(plan_.head_name)));
    const TensorView norm = final_norm();
    model_.final_norm.eps = static_cast<float>(plan_.norm_eps);
    model_.final_norm.weight.resize(static_cast<size_t>(plan_.d_model));
    widen_to_f32(norm, model_.final_norm.weight.data());
    expect(kernels::active_table().first_nonfinite(model_.final_norm.weight.data(), plan_.d_model) ==
               plan_.d_model,
           kWho, plan_.norm_name, "finite values", "NaN or infinity");
    const std::string& embedding = has_embed ? plan_.embed_name : plan_.head_name;
    const std::string& head = model_.tied ? embedding : plan_.head_name;
    // A table of blocks is looked up in its codes, and serves as the head as well.
    const NumericProfile profile = options_.numeric_profile;
    const bool kept = ops::keeps_blocks(matrix(embedding), options_.embed_format, profile);
    model_.embedding = pack(embedding, kept ? profile : NumericProfile::kFp32V1);
    if (!model_.tied || model_.embedding.profile != profile) model_.own_head = pack(head, profile);
    done(1 + has_embed + has_head);
  }

  static std::string layer_name(int64_t i) { return std::string(kWho) + " layer " + std::to_string(i); }

  WeightMap layer_weights(size_t index) const {
    WeightMap weights;
    for (const WeightSource& w : plan_.layer_weights[index]) {
      TensorView t = view(w.checkpoint_name);
      if (w.row_end >= 0) {
        expect(!t.shape.empty() && w.row_end <= t.shape[0], kWho, w.checkpoint_name,
               "at least " + std::to_string(w.row_end) + " rows",
               t.shape.empty() ? "a scalar" : std::to_string(t.shape[0]));
        t = t.rows(w.row_begin, w.row_end);
      }
      weights.emplace(w.block_key, std::move(t));
    }
    check_fused_rows(index);
    return weights;
  }

  /// All that load_layer refuses but non-finite values.
  void check_layer(int64_t i) const {
    const auto index = static_cast<size_t>(i);
    const WeightMap weights = layer_weights(index);
    const std::string who = layer_name(i);
    const LayerParts parts = plan_.parts_of(i);
    if (plan_.is_mamba(i)) {
      const MambaShape shape =
          check_mamba_layer(weights, *plan_.mamba_layers[index], who.c_str(), extras(index));
      expect(shape == plan_.mamba_shape, who.c_str(), "weights", "the sizes that the config names", "others");
    } else {
      resolve_options(plan_.layers[index], weights, who.c_str(), parts);
    }
    const std::string& first = plan_.layer_weights[index].front().block_key;
    const int64_t d_model = weights.at(first).shape[0];
    expect(d_model == plan_.d_model, who.c_str(), first,
           "d_model = " + std::to_string(plan_.d_model) + " values", std::to_string(d_model));
  }

  /// Returns how many tensors it has read.
  int64_t load_layer(int64_t i) {
    const auto index = static_cast<size_t>(i);
    model_.layers.push_back(make_layer(index, layer_weights(index), layer_name(i).c_str()));
    std::set<std::string> read;  // one tensor can hold several weights
    for (const WeightSource& w : plan_.layer_weights[index]) read.insert(names_.at(w.checkpoint_name));
    return static_cast<int64_t>(read.size());
  }

  std::shared_ptr<const Layer> make_layer(size_t index, const WeightMap& weights, const char* who) const {
    const LayerParts parts = plan_.parts_of(static_cast<int64_t>(index));
    if (!plan_.is_mamba(static_cast<int64_t>(index)))
      return std::make_shared<const TransformerLayer>(
          weights, resolve_options(plan_.layers[index], weights, who, parts), who, parts, plan_.multipliers);
    MambaExtras more = extras(index);
    if (more.shared_elsewhere)
      more.shared =
          std::dynamic_pointer_cast<const MambaLayer>(model_.layers[static_cast<size_t>(parts.shared_block)])
              ->shared_block();
    return make_mamba_layer(weights, *plan_.mamba_layers[index], who, more);
  }

  MambaExtras extras(size_t index) const {
    MambaExtras result;
    result.parts = plan_.parts_of(static_cast<int64_t>(index));
    result.multipliers = plan_.multipliers;
    if (!plan_.layers.empty()) result.attention = plan_.layers[index];
    const int64_t shared = result.parts.shared_block;
    result.shared_elsewhere = shared >= 0 && shared < static_cast<int64_t>(index);
    return result;
  }

  /// A tensor that is read in slices must be read whole.
  void check_fused_rows(size_t index) const {
    std::map<std::string, int64_t> ends;
    for (const WeightSource& w : plan_.layer_weights[index])
      if (w.row_end >= 0) ends[w.checkpoint_name] = std::max(ends[w.checkpoint_name], w.row_end);
    for (const auto& [name, end] : ends) {
      const int64_t rows = view(name).shape[0];
      expect(rows == end, kWho, name, std::to_string(end) + " rows", std::to_string(rows));
    }
  }

  CausalLM::Impl& model_;
  ModelPlan& plan_;
  const Source& source_;
  const LoadOptions& options_;
  std::map<std::string, std::string> names_;  // plan's name -> checkpoint's
};

}  // namespace

CausalLM CausalLM::load(const std::filesystem::path& directory, const LoadOptions& options) {
  return open(directory, options, true);
}

std::vector<std::string> CausalLM::check(const std::filesystem::path& directory, const LoadOptions& options) {
  return open(directory, options, false).unused_names();
}

CausalLM CausalLM::open(const std::filesystem::path& directory, const LoadOptions& options,
                        bool with_weights) {
  const FpEnv environment;  // numbers of the config are read under it as well
  if (!std::filesystem::exists(directory))
    throw FileNotFound(refusal("CausalLM.load", "path", "a checkpoint directory",
                               "'" + directory.string() + "', which does not exist"));
  if (!std::filesystem::is_directory(directory))
    throw FileNotFound(refusal("CausalLM.load", "path", "a checkpoint directory",
                               "'" + directory.string() + "', which is no directory"));
  const ModelPlan plan = plan_for(HFConfig::from_json(directory));
  const Checkpoint checkpoint = Checkpoint::open(directory);
  const Source source{checkpoint.names(), [&](const std::string& n) { return checkpoint.contains(n); },
                      [&](const std::string& n) { return checkpoint.weight(n); }};
  CausalLM model;
  model.impl_->plan = plan;
  Loader loader(*model.impl_, source, options);
  with_weights ? loader.load() : loader.check();
  return model;
}

CausalLM::CausalLM(const ModelPlan& plan, const WeightMap& weights, const LoadOptions& options) : CausalLM() {
  Source source{{},
                [&](const std::string& n) { return weights.contains(n); },
                [&](const std::string& n) { return weights.at(n); }};
  for (const auto& [name, tensor] : weights) source.names.push_back(name);
  const FpEnv environment;
  impl_->plan = plan;
  Loader(*impl_, source, options).load();
}

CausalLM::CausalLM() : impl_(std::make_unique<Impl>()) {}
CausalLM::~CausalLM() = default;
CausalLM::CausalLM(CausalLM&&) noexcept = default;
CausalLM& CausalLM::operator=(CausalLM&&) noexcept = default;

const ModelPlan& CausalLM::plan() const { return impl_->plan; }
int64_t CausalLM::max_positions() const { return impl_->max_positions; }
const std::vector<std::string>& CausalLM::unused_names() const { return impl_->unused; }
bool CausalLM::tied() const { return impl_->tied; }
WeightFormat CausalLM::weight_format() const { return impl_->weight_format; }
NumericProfile CausalLM::numeric_profile() const { return impl_->numeric_profile; }
WeightFormat CausalLM::embed_format() const { return impl_->embed_format; }
int64_t CausalLM::projection_elements() const {
  int64_t elements = 0;
  for (const auto& layer : impl_->layers) elements += layer->matrix_elements();
  return elements;
}

int64_t CausalLM::weight_bytes() const {
  const ops::NormWeights& norm = impl_->final_norm;
  int64_t bytes = impl_->embedding.bytes() + impl_->own_head.bytes() +
                  static_cast<int64_t>((norm.weight.size() + norm.bias.size()) * sizeof(float));
  for (const auto& layer : impl_->layers) bytes += layer->weight_bytes();
  return bytes;
}

int64_t CausalLM::step_bytes() const {
  return weight_bytes() - (impl_->own_head.n > 0 ? impl_->embedding.bytes() : 0);
}

}  // namespace isobit

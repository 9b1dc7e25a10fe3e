// SPDX-License-Identifier: Apache-2.0
// The stages of the self-test above the kernels: rotary tables, a block for every option, a model of every
// family.
#include "isobit/causal_lm.h"
#include "model/self_test.h"
#include "model/synthetic_mamba.h"
#include "model/synthetic_models.h"
#include "nn/rope_table.h"

namespace isobit {
namespace {

using synthetic::BlockCase;

void run_rope_table(const std::optional<RopeScaling>& scaling, Sha256& hash) {
  const RopeTable table(16, 10000.0, scaling, 8192);
  const auto half = static_cast<size_t>(table.half());
  for (const int64_t position : {0, 1, 2, 100, 255, 256, 4095, 8191}) {
    hash_values(hash, {table.cos_row(position), half});
    hash_values(hash, {table.sin_row(position), half});
  }
}

// Two rows: a prompt, a longer piece and a step on one state, then its keys and values.
void run_block(const BlockCase& c, Sha256& hash) {
  constexpr int64_t kBatch = 2;
  const TransformerBlock block = c.block();
  TransformerState state = block.allocate_state(kBatch, 40);
  for (const int64_t length : {7, 15, 1}) {
    const std::vector<float> x = c.input(kBatch, length, static_cast<uint64_t>(length));
    std::vector<float> y(x.size());
    block.forward(x.data(), kBatch, length, y.data(), &state);
    hash_values(hash, y);
  }
  hash_values(hash, state.keys());
  hash_values(hash, state.values());
}

// Longer than a pass and than a ring of slots.
void run_long_block(int64_t window, Sha256& hash) {
  constexpr int64_t kLength = 1300;
  BlockCase c = synthetic::option_cases().front();
  c.d_model = 8;
  c.intermediate = 8;
  c.options.n_heads = 2;
  c.options.n_kv_heads = 1;
  c.options.window = window;
  const std::vector<float> x = c.input(1, kLength);
  std::vector<float> y(x.size());
  c.block().forward(x.data(), 1, kLength, y.data());
  hash_values(hash, y);
}

// Logits of a prompt, then what generation does: its ids, and the logits of the last choice.
void run_model(const std::string& family, const LoadOptions& options, Sha256& hash) {
  constexpr int64_t kBatch = 2, kLength = 11, kNew = 9;
  const ModelPlan plan = plan_for(HFConfig::from_text(synthetic::family_config(family)));
  const CausalLM model(plan, synthetic::model(plan, 5).map, options);
  std::vector<int64_t> ids;
  for (uint64_t i = 0; i < kBatch * kLength; ++i)
    ids.push_back(static_cast<int64_t>(synthetic::hash(3, i) % synthetic::kVocab));
  std::vector<float> logits(ids.size() * synthetic::kVocab);
  model.forward(ids, kBatch, kLength, logits.data());
  hash_values(hash, logits);
  std::vector<float> last;
  const std::vector<int32_t> text =
      model.generate(ids, kBatch, kLength, kNew, [&last](int64_t, auto, auto of_choice) {
        last.assign(of_choice.begin(), of_choice.end());
        return true;
      });
  hash_ids(hash, text);
  hash_values(hash, last);
}

// A prefill of two rows, three steps, and what the state then holds.
void run_mamba(const synthetic::MambaCase& c, Sha256& hash) {
  const MambaBlock block = c.block();
  MambaState state = block.allocate_state(2);
  for (const int64_t length : {int64_t{40}, int64_t{1}, int64_t{1}, int64_t{1}}) {
    const std::vector<float> x = c.input(2, length);
    std::vector<float> out(x.size());
    block.forward(x.data(), 2, length, out.data(), &state);
    hash_values(hash, out);
  }
  for (const std::string& name : state.buffer_names()) hash_values(hash, *state.buffer(name));
}

}  // namespace

std::vector<GoldenCase> model_cases() {
  std::vector<GoldenCase> cases;
  cases.push_back({"rotary table", [](Sha256& hash) { run_rope_table(std::nullopt, hash); }});
  for (const RopeType type : {RopeType::kLinear, RopeType::kLlama3, RopeType::kYarn, RopeType::kLongRope})
    cases.push_back({std::string("rotary table: ") + to_string(type),
                     [type](Sha256& hash) { run_rope_table(synthetic::scaling(type, 16, 1024), hash); }});
  for (const BlockCase& c : synthetic::option_cases())
    cases.push_back({"block: " + c.name, [c](Sha256& hash) { run_block(c, hash); }});
  cases.push_back({"block: long", [](Sha256& hash) { run_long_block(0, hash); }});
  cases.push_back({"block: long, window", [](Sha256& hash) { run_long_block(200, hash); }});
  for (const synthetic::MambaCase& c : synthetic::mamba_cases())
    cases.push_back({"block: " + c.name, [c](Sha256& hash) { run_mamba(c, hash); }});
  for (const std::string& family : synthetic::families())
    cases.push_back({"model: " + family, [family](Sha256& hash) { run_model(family, {}, hash); }});
  cases.push_back(
      {"model: qwen3, bfloat16", [](Sha256& hash) {
         run_model("qwen3",
                   {.weight_format = WeightFormat::kBfloat16, .embed_format = WeightFormat::kBfloat16}, hash);
       }});
  cases.push_back({"model: qwen3, int8",
                   [](Sha256& hash) { run_model("qwen3", {.weight_format = WeightFormat::kInt8}, hash); }});
  for (const NumericProfile profile : {NumericProfile::kFixed15V1, NumericProfile::kInt8x32V1})
    cases.push_back({std::string("model: qwen3, ") + to_string(profile),
                     [profile](Sha256& hash) { run_model("qwen3", {.numeric_profile = profile}, hash); }});
  return cases;
}

}  // namespace isobit

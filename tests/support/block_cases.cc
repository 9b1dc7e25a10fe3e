// SPDX-License-Identifier: Apache-2.0
#include "support/block_cases.h"

#include <functional>

#include "support/random.h"

namespace isobit::testing {
namespace {

RopeScaling make_scaling(RopeType type, int64_t rope_dim, int64_t original) {
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
  s.original_max_position_embeddings = original;
  return s;
}

BlockCase plain(const std::string& name) {
  BlockCase c;
  c.name = name;
  c.options.n_heads = 4;
  c.options.n_kv_heads = 2;
  return c;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const BlockCase& c) { return out << c.name; }

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
    add(name, [type = type](BlockCase& c) { c.options.rope_scaling = make_scaling(type, 6, 64); });
  add("longrope_short", [](BlockCase& c) {
    c.options.rope_scaling = make_scaling(RopeType::kLongRope, 6, 4096);
    c.options.max_positions = 4096;
  });
  add("dynamic", [](BlockCase& c) {
    c.options.rope_scaling = make_scaling(RopeType::kDynamic, 6, 4096);
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
  return cases;
}

BlockCase random_case(uint64_t seed) {
  Random r(seed);
  BlockCase c;
  c.name = "random_" + std::to_string(seed);
  c.seed = seed;
  TransformerOptions& o = c.options;
  o.n_kv_heads = r.in(1, 3);
  o.n_heads = *o.n_kv_heads * r.in(1, 3);
  o.head_dim = 2 * r.in(1, 11);
  c.d_model = r.in(1, 40);
  c.intermediate = r.in(1, 70);
  if (r.coin()) o.window = r.in(1, 40);
  if (r.coin()) o.rope_dim = 2 * r.in(1, *o.head_dim / 2);
  if (r.coin()) o.rope_theta = 100.0;
  o.max_positions = 2000;
  if (r.coin()) {
    const auto type = static_cast<RopeType>(r.in(0, 4));
    o.rope_scaling = make_scaling(type, o.rope_dim.value_or(*o.head_dim),
                                  type == RopeType::kDynamic || r.coin() ? 2000 : 32);
  }
  o.norm = static_cast<NormKind>(r.in(0, 2));
  o.mlp = static_cast<MlpKind>(r.in(0, 4));
  o.norm_bias = o.norm == NormKind::kLayerNorm && r.coin();
  o.qk_norm = o.norm != NormKind::kLayerNorm && r.coin();
  o.qkv_bias = r.coin();
  o.o_bias = r.coin();
  o.mlp_bias = r.coin();
  if (r.coin()) o.attn_softcap = 2.0;
  return c;
}

std::vector<float> run(const TransformerBlock& block, const std::vector<float>& x, int64_t batch,
                       int64_t length, TransformerState* state, std::span<const int64_t> lengths) {
  std::vector<float> out(x.size());
  block.forward(x.data(), batch, length, out.data(), state, lengths);
  return out;
}

std::vector<float> tokens(const std::vector<float>& x, int64_t batch, int64_t length, int64_t begin,
                          int64_t end) {
  const int64_t d = static_cast<int64_t>(x.size()) / (batch * length);
  std::vector<float> out;
  for (int64_t row = 0; row < batch; ++row)
    out.insert(out.end(), x.begin() + (row * length + begin) * d, x.begin() + (row * length + end) * d);
  return out;
}

std::vector<float> run_split(const TransformerBlock& block, const std::vector<float>& x, int64_t batch,
                             const std::vector<int64_t>& parts, int64_t max_tokens) {
  int64_t length = 0;
  for (const int64_t n : parts) length += n;
  const int64_t d = block.d_model();
  TransformerState state = block.allocate_state(batch, max_tokens);
  std::vector<float> out(x.size());
  int64_t at = 0;
  for (const int64_t n : parts) {
    const std::vector<float> y = run(block, tokens(x, batch, length, at, at + n), batch, n, &state);
    for (int64_t row = 0; row < batch; ++row)
      std::copy(y.begin() + row * n * d, y.begin() + (row + 1) * n * d,
                out.begin() + (row * length + at) * d);
    at += n;
  }
  return out;
}

}  // namespace isobit::testing

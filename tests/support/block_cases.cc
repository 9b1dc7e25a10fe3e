// SPDX-License-Identifier: Apache-2.0
#include "support/block_cases.h"

#include <algorithm>

#include "support/random.h"

namespace isobit::testing {

BlockCase narrow_case(int64_t window) {
  BlockCase c = option_cases().front();
  c.d_model = 8;
  c.intermediate = 8;
  c.options.n_heads = 2;
  c.options.n_kv_heads = 1;
  c.options.window = window;
  return c;
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
    o.rope_scaling = synthetic::scaling(type, o.rope_dim.value_or(*o.head_dim),
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

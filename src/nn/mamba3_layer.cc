// SPDX-License-Identifier: Apache-2.0
// Mamba 3 (contract 7b.4), SISO and MIMO of rank R; no convolution. Head k reads group k / (heads / groups):
//   [z, x, B, C, dt, A, trap, angles] = in_proj n
//   k, q = B, C through RMSNorm, plus the head's bias, turned by theta = theta + pi*tanh(angles)*dt
//   S = S + beta*(x' k'^T)          x', k' of the token before
//   S = fma(decay, S, gamma*(x k^T))          y = fma(D, x, DOT(q, S))
//   out_proj(y*silu(z)), with an output norm of each head before the gate where there is norm.weight; MIMO:
//   the ranks of x, z and y are mixed by mimo_x, mimo_z and mimo_o.
#include "core/checked.h"
#include "kernels/table.h"
#include "nn/mamba_layer.h"
#include "nn/weight_checker.h"

namespace isobit {
namespace {

class Mamba3Layer final : public MambaLayer {
 public:
  Mamba3Layer(const WeightMap& weights, const Mamba3Options& o, const MambaShape& shape, int64_t groups,
              const char* who);

 private:
  float* mix(float* in, const TokenBatch& pass, const std::vector<ops::RowRun>& runs, MambaState::Impl& state,
             Workspace& workspace, Faults& faults, int64_t layer) const override;
  void make_keys(const float* in, const TokenBatch& pass, float* keys, Faults& faults, int64_t layer) const;
  float* mix_ranks(const float* in, const TokenBatch& pass, float* y, Workspace& w, Faults& faults,
                   int64_t layer) const;
  // Floats of B or C of a token.
  int64_t keys() const { return shape_.rank * scan_.groups * shape_.states; }

  float eps_ = 0.0f;
  std::vector<float> b_norm_, c_norm_;
  std::vector<float> mimo_z_, mimo_o_;  // [heads][rank][head_dim]
  ops::TrapezoidWeights scan_;
  ops::GatedNorm gate_;
};

Mamba3Layer::Mamba3Layer(const WeightMap& weights, const Mamba3Options& o, const MambaShape& shape,
                         int64_t groups, const char* who)
    : MambaLayer(o), eps_(static_cast<float>(o.norm_eps)) {
  shape_ = shape;
  load_outer(weights, "block_norm", o.norm_eps, who);
  place_values(b_norm_, weights, {"B_norm.weight"}, who);
  place_values(c_norm_, weights, {"C_norm.weight"}, who);
  scan_.heads = shape.heads;
  scan_.head_dim = shape.head_dim;
  scan_.states = shape.states;
  scan_.groups = groups;
  scan_.rank = shape.rank;
  scan_.angles = shape.angles;
  scan_.split_pairs = weights.contains("mimo_x");
  scan_.heavy_tail = o.heavy_tail;
  scan_.a_floor = static_cast<float>(o.a_floor);
  place_values(scan_.dt_bias, weights, {"dt_bias"}, who);
  place_values(scan_.b_bias, weights, {"B_bias"}, who);
  place_values(scan_.c_bias, weights, {"C_bias"}, who);
  place_values(scan_.d, weights, {"D"}, who);
  if (weights.contains("mimo_x")) {
    place_values(scan_.mimo_x, weights, {"mimo_x"}, who);
    place_values(mimo_z_, weights, {"mimo_z"}, who);
    place_values(mimo_o_, weights, {"mimo_o"}, who);
  }
  gate_.norm = weights.contains("norm.weight");
  gate_.before_gate = true;
  gate_.groups = shape.heads;
  gate_.eps = eps_;
  if (gate_.norm) place_values(gate_.weight, weights, {"norm.weight"}, who);
}

// keys: rows [B | C | tanh(angles)].
void Mamba3Layer::make_keys(const float* in, const TokenBatch& pass, float* keys_out, Faults& faults,
                            int64_t layer) const {
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t n = shape_.states, count = keys() / n, width = 2 * keys() + shape_.angles;
  std::vector<uint8_t> bad(static_cast<size_t>(pass.tokens), 0);
  ops::over_tokens(pass.tokens, width, [&](int64_t first, int64_t tokens) {
    for (int64_t t = first; t < first + tokens; ++t) {
      const float* raw = in + t * in_.n + 2 * shape_.channels;
      float* out = keys_out + t * width;
      const bool finite =
          table.rms_norm(raw, n, count, n, b_norm_.data(), eps_, false, out, n) == count &&
          table.rms_norm(raw + keys(), n, count, n, c_norm_.data(), eps_, false, out + keys(), n) == count;
      table.unary(kernels::Unary::kTanh, in + (t + 1) * in_.n - shape_.angles, shape_.angles,
                  out + 2 * keys());
      bad[static_cast<size_t>(t)] = !finite || table.first_nonfinite(out, width) != width;
    }
  });
  for (int64_t t = 0; t < pass.tokens; ++t) {
    if (bad[static_cast<size_t>(t)] == 0) continue;
    faults.record(pass.segment_of(t).row, pass.position_of(t), layer, Stage::kInnerNorm);
    std::fill_n(keys_out + t * width, width, 0.0f);
  }
}

// y: [tokens][rank][channels] -> [tokens][channels].
float* Mamba3Layer::mix_ranks(const float* in, const TokenBatch& pass, float* y, Workspace& w, Faults& faults,
                              int64_t layer) const {
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t channels = shape_.channels, rank = shape_.rank, part = shape_.head_dim;
  float* out = w.mixed_out.at_least(pass.tokens * channels);
  std::vector<uint8_t> bad(static_cast<size_t>(pass.tokens), 0);
  ops::over_tokens(pass.tokens, rank * channels, [&](int64_t first, int64_t tokens) {
    for (int64_t t = first; t < first + tokens; ++t)
      for (int64_t h = 0; h < shape_.heads; ++h) {
        float* head = y + t * rank * channels + h * part;
        uint8_t& wrong = bad[static_cast<size_t>(t)];
        if (gate_.norm)
          for (int64_t r = 0; r < rank; ++r)
            if (table.rms_norm(head + r * channels, part, 1, part, gate_.weight.data() + h * part, eps_,
                               false, head + r * channels, part) != 1)
              wrong = 1;
        float* to = out + t * channels + h * part;
        table.mimo_gate(head, channels, in + t * in_.n + h * part, mimo_z_.data() + h * rank * part,
                        mimo_o_.data() + h * rank * part, rank, part, to);
        if (table.first_nonfinite(to, part) != part) wrong = 1;
      }
  });
  for (int64_t t = 0; t < pass.tokens; ++t) {
    if (bad[static_cast<size_t>(t)] == 0) continue;
    faults.record(pass.segment_of(t).row, pass.position_of(t), layer, Stage::kSsmGate);
    std::fill_n(out + t * channels, channels, 0.0f);
  }
  return out;
}

float* Mamba3Layer::mix(float* in, const TokenBatch& pass, const std::vector<ops::RowRun>& runs,
                        MambaState::Impl& state, Workspace& w, Faults& faults, int64_t layer) const {
  const int64_t tokens = pass.tokens, channels = shape_.channels, heads = shape_.heads, width = in_.n;
  const int64_t outputs = shape_.rank * channels;
  float* keys_out = w.parameters.at_least(tokens * (2 * keys() + shape_.angles));
  float* steps = w.steps.at_least(tokens * 4 * heads);
  float* y = w.mixed.at_least(tokens * outputs);

  make_keys(in, pass, keys_out, faults, layer);
  ops::trapezoid_steps(scan_, in + 2 * (channels + keys()), width, tokens, steps);
  ops::require_finite(pass, steps, 4 * heads, 4 * heads, faults, layer, Stage::kTimeStep);
  ops::trapezoid_scan(scan_, in + channels, width, keys_out, steps, runs, state, y);
  ops::require_finite(pass, y, outputs, outputs, faults, layer, Stage::kScan);
  if (!mimo_o_.empty()) return mix_ranks(in, pass, y, w, faults, layer);
  ops::gate(gate_, in, width, channels, pass, y, faults, layer);
  return y;
}

}  // namespace

MambaShape check_mamba3(const WeightMap& weights, const Mamba3Options& o, const char* who) {
  WeightChecker check(weights, who);
  check.finite_positive("norm_eps", o.norm_eps);
  check.finite_positive("a_floor", o.a_floor);
  expect(o.rope_fraction > 0 && o.rope_fraction <= 1, who, "rope_fraction", "a number in (0, 1]",
         number_text(o.rope_fraction));
  const int64_t d = check.require("block_norm.weight", 1).shape[0];
  const int64_t heads = check.require("dt_bias", 1).shape[0];
  const int64_t channels = check.require("out_proj.weight", 2).shape[1];
  const int64_t states = check.require("B_norm.weight", 1).shape[0];
  expect(channels % heads == 0, who, "out_proj.weight",
         "a multiple of the " + std::to_string(heads) + " heads as columns", std::to_string(channels));
  expect(states <= kernels::kMaxStates && states % 2 == 0, who, "B_norm.weight",
         "an even number of states up to " + std::to_string(kernels::kMaxStates), std::to_string(states));
  const bool mimo = weights.contains("mimo_x");
  const auto bias = weights.find("B_bias");
  const bool ranks = bias != weights.end() && bias->second.shape.size() == 3;
  const int64_t rank = ranks ? check.require("B_bias", 3).shape[1] : 1;
  expect(mimo || rank == 1, who, "B_bias", "one rank where there is no mimo_x", std::to_string(rank));
  // Pairs that turn: half of the fraction's columns, an odd one left out.
  const int64_t angles = static_cast<int64_t>(static_cast<double>(states) * o.rope_fraction) / 2;
  expect(angles >= 1, who, "rope_fraction", "at least one pair of the states", number_text(o.rope_fraction));
  const int64_t rows = check.require("in_proj.weight", 2).shape[0];
  const int64_t keys = rows - 2 * channels - 3 * heads - angles;
  const int64_t one_group = checked_mul(2 * rank, states);
  expect(keys > 0 && keys % one_group == 0 && heads % (keys / one_group) == 0, who, "in_proj.weight",
         "2 * channels + 2 * rank * groups * states + 3 * heads + " + std::to_string(angles) +
             " rows, groups a divisor of the heads",
         std::to_string(rows));
  const std::vector<int64_t> bias_shape =
      ranks ? std::vector<int64_t>{heads, rank, states} : std::vector<int64_t>{heads, states};
  check.shape("block_norm.weight", {d});
  check.shape("in_proj.weight", {rows, d});
  check.shape("dt_bias", {heads});
  check.shape("B_norm.weight", {states});
  check.shape("C_norm.weight", {states});
  check.shape("B_bias", bias_shape);
  check.shape("C_bias", bias_shape);
  check.shape("D", {heads});
  check.if_there("norm.weight", {channels});
  if (mimo)
    for (const char* name : {"mimo_x", "mimo_z", "mimo_o"})
      check.shape(name, {heads, rank, channels / heads});
  check.shape("out_proj.weight", {d, channels});
  check.no_others();
  return {.version = 3,
          .channels = channels,
          .states = states,
          .heads = heads,
          .head_dim = channels / heads,
          .rank = rank,
          .angles = angles};
}

std::shared_ptr<const MambaLayer> make_mamba3(const WeightMap& weights, const Mamba3Options& o,
                                              const char* who) {
  const MambaShape s = check_mamba3(weights, o, who);
  const int64_t keys = weights.at("in_proj.weight").shape[0] - 2 * s.channels - 3 * s.heads - s.angles;
  const int64_t groups = keys / (2 * s.rank * s.states);
  return std::make_shared<const Mamba3Layer>(weights, o, s, groups, who);
}

}  // namespace isobit

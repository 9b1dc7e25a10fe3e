// SPDX-License-Identifier: Apache-2.0
// Contract 7b.4, one token at a time.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/elementary.h"
#include "kernels/reference/state_space.h"
#include "kernels/reference/tree.h"
#include "kernels/trapezoid_constants.h"

namespace isobit::kernels::reference {
namespace {

using Row = std::vector<float>;

float wrap_turn(float x) {
  const float turns = x / kTurnHi;
  const float size = std::fabs(turns);
  float whole = size >= 0x1p23f ? size : (size + 0x1p23f) - 0x1p23f;
  if (turns < 0) whole = -whole;
  if (whole > turns) whole = whole - 1.0f;
  const float rest = scalar_fma(-whole, kTurnLo, scalar_fma(-whole, kTurnHi, x));
  return std::fabs(rest) >= kTurnLimit ? 0.0f : rest;
}

// [rank][states] of one token: biased, then turned.
Row turned(const TrapezoidScanArgs& a, const float* x, const float* bias, const Row& theta) {
  Row y(static_cast<size_t>(a.rank * a.states));
  for (int64_t r = 0; r < a.rank; ++r) {
    float* row = y.data() + r * a.states;
    for (int64_t n = 0; n < a.states; ++n) row[n] = x[r * a.rank_stride + n] + bias[r * a.states + n];
    for (int64_t j = 0; j < a.angles; ++j) {
      float& first = row[a.split_pairs ? j : 2 * j];
      float& second = row[a.split_pairs ? j + a.states / 2 : 2 * j + 1];
      const float u = first, v = second, angle = theta[static_cast<size_t>(j)];
      first = scalar_fma(u, cos_ref(angle), -(v * sin_ref(angle)));
      second = scalar_fma(v, cos_ref(angle), u * sin_ref(angle));
    }
  }
  return y;
}

}  // namespace

void trapezoid_steps(const TrapezoidStepArgs& args) {
  for (int64_t h = 0; h < args.heads; ++h) {
    const float dt = softplus_ref(args.dt_raw[h] + args.dt_bias[h]);
    const float raw = args.a_raw[h];
    const float heavy = raw >= 0 ? 1.0f + raw : 1.0f / (1.0f - raw);
    const float size = args.heavy_tail ? heavy : softplus_ref(raw);
    const float a = -size < -args.a_floor ? -size : -args.a_floor;
    const float weight = sigmoid_ref(args.trap[h]);
    args.dt[h] = dt;
    args.decay[h] = exp_ref(a * dt);
    args.gamma[h] = weight * dt;
    args.beta[h] = (1.0f - weight) * dt;
  }
}

void trapezoid_scan(const TrapezoidScanArgs& a) {
  const int64_t ldh = (a.head_dim + 15) / 16 * 16, keys = a.rank * a.states;
  Row theta(a.theta_in, a.theta_in + a.angles), before(a.k_in, a.k_in + keys);
  Row last(a.v_in, a.v_in + a.head_dim), state(a.h_in, a.h_in + a.states * ldh);
  for (int64_t t = 0; t < a.tokens; ++t) {
    const float dt = a.dt[t * a.ldt], decay = a.decay[t * a.ldt];
    const float gamma = a.gamma[t * a.ldt], beta = a.beta[t * a.ldt];
    for (int64_t j = 0; j < a.angles; ++j) {
      float& angle = theta[static_cast<size_t>(j)];
      angle = wrap_turn(angle + (a.spin[t * a.lds + j] * kHalfTurn) * dt);
    }
    const Row k = turned(a, a.b + t * a.ldbc, a.b_bias, theta);
    const Row q = turned(a, a.c + t * a.ldbc, a.c_bias, theta);
    for (int64_t p = 0; p < a.head_dim; ++p) {
      const float x = a.x[t * a.ldx + p];
      const auto mixed = [&](float value, int64_t r) {
        return a.mimo_x ? value * a.mimo_x[r * a.head_dim + p] : value;
      };
      Row s;
      for (int64_t n = 0; n < a.states; ++n) {
        float cell = state[static_cast<size_t>(n * ldh + p)];
        for (int64_t r = 0; r < a.rank; ++r)
          cell = scalar_fma(beta * mixed(last[static_cast<size_t>(p)], r),
                            before[static_cast<size_t>(r * a.states + n)], cell);
        float added = (gamma * mixed(x, 0)) * k[static_cast<size_t>(n)];
        for (int64_t r = 1; r < a.rank; ++r)
          added = scalar_fma(gamma * mixed(x, r), k[static_cast<size_t>(r * a.states + n)], added);
        cell = scalar_fma(decay, cell, added);
        state[static_cast<size_t>(n * ldh + p)] = cell;
        s.push_back(cell);
      }
      for (int64_t r = 0; r < a.rank; ++r)
        a.y[t * a.ldy + r * a.ldr + p] =
            scalar_fma(a.d, mixed(x, r), dot(q.data() + r * a.states, s.data(), a.states));
    }
    before = k;
    last.assign(a.x + t * a.ldx, a.x + t * a.ldx + a.head_dim);
  }
  std::copy(theta.begin(), theta.end(), a.theta_out);
  std::copy(before.begin(), before.end(), a.k_out);
  std::copy(last.begin(), last.end(), a.v_out);
  std::copy(state.begin(), state.end(), a.h_out);
}

void mimo_gate(const float* y, int64_t ldr, const float* gate, const float* mix_gate, const float* mix_out,
               int64_t rank, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    Row gated;
    for (int64_t r = 0; r < rank; ++r)
      gated.push_back(silu_ref(gate[i] * mix_gate[r * n + i]) * y[r * ldr + i]);
    out[i] = dot(gated.data(), mix_out + i, rank, n);
  }
}

}  // namespace isobit::kernels::reference

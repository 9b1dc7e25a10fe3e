// SPDX-License-Identifier: Apache-2.0
// The parts of Mamba layers that look along the sequence: the convolution and the recurrences, for the tokens
// of a pass. Threads share (batch row, channels or head); a row's tokens are taken in order. Every function
// reads the row's state where the pass finds it and leaves the new one at its target.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/faults.h"
#include "state/mamba_state.h"

namespace isobit::ops {

/// The segments of one batch row in a pass, in order.
struct RowRun {
  int64_t row;
  std::vector<Segment> segments;
};
std::vector<RowRun> runs_of(const TokenBatch& pass);

struct ConvWeights {
  int64_t channels = 0;
  int64_t width = 0;
  int64_t ld = 0;           // channels rounded up to 16
  std::vector<float> taps;  // [width][ld]
  std::vector<float> bias;  // [channels], or empty
};
/// weight: [channels, width].
ConvWeights make_conv(const std::vector<float>& weight, const std::vector<float>& bias, int64_t channels,
                      int64_t width);

/// y = silu(conv(x)): x [tokens] rows of ldx, y rows of ldy.
void causal_conv(const ConvWeights& w, const float* x, int64_t ldx, const std::vector<RowRun>& runs,
                 MambaState::Impl& state, float* y, int64_t ldy);

/// Mamba 1. a: [states][channels rounded up to 16]; parameters: rows of ldp with B at `b` and C at `b` +
/// states.
struct SelectiveWeights {
  int64_t channels = 0;
  int64_t states = 0;
  int64_t ld = 0;
  std::vector<float> a, d;
};
void selective_scan(const SelectiveWeights& w, const float* dt, const float* u, const float* parameters,
                    int64_t ldp, int64_t b, const std::vector<RowRun>& runs, MambaState::Impl& state,
                    float* y);

/// Mamba 2. x, B, C: at 0, channels and channels + groups * states of rows of ldx; steps: rows [dt | decay]
/// of 2 * heads.
struct HeadWeights {
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t states = 0;
  int64_t groups = 1;
  std::vector<float> dt_bias, a, d;
  float dt_min = 0.0f, dt_max = 0.0f;
};
void head_steps(const HeadWeights& w, const float* raw, int64_t ldr, int64_t tokens, float* steps);
void head_scan(const HeadWeights& w, const float* x, int64_t ldx, const float* steps,
               const std::vector<RowRun>& runs, MambaState::Impl& state, float* y);

/// Mamba 3. x: rows of ldx; keys: rows [B | C | tanh(angles)] of 2 * rank * groups * states + angles, both
/// normalised; steps: rows [dt | decay | gamma | beta] of 4 * heads. y: rows [rank][channels].
struct TrapezoidWeights {
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t states = 0;
  int64_t groups = 1;
  int64_t rank = 1;
  int64_t angles = 0;
  bool split_pairs = false;
  bool heavy_tail = true;
  float a_floor = 1e-4f;
  std::vector<float> dt_bias, d;
  std::vector<float> b_bias, c_bias;  // [heads][rank][states]
  std::vector<float> mimo_x;          // [heads][rank][head_dim], or empty
};
/// raw: rows of ldr holding dt | A | trap, each `heads` floats.
void trapezoid_steps(const TrapezoidWeights& w, const float* raw, int64_t ldr, int64_t tokens, float* steps);
void trapezoid_scan(const TrapezoidWeights& w, const float* x, int64_t ldx, const float* keys,
                    const float* steps, const std::vector<RowRun>& runs, MambaState::Impl& state, float* y);

/// How a mixer's output meets its gate.
struct GatedNorm {
  bool norm = true;          ///< false: y * silu(z) alone
  bool before_gate = false;  ///< norm(y) * silu(z) instead of norm(y * silu(z))
  int64_t groups = 1;        ///< the norm runs over each of these parts of a row
  float eps = 1e-5f;
  std::vector<float> weight;  // [channels], if norm
};
/// y [tokens, channels], gated by z (rows of ldz), in place; tokens whose sums or results are not finite are
/// recorded and become zeros.
void gate(const GatedNorm& w, const float* z, int64_t ldz, int64_t channels, const TokenBatch& pass, float* y,
          Faults& faults, int64_t layer);

/// Whether x[t*ld .. + width) is finite for all tokens; if not, sanitizes them.
void require_finite(const TokenBatch& pass, float* x, int64_t ld, int64_t width, Faults& faults,
                    int64_t layer, Stage stage);

/// Runs f(first token, count) over pieces of the tokens that are worth a thread.
void over_tokens(int64_t tokens, int64_t floats_per_token, const std::function<void(int64_t, int64_t)>& f);

}  // namespace isobit::ops

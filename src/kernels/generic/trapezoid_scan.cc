// SPDX-License-Identifier: Apache-2.0
// Mamba 3's recurrence of one head (contract 7b.4): the angles of the rotation, biased and rotated keys and
// queries, and the trapezoid's two products a token.
#include "kernels/generic/elementary.h"
#include "kernels/generic/head_scan.h"
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"
#include "kernels/scalar_fma.h"
#include "kernels/trapezoid_constants.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

constexpr int64_t kTrapezoidTokens = 16;  // of a chunk

void trapezoid_steps(const TrapezoidStepArgs& args) {
  for (int64_t h = 0; h < args.heads; h += 16) {
    const int n = static_cast<int>(args.heads - h < 16 ? args.heads - h : 16);
    const f32x16 one = broadcast(1.0f);
    const f32x16 dt = softplus(load_lanes(args.dt_raw + h, n) + load_lanes(args.dt_bias + h, n));
    const f32x16 raw = load_lanes(args.a_raw + h, n);
    const f32x16 size = args.heavy_tail ? select(raw >= zero(), one + raw, one / (one - raw)) : softplus(raw);
    const f32x16 a = min(-size, broadcast(-args.a_floor));
    const f32x16 weight = sigmoid(load_lanes(args.trap + h, n));
    store_lanes(args.dt + h, dt, n);
    store_lanes(args.decay + h, exp(a * dt), n);
    store_lanes(args.gamma + h, weight * dt, n);
    store_lanes(args.beta + h, (one - weight) * dt, n);
  }
}

// x modulo 2 pi; an angle so large that nothing of it is left becomes 0.
ISOBIT_INLINE f32x16 wrap_turn(f32x16 x) {
  const f32x16 turns = x / broadcast(kTurnHi);
  const f32x16 size = abs(turns);
  const f32x16 big = broadcast(0x1p23f);
  f32x16 whole = select(size >= big, size, (size + big) - big);
  whole = select(turns < zero(), -whole, whole);
  whole = select(whole > turns, whole - broadcast(1.0f), whole);
  const f32x16 rest = fnma(whole, broadcast(kTurnLo), fnma(whole, broadcast(kTurnHi), x));
  return select(abs(rest) >= broadcast(kTurnLimit), zero(), rest);
}

// y = x + bias, then its pairs turned by (cos, sin).
static inline void bias_and_turn(const TrapezoidScanArgs& args, const float* x, const float* bias,
                                 const float* cos, const float* sin, float* y) {
  for (int64_t n = 0; n < args.states; n += 16) {
    const int lanes = static_cast<int>(args.states - n < 16 ? args.states - n : 16);
    store_lanes(y + n, load_lanes(x + n, lanes) + load_lanes(bias + n, lanes), lanes);
  }
  const int64_t half = args.states / 2;
  if (args.split_pairs) {
    for (int64_t j = 0; j < args.angles; j += 16) {
      const int lanes = static_cast<int>(args.angles - j < 16 ? args.angles - j : 16);
      const f32x16 u = load_lanes(y + j, lanes), v = load_lanes(y + half + j, lanes);
      const f32x16 c = load_lanes(cos + j, lanes), s = load_lanes(sin + j, lanes);
      store_lanes(y + j, fma(u, c, -(v * s)), lanes);
      store_lanes(y + half + j, fma(v, c, u * s), lanes);
    }
    return;
  }
  for (int64_t j = 0; j < args.angles; ++j) {
    const float u = y[2 * j], v = y[2 * j + 1];
    y[2 * j] = scalar_fma(u, cos[j], -(v * sin[j]));
    y[2 * j + 1] = scalar_fma(v, cos[j], u * sin[j]);
  }
}

// What a chunk works in: parts of args.scratch.
struct TrapezoidScratch {
  float* theta;    // [kMaxStates / 2]
  float* cos;      // the same
  float* sin;      // the same
  float* k;        // [1 + kTrapezoidTokens][rank][states]: the first is the token before the chunk
  float* q;        // [kTrapezoidTokens][rank][states]
  float* x;        // [kTrapezoidTokens][rank][kHeadWidth]: the input of each rank
  float* v;        // the same: its weighted part
  float* carried;  // the same: the previous token's
  float* y;        // the same

  TrapezoidScratch(float* p, int64_t states, int64_t rank) {
    const int64_t angles = kMaxStates / 2, keys = rank * states, rows = kTrapezoidTokens * rank * kHeadWidth;
    theta = p, p += angles;
    cos = p, p += angles;
    sin = p, p += angles;
    x = p, p += rows;
    v = p, p += rows;
    carried = p, p += rows;
    y = p, p += rows;
    q = p, p += kTrapezoidTokens * keys;
    k = p;
  }
};

int64_t trapezoid_scratch(int64_t states, int64_t rank) {
  return 3 * (kMaxStates / 2) + 4 * kTrapezoidTokens * rank * kHeadWidth +
         (2 * kTrapezoidTokens + 1) * rank * states;
}

// Keys and queries of tokens [first, first + tokens).
static inline void turn_chunk(const TrapezoidScanArgs& args, int64_t first, int64_t tokens,
                              const TrapezoidScratch& w) {
  const int64_t keys = args.rank * args.states;
  for (int64_t t = 0; t < tokens; ++t) {
    const float* spin = args.spin + (first + t) * args.lds;
    const f32x16 dt = broadcast(args.dt[(first + t) * args.ldt]);
    for (int64_t j = 0; j < args.angles; j += 16) {
      const int n = static_cast<int>(args.angles - j < 16 ? args.angles - j : 16);
      const f32x16 step = (load_lanes(spin + j, n) * broadcast(kHalfTurn)) * dt;
      const f32x16 theta = wrap_turn(load(w.theta + j) + step);
      store(w.theta + j, theta);
      store(w.cos + j, cos(theta));
      store(w.sin + j, sin(theta));
    }
    for (int64_t r = 0; r < args.rank; ++r) {
      const int64_t at = (first + t) * args.ldbc + r * args.rank_stride, bias = r * args.states;
      bias_and_turn(args, args.b + at, args.b_bias + bias, w.cos, w.sin, w.k + (t + 1) * keys + bias);
      bias_and_turn(args, args.c + at, args.c_bias + bias, w.cos, w.sin, w.q + t * keys + bias);
    }
  }
}

// Channels [from, from + 16*VECS) of the chunk; `channels` of them exist. `before` is the input of the token
// before the chunk.
template <int VECS>
static inline void trapezoid_block(const TrapezoidScanArgs& args, int64_t first, int64_t tokens, int64_t from,
                                   int64_t channels, const float* before, const float* h_in,
                                   const TrapezoidScratch& w) {
  const int64_t ldh = (args.head_dim + 15) / 16 * 16, keys = args.rank * args.states;
  const auto lanes = [channels](int c) {
    return static_cast<int>(channels - 16 * c < 16 ? channels - 16 * c : 16);
  };
  for (int64_t t = 0; t < tokens; ++t) {
    const float* x = args.x + (first + t) * args.ldx + from;
    const float* last = t == 0 ? before + from : x - args.ldx;
    const f32x16 gamma = broadcast(args.gamma[(first + t) * args.ldt]);
    const f32x16 beta = broadcast(args.beta[(first + t) * args.ldt]);
    for (int64_t r = 0; r < args.rank; ++r)
      for (int c = 0; c < VECS; ++c) {
        const int64_t at = (t * args.rank + r) * kHeadWidth + 16 * c;
        f32x16 input = load_lanes(x + 16 * c, lanes(c)), previous = load_lanes(last + 16 * c, lanes(c));
        if (args.mimo_x) {
          const f32x16 mix = load_lanes(args.mimo_x + r * args.head_dim + from + 16 * c, lanes(c));
          input = input * mix;
          previous = previous * mix;
        }
        store(w.x + at, input);
        store(w.v + at, gamma * input);
        store(w.carried + at, beta * previous);
        store(w.y + at, zero());
      }
  }
  const HeadChunk chunk = {.tokens = tokens,
                           .rank = args.rank,
                           .decay = args.decay + first * args.ldt,
                           .ld_decay = args.ldt,
                           .k = w.k + keys,
                           .q = w.q,
                           .ldk = keys,
                           .rank_stride = args.states,
                           .v = w.v,
                           .carried = w.carried,
                           .y = w.y};
  if (args.rank == 1)
    head_chunk<VECS, 1, true>(chunk, args.states, h_in + from, args.h_out + from, ldh);
  else
    head_chunk<VECS, 0, true>(chunk, args.states, h_in + from, args.h_out + from, ldh);
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t r = 0; r < args.rank; ++r)
      for (int c = 0; c < VECS; ++c) {
        const int64_t at = (t * args.rank + r) * kHeadWidth + 16 * c;
        store_lanes(args.y + (first + t) * args.ldy + r * args.ldr + from + 16 * c,
                    fma(broadcast(args.d), load(w.x + at), load(w.y + at) + zero()), lanes(c));
      }
}

static inline void copy_floats(const float* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

void trapezoid_scan(const TrapezoidScanArgs& args) {
  const TrapezoidScratch w(args.scratch, args.states, args.rank);
  const int64_t keys = args.rank * args.states;
  for (int64_t j = 0; j < kMaxStates / 2; ++j) w.theta[j] = j < args.angles ? args.theta_in[j] : 0.0f;
  copy_floats(args.k_in, keys, w.k);
  const float* before = args.v_in;
  const float* h_in = args.h_in;
  for (int64_t first = 0; first < args.tokens; first += kTrapezoidTokens) {
    const int64_t rest = args.tokens - first;
    const int64_t tokens = rest < kTrapezoidTokens ? rest : kTrapezoidTokens;
    turn_chunk(args, first, tokens, w);
    int64_t from = 0;
    for (; from + kHeadWidth <= args.head_dim; from += kHeadWidth)
      trapezoid_block<kHeadVecs>(args, first, tokens, from, kHeadWidth, before, h_in, w);
    for (; from < args.head_dim; from += 16)
      trapezoid_block<1>(args, first, tokens, from, args.head_dim - from < 16 ? args.head_dim - from : 16,
                         before, h_in, w);
    copy_floats(w.k + tokens * keys, keys, w.k);
    before = args.x + (first + tokens - 1) * args.ldx;
    h_in = args.h_out;
  }
  copy_floats(w.theta, args.angles, args.theta_out);
  copy_floats(w.k, keys, args.k_out);
  copy_floats(before, args.head_dim, args.v_out);
}

void mimo_gate(const float* y, int64_t ldr, const float* gate, const float* mix_gate, const float* mix_out,
               int64_t rank, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i += 16) {
    const int lanes = static_cast<int>(n - i < 16 ? n - i : 16);
    const f32x16 z = load_lanes(gate + i, lanes);
    f32x16 acc = zero();
    for (int64_t r = 0; r < rank; ++r) {
      const f32x16 gated =
          silu(z * load_lanes(mix_gate + r * n + i, lanes)) * load_lanes(y + r * ldr + i, lanes);
      acc = fma(gated, load_lanes(mix_out + r * n + i, lanes), acc);
    }
    store_lanes(out + i, acc + zero(), lanes);
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

// SPDX-License-Identifier: Apache-2.0
#include "ops/state_space.h"

#include <algorithm>
#include <atomic>

#include "backends/cpu/thread_pool.h"
#include "core/aligned_buffer.h"
#include "core/profile.h"
#include "kernels/table.h"

namespace isobit::ops {
namespace {

using State = MambaState::Impl;

// Runs unit(run, index) for every row of the pass and every index of [0, n).
template <typename Unit>
void by_row(const std::vector<RowRun>& runs, int64_t n, const Unit& unit) {
  cpu::parallel_for(static_cast<int64_t>(runs.size()) * n,
                    [&](int64_t i) { unit(runs[static_cast<size_t>(i / n)], i % n); });
}

// A section as a run of tokens meets it: first the state before, then what the run itself has written.
class Carried {
 public:
  Carried(State& state, int64_t row, int section, int64_t offset)
      : in_(state.source(row, section) + offset), out_(state.target(row, section) + offset) {}
  const float* in() const { return in_; }
  float* out() const { return out_; }
  void written() { in_ = out_; }

 private:
  const float* in_;
  float* out_;
};

}  // namespace

std::vector<RowRun> runs_of(const TokenBatch& pass) {
  std::vector<RowRun> runs;
  for (const Segment& s : pass.segments) {
    auto run = std::find_if(runs.begin(), runs.end(), [&](const RowRun& r) { return r.row == s.row; });
    if (run == runs.end()) run = runs.insert(runs.end(), RowRun{s.row, {}});
    run->segments.push_back(s);
  }
  return runs;
}

ConvWeights make_conv(const std::vector<float>& weight, const std::vector<float>& bias, int64_t channels,
                      int64_t width) {
  ConvWeights w{channels, width, (channels + 15) / 16 * 16, {}, bias};
  w.taps.resize(static_cast<size_t>(w.ld * width));
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t j = 0; j < width; ++j)
      w.taps[static_cast<size_t>(j * w.ld + c)] = weight[static_cast<size_t>(c * width + j)];
  return w;
}

void causal_conv(const ConvWeights& w, const float* x, int64_t ldx, const std::vector<RowRun>& runs,
                 State& state, float* y, int64_t ldy) {
  const StageTimer timer("convolution");
  constexpr int64_t kChannels = 256;
  const kernels::KernelTable& table = kernels::active_table();
  by_row(runs, (w.channels + kChannels - 1) / kChannels, [&](const RowRun& run, int64_t block) {
    const int64_t c = block * kChannels;
    Carried window(state, run.row, State::kWindow, c);
    for (const Segment& s : run.segments) {
      table.causal_conv({.x = x + s.offset * ldx + c,
                         .ldx = ldx,
                         .tokens = s.count,
                         .channels = std::min(kChannels, w.channels - c),
                         .width = w.width,
                         .w = w.taps.data() + c,
                         .bias = w.bias.empty() ? nullptr : w.bias.data() + c,
                         .window_in = window.in(),
                         .window_out = window.out(),
                         .ldw = w.ld,
                         .y = y + s.offset * ldy + c,
                         .ldy = ldy});
      window.written();
    }
  });
}

void selective_scan(const SelectiveWeights& w, const float* dt, const float* u, const float* parameters,
                    int64_t ldp, int64_t b, const std::vector<RowRun>& runs, State& state, float* y) {
  const StageTimer timer("recurrence");
  constexpr int64_t kChannels = 64;
  const kernels::KernelTable& table = kernels::active_table();
  by_row(runs, (w.channels + kChannels - 1) / kChannels, [&](const RowRun& run, int64_t block) {
    const int64_t c = block * kChannels;
    Carried h(state, run.row, State::kH, c);
    for (const Segment& s : run.segments) {
      const int64_t at = s.offset * w.channels + c;
      table.selective_scan({.tokens = s.count,
                            .channels = std::min(kChannels, w.channels - c),
                            .states = w.states,
                            .dt = dt + at,
                            .ldt = w.channels,
                            .u = u + at,
                            .ldu = w.channels,
                            .b = parameters + s.offset * ldp + b,
                            .c = parameters + s.offset * ldp + b + w.states,
                            .ldbc = ldp,
                            .a = w.a.data() + c,
                            .d = w.d.data() + c,
                            .h_in = h.in(),
                            .h_out = h.out(),
                            .ldh = w.ld,
                            .y = y + at,
                            .ldy = w.channels});
      h.written();
    }
  });
}

void head_steps(const HeadWeights& w, const float* raw, int64_t ldr, int64_t tokens, float* steps) {
  const StageTimer timer("step sizes");
  const kernels::KernelTable& table = kernels::active_table();
  over_tokens(tokens, w.heads, [&](int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t) {
      float* out = steps + t * 2 * w.heads;
      table.head_steps(raw + t * ldr, w.dt_bias.data(), w.a.data(), w.heads, w.dt_min, w.dt_max, out,
                       out + w.heads);
    }
  });
}

void head_scan(const HeadWeights& w, const float* x, int64_t ldx, const float* steps,
               const std::vector<RowRun>& runs, State& state, float* y) {
  const StageTimer timer("recurrence");
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t channels = w.heads * w.head_dim, head_floats = w.states * ((w.head_dim + 15) / 16 * 16);
  by_row(runs, w.heads, [&](const RowRun& run, int64_t head) {
    const int64_t group = head / (w.heads / w.groups);
    Carried h(state, run.row, State::kH, head * head_floats);
    for (const Segment& s : run.segments) {
      const float* in = x + s.offset * ldx;
      const float* step = steps + s.offset * 2 * w.heads + head;
      table.head_scan({.tokens = s.count,
                       .head_dim = w.head_dim,
                       .states = w.states,
                       .x = in + head * w.head_dim,
                       .ldx = ldx,
                       .dt = step,
                       .decay = step + w.heads,
                       .ldt = 2 * w.heads,
                       .b = in + channels + group * w.states,
                       .c = in + channels + (w.groups + group) * w.states,
                       .ldbc = ldx,
                       .d = w.d[static_cast<size_t>(head)],
                       .h_in = h.in(),
                       .h_out = h.out(),
                       .y = y + s.offset * channels + head * w.head_dim,
                       .ldy = channels});
      h.written();
    }
  });
}

void trapezoid_steps(const TrapezoidWeights& w, const float* raw, int64_t ldr, int64_t tokens, float* steps) {
  const StageTimer timer("step sizes");
  const kernels::KernelTable& table = kernels::active_table();
  over_tokens(tokens, w.heads, [&](int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t) {
      const float* in = raw + t * ldr;
      float* out = steps + t * 4 * w.heads;
      table.trapezoid_steps({.dt_raw = in,
                             .a_raw = in + w.heads,
                             .trap = in + 2 * w.heads,
                             .dt_bias = w.dt_bias.data(),
                             .heads = w.heads,
                             .heavy_tail = w.heavy_tail,
                             .a_floor = w.a_floor,
                             .dt = out,
                             .decay = out + w.heads,
                             .gamma = out + 2 * w.heads,
                             .beta = out + 3 * w.heads});
    }
  });
}

void trapezoid_scan(const TrapezoidWeights& w, const float* x, int64_t ldx, const float* keys,
                    const float* steps, const std::vector<RowRun>& runs, State& state, float* y) {
  const StageTimer timer("recurrence");
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t channels = w.heads * w.head_dim, head_floats = w.states * ((w.head_dim + 15) / 16 * 16);
  const int64_t head_keys = w.rank * w.states, all_keys = w.rank * w.groups * w.states;
  const int64_t ldk = 2 * all_keys + w.angles;
  by_row(runs, w.heads, [&](const RowRun& run, int64_t head) {
    thread_local AlignedBuffer scratch;
    const int64_t group = head / (w.heads / w.groups);
    Carried theta(state, run.row, State::kTheta, head * w.angles);
    Carried h(state, run.row, State::kH, head * head_floats);
    Carried k(state, run.row, State::kK, head * head_keys);
    Carried v(state, run.row, State::kV, head * w.head_dim);
    for (const Segment& s : run.segments) {
      const float* step = steps + s.offset * 4 * w.heads + head;
      const float* key = keys + s.offset * ldk;
      table.trapezoid_scan(
          {.tokens = s.count,
           .head_dim = w.head_dim,
           .states = w.states,
           .rank = w.rank,
           .angles = w.angles,
           .split_pairs = w.split_pairs,
           .x = x + s.offset * ldx + head * w.head_dim,
           .ldx = ldx,
           .mimo_x = w.mimo_x.empty() ? nullptr : w.mimo_x.data() + head * w.rank * w.head_dim,
           .dt = step,
           .decay = step + w.heads,
           .gamma = step + 2 * w.heads,
           .beta = step + 3 * w.heads,
           .ldt = 4 * w.heads,
           .spin = key + 2 * all_keys,
           .lds = ldk,
           .b = key + group * w.states,
           .c = key + all_keys + group * w.states,
           .ldbc = ldk,
           .rank_stride = w.groups * w.states,
           .b_bias = w.b_bias.data() + head * head_keys,
           .c_bias = w.c_bias.data() + head * head_keys,
           .d = w.d[static_cast<size_t>(head)],
           .theta_in = theta.in(),
           .theta_out = theta.out(),
           .h_in = h.in(),
           .h_out = h.out(),
           .k_in = k.in(),
           .k_out = k.out(),
           .v_in = v.in(),
           .v_out = v.out(),
           .y = y + s.offset * w.rank * channels + head * w.head_dim,
           .ldy = w.rank * channels,
           .ldr = channels,
           .scratch = scratch.at_least(table.trapezoid_scratch(w.states, w.rank))});
      for (Carried* part : {&theta, &h, &k, &v}) part->written();
    }
  });
}

void over_tokens(int64_t tokens, int64_t floats_per_token, const std::function<void(int64_t, int64_t)>& f) {
  constexpr int64_t kPieceFloats = 1 << 14;
  const int64_t piece = std::max<int64_t>(1, kPieceFloats / floats_per_token);
  cpu::parallel_for((tokens + piece - 1) / piece,
                    [&](int64_t i) { f(i * piece, std::min(piece, tokens - i * piece)); });
}

void require_finite(const TokenBatch& pass, float* x, int64_t ld, int64_t width, Faults& faults,
                    int64_t layer, Stage stage) {
  const kernels::KernelTable& table = kernels::active_table();
  std::atomic<bool> finite{true};
  over_tokens(pass.tokens, width, [&](int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t)
      if (table.first_nonfinite(x + t * ld, width) != width) finite = false;
  });
  if (!finite) faults.sanitize(pass, layer, stage, x, ld, width);
}

void gate(const GatedNorm& w, const float* z, int64_t ldz, int64_t channels, const TokenBatch& pass, float* y,
          Faults& faults, int64_t layer) {
  const StageTimer timer("gate");
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t part = channels / w.groups;
  std::vector<uint8_t> bad(static_cast<size_t>(pass.tokens), 0);
  over_tokens(pass.tokens, channels, [&](int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t) {
      float* row = y + t * channels;
      const auto gated = [&] { table.activate(kernels::Activation::kSilu, z + t * ldz, row, channels, row); };
      if (!w.before_gate) gated();
      bool finite = true;
      for (int64_t g = 0; w.norm && g < w.groups; ++g) {
        float* at = row + g * part;
        finite = table.rms_norm(at, part, 1, part, w.weight.data() + g * part, w.eps, false, at, part) == 1 &&
                 finite;
      }
      if (w.before_gate) gated();
      bad[static_cast<size_t>(t)] = !finite || table.first_nonfinite(row, channels) != channels;
    }
  });
  for (int64_t t = 0; t < pass.tokens; ++t) {
    if (bad[static_cast<size_t>(t)] == 0) continue;
    faults.record(pass.segment_of(t).row, pass.position_of(t), layer, Stage::kSsmGate);
    std::fill_n(y + t * channels, channels, 0.0f);
  }
}

}  // namespace isobit::ops

// SPDX-License-Identifier: Apache-2.0
// The kernels of state-space layers equal the reference bit for bit under every instruction set, at shapes
// around their tiles, and touch nothing beyond their arrays.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/table.h"
#include "support/bits.h"
#include "support/guarded.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

using kernels::KernelTable;

int64_t round_up(int64_t n) { return (n + 15) / 16 * 16; }

// Runs call(table, out) for the reference and every table and compares all floats of the outputs.
template <typename Call>
void compare(int64_t floats, const Call& call) {
  std::vector<float> expected(static_cast<size_t>(floats), 7.0f);
  call(kernels::reference_table(), expected.data());
  for (const KernelTable* table : kernels::available_tables()) {
    SCOPED_TRACE(table->isa);
    Guarded got(floats);
    got.fill(7.0f);
    call(*table, got.data());
    EXPECT_TRUE(same_bits(got.all(), expected));
  }
}

TEST(StateSpaceKernels, CausalConv) {
  Random random(1);
  for (const int64_t channels : {1, 15, 16, 17, 70})
    for (const int64_t width : {1, 2, 4, 7})
      for (const int64_t tokens : {1, 3, 9}) {
        const int64_t ld = round_up(channels);
        const Guarded x(random.units(tokens * channels, 2.0f)), w(random.units(width * ld)),
            bias(random.units(channels)), window(random.units(width * ld, 2.0f));
        const bool biased = random.coin();
        compare(tokens * channels + width * ld, [&](const KernelTable& table, float* out) {
          table.causal_conv({.x = x.data(),
                             .ldx = channels,
                             .tokens = tokens,
                             .channels = channels,
                             .width = width,
                             .w = w.data(),
                             .bias = biased ? bias.data() : nullptr,
                             .window_in = window.data(),
                             .window_out = out,
                             .ldw = ld,
                             .y = out + width * ld,
                             .ldy = channels});
        });
      }
}

TEST(StateSpaceKernels, SelectiveScan) {
  Random random(2);
  for (const int64_t channels : {1, 16, 33})
    for (const int64_t states : {1, 7, 8, 9, 16})
      for (const int64_t tokens : {1, 31, 32, 65}) {
        const int64_t ld = round_up(channels);
        std::vector<float> a = random.units(states * ld, 3.0f), steps = random.units(tokens * channels);
        for (float& v : a) v = v > 0 ? -v : v;
        for (float& v : steps) v = v < 0 ? -v : v;
        const Guarded u(random.units(tokens * channels)), bc(random.units(tokens * 2 * states)),
            d(random.units(channels)), h(random.units(states * ld)), dt(steps);
        compare(tokens * channels + states * ld, [&](const KernelTable& table, float* out) {
          table.selective_scan({.tokens = tokens,
                                .channels = channels,
                                .states = states,
                                .dt = dt.data(),
                                .ldt = channels,
                                .u = u.data(),
                                .ldu = channels,
                                .b = bc.data(),
                                .c = bc.data() + states,
                                .ldbc = 2 * states,
                                .a = a.data(),
                                .d = d.data(),
                                .h_in = h.data(),
                                .h_out = out,
                                .ldh = ld,
                                .y = out + states * ld,
                                .ldy = channels});
          // Channels that do not exist carry whatever: they are nobody's.
          for (int64_t n = 0; n < states; ++n)
            for (int64_t e = channels; e < ld; ++e) out[n * ld + e] = 0.0f;
        });
      }
}

TEST(StateSpaceKernels, HeadSteps) {
  Random random(3);
  for (const int64_t heads : {1, 16, 21}) {
    const Guarded raw(random.units(heads, 30.0f)), bias(random.units(heads, 3.0f)),
        a(random.units(heads, 5.0f));
    compare(2 * heads, [&](const KernelTable& table, float* out) {
      table.head_steps(raw.data(), bias.data(), a.data(), heads, 0.25f, 9.0f, out, out + heads);
    });
  }
}

TEST(StateSpaceKernels, HeadScan) {
  Random random(4);
  for (const int64_t head_dim : {1, 16, 20, 64, 80, 128})
    for (const int64_t states : {1, 3, 4, 18, 128})
      for (const int64_t tokens : {1, 32, 45}) {
        const int64_t ld = round_up(head_dim), width = head_dim + 2 * states;
        std::vector<float> begin = random.units(states * ld);
        for (int64_t n = 0; n < states; ++n)
          for (int64_t p = head_dim; p < ld; ++p) begin[static_cast<size_t>(n * ld + p)] = 0.0f;
        const Guarded x(random.units(tokens * width)), steps(random.units(tokens * 2)), h(begin);
        compare(states * ld + tokens * head_dim, [&](const KernelTable& table, float* out) {
          std::fill_n(out, states * ld, 0.0f);
          table.head_scan({.tokens = tokens,
                           .head_dim = head_dim,
                           .states = states,
                           .x = x.data(),
                           .ldx = width,
                           .dt = steps.data(),
                           .decay = steps.data() + 1,
                           .ldt = 2,
                           .b = x.data() + head_dim,
                           .c = x.data() + head_dim + states,
                           .ldbc = width,
                           .d = 0.7f,
                           .h_in = h.data(),
                           .h_out = out,
                           .y = out + states * ld,
                           .ldy = head_dim});
          for (int64_t n = 0; n < states; ++n)
            for (int64_t p = head_dim; p < ld; ++p) EXPECT_EQ(out[n * ld + p], 0.0f);
          for (int64_t i = 0; i < states * ld; ++i) out[i] = out[i] + 0.0f;
        });
      }
}

TEST(StateSpaceKernels, TrapezoidSteps) {
  Random random(5);
  for (const int64_t heads : {1, 16, 21})
    for (const bool heavy : {true, false}) {
      const Guarded raw(random.units(3 * heads, 40.0f)), bias(random.units(heads, 3.0f));
      compare(4 * heads, [&](const KernelTable& table, float* out) {
        table.trapezoid_steps({.dt_raw = raw.data(),
                               .a_raw = raw.data() + heads,
                               .trap = raw.data() + 2 * heads,
                               .dt_bias = bias.data(),
                               .heads = heads,
                               .heavy_tail = heavy,
                               .a_floor = 1e-4f,
                               .dt = out,
                               .decay = out + heads,
                               .gamma = out + 2 * heads,
                               .beta = out + 3 * heads});
      });
    }
}

void check_trapezoid(Random& random, int64_t head_dim, int64_t states, int64_t rank, int64_t angles,
                     bool split, int64_t tokens, float dt_scale) {
  SCOPED_TRACE(std::to_string(head_dim) + " x " + std::to_string(states) + ", rank " + std::to_string(rank));
  const int64_t ld = round_up(head_dim), keys = rank * states, row = 2 * keys + angles;
  std::vector<float> begin = random.units(states * ld), steps = random.units(tokens * 4);
  for (int64_t n = 0; n < states; ++n)
    for (int64_t p = head_dim; p < ld; ++p) begin[static_cast<size_t>(n * ld + p)] = 0.0f;
  for (size_t i = 0; i < steps.size(); i += 4) steps[i] = std::abs(steps[i]) * dt_scale;
  const Guarded x(random.units(tokens * head_dim)), key(random.units(tokens * row)), dt(steps), h(begin),
      mix(random.units(rank * head_dim)), bias(random.units(2 * keys)), theta(random.units(angles, 6.0f)),
      k(random.units(keys)), v(random.units(head_dim));
  const int64_t outputs = tokens * rank * head_dim;
  compare(states * ld + angles + keys + head_dim + outputs, [&](const KernelTable& table, float* out) {
    std::fill_n(out, states * ld, 0.0f);
    std::vector<float> scratch(static_cast<size_t>(table.trapezoid_scratch(states, rank)) + 16);
    float* rest = out + states * ld;
    table.trapezoid_scan({.tokens = tokens,
                          .head_dim = head_dim,
                          .states = states,
                          .rank = rank,
                          .angles = angles,
                          .split_pairs = split,
                          .x = x.data(),
                          .ldx = head_dim,
                          .mimo_x = rank > 1 ? mix.data() : nullptr,
                          .dt = dt.data(),
                          .decay = dt.data() + 1,
                          .gamma = dt.data() + 2,
                          .beta = dt.data() + 3,
                          .ldt = 4,
                          .spin = key.data() + 2 * keys,
                          .lds = row,
                          .b = key.data(),
                          .c = key.data() + keys,
                          .ldbc = row,
                          .rank_stride = states,
                          .b_bias = bias.data(),
                          .c_bias = bias.data() + keys,
                          .d = -0.4f,
                          .theta_in = theta.data(),
                          .theta_out = rest,
                          .h_in = h.data(),
                          .h_out = out,
                          .k_in = k.data(),
                          .k_out = rest + angles,
                          .v_in = v.data(),
                          .v_out = rest + angles + keys,
                          .y = rest + angles + keys + head_dim,
                          .ldy = rank * head_dim,
                          .ldr = head_dim,
                          .scratch = scratch.data()});
    for (int64_t i = 0; i < states * ld; ++i) out[i] = out[i] + 0.0f;
  });
}

TEST(StateSpaceKernels, TrapezoidScan) {
  Random random(6);
  for (const int64_t head_dim : {16, 20, 64, 96})
    for (const int64_t states : {2, 18, 128})
      for (const int64_t tokens : {1, 16, 35})
        for (const int64_t rank : {1, 3})
          check_trapezoid(random, head_dim, states, rank, random.in(1, states / 2), random.coin(), tokens,
                          3.0f);
  check_trapezoid(random, 16, 32, 1, 16, false, 20, 1e6f);
  check_trapezoid(random, 16, 32, 1, 16, false, 20, 1e30f);
}

TEST(StateSpaceKernels, MimoGate) {
  Random random(7);
  for (const int64_t n : {1, 16, 50})
    for (const int64_t rank : {1, 4}) {
      const Guarded y(random.units(rank * n)), z(random.units(n, 9.0f)), mixes(random.units(2 * rank * n));
      compare(n, [&](const KernelTable& table, float* out) {
        table.mimo_gate(y.data(), n, z.data(), mixes.data(), mixes.data() + rank * n, rank, n, out);
      });
    }
}

}  // namespace
}  // namespace isobit::testing

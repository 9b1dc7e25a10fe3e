// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <algorithm>
#include <atomic>

#include "backends/cpu/thread_pool.h"
#include "core/aligned_buffer.h"
#include "core/profile.h"
#include "kernels/table.h"

namespace isobit::ops {
namespace {

// Head norm and rotation of one token's [q | k | v]; returns the first stage with a non-finite value, or
// kScores.
Stage rotate_token(const HeadShape& shape, const HeadNorm& norm, const RopeTable* rope, int64_t position,
                   float* qkv) {
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t hd = shape.head_dim;
  float* keys = qkv + shape.heads * hd;
  if (!norm.query.empty()) {
    if (table.rms_norm(qkv, hd, shape.heads, hd, norm.query.data(), norm.eps, norm.offset, qkv, hd) !=
        shape.heads)
      return Stage::kQueryNorm;
    if (table.rms_norm(keys, hd, shape.kv_heads, hd, norm.key.data(), norm.eps, norm.offset, keys, hd) !=
        shape.kv_heads)
      return Stage::kKeyNorm;
  }
  const int64_t both = shape.heads + shape.kv_heads;
  if (rope) table.rope(qkv, both, hd, rope->half(), rope->cos_row(position), rope->sin_row(position));
  return table.first_nonfinite(qkv, both * hd) == both * hd ? Stage::kScores : Stage::kRotary;
}

}  // namespace

void rotate_and_cache(const HeadShape& shape, const HeadNorm& norm, const RopeTable* rope, float* qkv,
                      const TokenBatch& pass, KvCache& cache, Faults& faults, int64_t layer) {
  const StageTimer timer("rotate and cache");
  constexpr int64_t kTokens = 16;  // of one unit: a panel of keys
  const int64_t hd = shape.head_dim, width = shape.width();
  std::vector<Stage> stages(static_cast<size_t>(pass.tokens), Stage::kScores);
  cpu::parallel_for((pass.tokens + kTokens - 1) / kTokens, [&](int64_t unit) {
    for (int64_t t = unit * kTokens; t < std::min((unit + 1) * kTokens, pass.tokens); ++t) {
      const Segment& segment = pass.segment_of(t);
      const int64_t position = segment.pos0 + t - segment.offset;
      float* x = qkv + t * width;
      Stage& stage = stages[static_cast<size_t>(t)];
      stage = rotate_token(shape, norm, rope, position, x);
      if (stage != Stage::kScores) std::fill_n(x, width, 0.0f);
      const float* keys = x + shape.heads * hd;
      const float* values = keys + shape.kv_heads * hd;
      for (int64_t h = 0; h < shape.kv_heads; ++h)
        cache.write(segment.row, h, position, keys + h * hd, values + h * hd);
    }
  });
  for (int64_t t = 0; t < pass.tokens; ++t)
    if (const Stage stage = stages[static_cast<size_t>(t)]; stage != Stage::kScores)
      faults.record(pass.segment_of(t).row, pass.position_of(t), layer, stage);
}

void attention(const HeadShape& shape, const AttentionOptions& options, const float* qkv,
               const TokenBatch& pass, const KvCache& cache, float* out, Faults& faults, int64_t layer) {
  const StageTimer timer("attention");
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t hd = shape.head_dim, width = shape.width(), out_width = shape.heads * hd;
  const int64_t group = shape.heads / shape.kv_heads;
  const int64_t step =
      std::max<int64_t>(1, 48 / group);  // positions of a unit: four register tiles of query rows
  struct Unit {
    const Segment* segment;
    int64_t first;  // token of the segment
    int64_t head;
    int64_t bad;  // smallest position with a non-finite score
  };
  std::vector<Unit> units;
  for (const Segment& s : pass.segments)
    for (int64_t first = (s.count - 1) / step * step; first >= 0; first -= step)  // the longest rows first
      for (int64_t head = 0; head < shape.kv_heads; ++head) units.push_back({&s, first, head, INT64_MAX});

  std::atomic<bool> finite{true};
  cpu::parallel_for(static_cast<int64_t>(units.size()), [&](int64_t i) {
    Unit& u = units[static_cast<size_t>(i)];
    thread_local AlignedBuffer scratch;
    const int64_t t = u.segment->offset + u.first;
    const int64_t n = std::min(step, u.segment->count - u.first);
    float* y = out + t * out_width + u.head * group * hd;
    u.bad = table.attention({.q = qkv + t * width + u.head * group * hd,
                             .ldq = width,
                             .k = cache.keys(u.segment->row, u.head),
                             .v = cache.values(u.segment->row, u.head),
                             .slots = cache.slots(),
                             .head_dim = hd,
                             .group = group,
                             .pos0 = u.segment->pos0 + u.first,
                             .n_pos = n,
                             .window = options.window,
                             .scale = options.scale,
                             .softcap = options.softcap,
                             .out = y,
                             .ldo = out_width,
                             .scratch = scratch.at_least(table.attention_scratch(hd))});
    for (int64_t p = 0; p < n; ++p)
      if (table.first_nonfinite(y + p * out_width, group * hd) != group * hd) finite = false;
  });
  for (const Unit& u : units)
    if (u.bad != INT64_MAX) faults.record(u.segment->row, u.bad, layer, Stage::kScores);
  if (!finite) faults.sanitize(pass, layer, Stage::kAttention, out, out_width, out_width);
}

}  // namespace isobit::ops

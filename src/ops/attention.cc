// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <algorithm>
#include <atomic>
#include <utility>

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

namespace {

// Query rows that go through a kernel together: some consecutive positions of a segment, one kv head.
struct Rows {
  const Segment* segment;
  int64_t first;  // token of the segment
  int64_t count;  // positions
  int64_t head;
  int64_t first_block, blocks;  // of 256 keys, what the rows see
  float* nodes = nullptr;       // of each block, where the blocks are attended apart
};

std::vector<Rows> cut(const HeadShape& shape, const TokenBatch& pass, int64_t window) {
  // Positions: four register tiles of query rows.
  const int64_t step = std::max<int64_t>(1, 48 / (shape.heads / shape.kv_heads));
  std::vector<Rows> all;
  for (const Segment& s : pass.segments)
    for (int64_t first = (s.count - 1) / step * step; first >= 0; first -= step) {  // the longest rows first
      const int64_t count = std::min(step, s.count - first), pos0 = s.pos0 + first;
      const int64_t low = window > 0 ? std::max<int64_t>(0, pos0 - window + 1) : 0;
      const int64_t block = low / kernels::kBlock, end = (pos0 + count - 1) / kernels::kBlock + 1;
      for (int64_t head = 0; head < shape.kv_heads; ++head)
        all.push_back({&s, first, count, head, block, end - block});
    }
  return all;
}

// What one thread does at a time: rows over all that they see, or over one block.
struct Unit {
  const Rows* rows;
  int64_t block;
  int64_t bad = INT64_MAX;  // smallest position with a non-finite score
};

// Rows that are too few for the threads are cut along the sequence as well, at the leaves of the contract's
// tree: a sequence that decodes has only as many Rows as kv heads.
std::vector<Unit> cut_to_units(std::vector<Rows>& all, int64_t node_floats, AlignedBuffer& nodes) {
  const int threads = cpu::thread_count();
  const bool split = threads > 1 && static_cast<int64_t>(all.size()) < 4 * threads && all.front().blocks > 1;
  int64_t floats = 0;
  if (split)
    for (const Rows& r : all) floats += r.blocks * r.count * node_floats;
  float* next = nodes.at_least(floats);
  std::vector<Unit> units;
  for (Rows& r : all) {
    if (split) r.nodes = std::exchange(next, next + r.blocks * r.count * node_floats);
    for (int64_t i = 0; i < (split ? r.blocks : 1); ++i) units.push_back({&r, r.first_block + i});
  }
  return units;
}

}  // namespace

void attention(const HeadShape& shape, const AttentionOptions& options, const float* qkv,
               const TokenBatch& pass, const KvCache& cache, float* out, Faults& faults, int64_t layer) {
  const StageTimer timer("attention");
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t hd = shape.head_dim, width = shape.width(), out_width = shape.heads * hd;
  const bool codes = options.int15_scores;
  const int64_t group = shape.heads / shape.kv_heads;
  const auto arguments = [&](const Rows& rows) {
    thread_local AlignedBuffer scratch;
    const int64_t t = rows.segment->offset + rows.first;
    return kernels::AttentionArgs{
        .q = qkv + t * width + rows.head * group * hd,
        .ldq = width,
        .k = cache.keys(rows.segment->row, rows.head),
        .v = cache.values(rows.segment->row, rows.head),
        .slots = cache.slots(),
        .head_dim = hd,
        .group = group,
        .pos0 = rows.segment->pos0 + rows.first,
        .n_pos = rows.count,
        .window = options.window,
        .scale = options.scale,
        .softcap = options.softcap,
        .out = out + t * out_width + rows.head * group * hd,
        .ldo = out_width,
        .scratch = scratch.at_least(table.attention_scratch(hd)),
        .key_codes = codes ? cache.key_codes(rows.segment->row, rows.head) : nullptr,
        .key_exponents = codes ? cache.key_exponents(rows.segment->row, rows.head) : nullptr};
  };
  std::atomic<bool> finite{true};
  const auto check = [&](const kernels::AttentionArgs& args) {
    for (int64_t p = 0; p < args.n_pos; ++p)
      if (table.first_nonfinite(args.out + p * out_width, group * hd) != group * hd) finite = false;
  };

  std::vector<Rows> all = cut(shape, pass, options.window);
  const int64_t node_floats = group * kernels::attention_node_floats(hd);  // of a position and block
  thread_local AlignedBuffer nodes;
  std::vector<Unit> units = cut_to_units(all, node_floats, nodes);
  cpu::parallel_for(static_cast<int64_t>(units.size()), [&](int64_t i) {
    Unit& u = units[static_cast<size_t>(i)];
    kernels::AttentionArgs args = arguments(*u.rows);
    args.block = u.block;
    if (u.rows->nodes != nullptr)
      args.nodes = u.rows->nodes + (u.block - u.rows->first_block) * u.rows->count * node_floats;
    u.bad = table.attention(args);
    if (args.nodes == nullptr) check(args);
  });
  if (all.front().nodes != nullptr)
    cpu::parallel_for(static_cast<int64_t>(all.size()), [&](int64_t i) {
      const Rows& rows = all[static_cast<size_t>(i)];
      kernels::AttentionArgs args = arguments(rows);
      args.block = rows.first_block;
      args.nodes = rows.nodes;
      table.attention_join(args, rows.blocks);
      check(args);
    });
  for (const Unit& u : units)
    if (u.bad != INT64_MAX) faults.record(u.rows->segment->row, u.bad, layer, Stage::kScores);
  if (!finite) faults.sanitize(pass, layer, Stage::kAttention, out, out_width, out_width);
}

}  // namespace isobit::ops

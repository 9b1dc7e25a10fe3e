// SPDX-License-Identifier: Apache-2.0
// Attention of consecutive positions of one sequence over one kv head (contract 4), in one pass over
// 256-blocks of keys.
//
// Query rows (position, head of the group) are cut into tiles of kTileRows; kTiles tiles go through a block
// together, so that its keys and values are read from memory once. A tile's scores of a block are [rows][256]
// and stay in the first-level cache; a block leaves a node (m, den, num) per row, and nodes are merged by the
// tree over the absolute block index. A row that sees nothing of a block has m = -inf, den = 0, num = 0,
// which the merge leaves out by itself.
#include "kernels/generic/dot/int15_sums.h"
#include "kernels/generic/elementary.h"
#include "kernels/generic/kernels.h"
#include "kernels/generic/lanes.h"

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {

constexpr int kTiles = 4;
constexpr int64_t kScoreStride =
    kBlock + 16;  // floats; not a multiple of 1024 bytes, which would share cache sets
constexpr float kNegInf = -__builtin_inff();

// Where the query rows of a call lie, and what they see.
struct QueryRows {
  const AttentionArgs& args;
  int64_t position(int64_t row) const { return args.pos0 + row / args.group; }
  const float* query(int64_t row) const {
    return args.q + row / args.group * args.ldq + row % args.group * args.head_dim;
  }
  float* out(int64_t row) const {
    return args.out + row / args.group * args.ldo + row % args.group * args.head_dim;
  }
  int64_t first_visible(int64_t row) const {
    const int64_t low = position(row) - args.window + 1;
    return args.window > 0 && low > 0 ? low : 0;
  }
};

// A node of the tree for one tile: arrays over its rows.
struct Node {
  float* m;    // [16]
  float* den;  // [16]
  float* num;  // [kTileRows][v_stride]
};

// s[r][j] = DOT(q[r], key j) * scale for 16*VECS keys from `keys`.
template <int ROWS, int VECS>
static inline void score_tile(const float* q, int64_t head_dim, const float* keys, float scale, float* s) {
  f32x16 acc[ROWS][VECS];
  f32x16 first_block[ROWS][VECS];
  for (int64_t begin = 0;; begin += kBlock) {
    const int64_t end = begin + kBlock < head_dim ? begin + kBlock : head_dim;
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < VECS; ++v) acc[r][v] = zero();
    for (int64_t d = begin; d < end; ++d) {
      f32x16 key[VECS];
#pragma GCC unroll 16
      for (int v = 0; v < VECS; ++v) key[v] = load(keys + (v * head_dim + d) * kKeyPanel);
      if constexpr (ROWS <= 4)
#pragma GCC unroll 16
        for (int v = 0; v < VECS; ++v) prefetch(keys + ((v + VECS) * head_dim + d) * kKeyPanel);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) {
        const f32x16 x = broadcast(q[r * head_dim + d]);
#pragma GCC unroll 16
        for (int v = 0; v < VECS; ++v) acc[r][v] = fma(x, key[v], acc[r][v]);
      }
    }
    // head_dim <= 512 (checked by the block): at most two 256-blocks, whose tree is one addition.
    if (begin > 0)
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
        for (int v = 0; v < VECS; ++v) acc[r][v] = first_block[r][v] + acc[r][v];
    if (end == head_dim) break;
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < VECS; ++v) first_block[r][v] = acc[r][v];
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < VECS; ++v)
      store(s + r * kScoreStride + 16 * v, (acc[r][v] + zero()) * broadcast(scale));
}

// The query rows of a tile, packed, and their codes where the scores are integer products.
struct Queries {
  float* values;   // rows of head_dim
  int16_t* codes;  // rows of int15_stride(head_dim)
  int32_t* exponents;
  Queries from(int64_t row, int64_t head_dim) const {
    return {values + row * head_dim, codes + row * int15_stride(head_dim), exponents + row};
  }
};

// The same of 15-bit codes (contract 7c.1), kInt15Rows rows at a time.
template <int ROWS, int VECS>
static inline void score_int15_tile(const AttentionArgs& args, const Queries& q, int64_t slot, float* s) {
  constexpr int kRows = ROWS < kInt15Rows ? ROWS : kInt15Rows;
  const int64_t pairs = (args.head_dim + 1) / 2, ld = int15_stride(args.head_dim);
  const int16_t* keys[VECS];
  for (int v = 0; v < VECS; ++v) keys[v] = args.key_codes + (slot + 16 * v) * 2 * pairs;
  f32x16 sums[kRows][VECS];
  int15_sums<kRows, VECS>(q.codes, ld, keys, 2 * kKeyPanel, pairs, sums);
  for (int v = 0; v < VECS; ++v) {
    const i32x16 e = load_i(args.key_exponents + slot + 16 * v);
    for (int r = 0; r < kRows; ++r)
      store(s + r * kScoreStride + 16 * v,
            times_power_of_two(sums[r][v], e + broadcast_i(q.exponents[r])) * broadcast(args.scale));
  }
  if constexpr (ROWS > kRows)
    score_int15_tile<ROWS - kRows, VECS>(args, q.from(kRows, args.head_dim), slot, s + kRows * kScoreStride);
}

template <int ROWS, int VECS>
static inline void scores(const AttentionArgs& args, const Queries& q, int64_t slot, float* s) {
  if (args.key_codes)
    score_int15_tile<ROWS, VECS>(args, q, slot, s);
  else
    score_tile<ROWS, VECS>(q.values, args.head_dim, args.k + slot * args.head_dim, args.scale, s);
}

// Scores of one row: caps them, makes those outside [low, high] -inf, and returns the largest. `odd` turns
// NaN once a visible score is not finite.
static inline float finish_scores(float* s, int64_t n, int32_t low, int32_t high, float softcap,
                                  f32x16& odd) {
  f32x16 top = broadcast(kNegInf);
  const f32x16 cap = broadcast(softcap);
  for (int32_t j = 0; j < n; j += 16) {
    f32x16 x = load(s + j);
    mask16 seen = first_n(16);
    if (j < low || j + 15 > high) {
      const i32x16 index = lane_ids() + broadcast_i(j);
      seen = ~(broadcast_i(low) > index) & ~(index > broadcast_i(high));
      x = select(seen, x, zero());
    }
    odd = fma(x, zero(), odd);
    if (softcap > 0) x = cap * tanh(x / cap);
    x = select(seen, x, broadcast(kNegInf));
    store(s + j, x);
    top = max(top, x);
  }
  return reduce_max(top);
}

// num[r][c] = fma chain over n positions of e[r][j] * v[j][c], from +0, for VECS vectors of 16 columns.
template <int ROWS, int VECS>
static inline void value_tile(const float* e, const float* v, int64_t v_stride, int64_t n, float* num) {
  f32x16 acc[ROWS][VECS];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < VECS; ++c) acc[r][c] = zero();
  for (int64_t j = 0; j < n; ++j) {
    f32x16 x[VECS];
#pragma GCC unroll 16
    for (int c = 0; c < VECS; ++c) x[c] = load(v + j * v_stride + 16 * c);
    if constexpr (ROWS <= 4)
#pragma GCC unroll 16
      for (int c = 0; c < VECS; ++c) prefetch(v + (j + 24) * v_stride + 16 * c);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
      const f32x16 w = broadcast(e[r * kScoreStride + j]);
#pragma GCC unroll 16
      for (int c = 0; c < VECS; ++c) acc[r][c] = fma(w, x[c], acc[r][c]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < VECS; ++c) store(num + r * v_stride + 16 * c, acc[r][c]);
}

template <int ROWS>
static inline void value_rows(const float* e, const float* v, int64_t v_stride, int64_t n, float* num) {
  constexpr int kHalf = ROWS > 3 ? ROWS / 2 : ROWS;
  constexpr int kWide = 2 * kTileVecs;
  int64_t c = 0;
  for (; c + 16 * kWide <= v_stride; c += 16 * kWide) {
    value_tile<kHalf, kWide>(e, v + c, v_stride, n, num + c);
    if constexpr (ROWS > kHalf)
      value_tile<ROWS - kHalf, kWide>(e + kHalf * kScoreStride, v + c, v_stride, n,
                                      num + kHalf * v_stride + c);
  }
  for (; c < v_stride; c += 16) value_tile<ROWS, 1>(e, v + c, v_stride, n, num + c);
}

// The node of one tile (ROWS query rows from `row`) for the block that begins at `block`. Returns whether all
// visible scores were finite.
template <int ROWS>
static inline bool attend_block(const QueryRows& rows, int64_t row, const Queries& q, int64_t block, float* s,
                                Node node) {
  const AttentionArgs& args = rows.args;
  const int64_t hd = args.head_dim;
  const int64_t v_stride = (hd + 15) / 16 * 16;
  const int64_t low = rows.first_visible(row) > block ? rows.first_visible(row) / 16 * 16 : block;
  const int64_t newest = rows.position(row + ROWS - 1) + 1;
  const int64_t end = newest < block + kBlock ? newest : block + kBlock;
  if (low >= end) {
    for (int r = 0; r < 16; ++r) node.m[r] = kNegInf, node.den[r] = 0.0f;
    for (int64_t i = 0; i < ROWS * v_stride; i += 16) store(node.num + i, zero());
    return true;
  }
  const int64_t slot = low % args.slots;  // a block never wraps
  const float* values = args.v + slot * v_stride;
  const int64_t n = end - low;
  const int64_t padded = (n + 15) / 16 * 16;

  for (int64_t j = 0; j < padded;) {
    const int width = j + 16 * kTileVecs <= padded ? 16 * kTileVecs : 16;
    if (width == 16)
      scores<ROWS, 1>(args, q, slot + j, s + j);
    else
      scores<ROWS, kTileVecs>(args, q, slot + j, s + j);
    j += width;
  }

  f32x16 odd = zero();
  for (int r = 0; r < ROWS; ++r) {
    float* x = s + r * kScoreStride;
    const int64_t from = rows.first_visible(row + r) - low, to = rows.position(row + r) - low;
    const float m = finish_scores(x, padded, static_cast<int32_t>(from < kBlock ? from : kBlock),
                                  static_cast<int32_t>(to < kBlock ? to : kBlock), args.softcap, odd);
    node.m[r] = m;
    const f32x16 shift = broadcast(m == kNegInf ? 0.0f : m);
    f32x16 den = zero();
    for (int64_t j = 0; j < padded; j += 16) {
      const f32x16 e = exp(load(x + j) - shift);
      store(x + j, e);
      den = den + e;
    }
    node.den[r] = sum_halving(den);
  }
  for (int r = ROWS; r < 16; ++r) node.m[r] = kNegInf, node.den[r] = 0.0f;
  value_rows<ROWS>(s, values, v_stride, n, node.num);
  return !any(~(odd == zero()));
}

// A node between calls: a row's m, den and num, attention_node_floats apart.
static inline void save_node(Node node, int rows, int64_t v_stride, float* to) {
  for (int r = 0; r < rows; ++r, to += 16 + v_stride) {
    to[0] = node.m[r], to[1] = node.den[r];
    for (int64_t c = 0; c < v_stride; c += 16) store(to + 16 + c, load(node.num + r * v_stride + c));
  }
}
static inline void load_node(const float* from, int rows, int64_t v_stride, Node node) {
  for (int r = 0; r < 16; ++r) node.m[r] = kNegInf, node.den[r] = 0.0f;
  for (int r = 0; r < rows; ++r, from += 16 + v_stride) {
    node.m[r] = from[0], node.den[r] = from[1];
    for (int64_t c = 0; c < v_stride; c += 16) store(node.num + r * v_stride + c, load(from + 16 + c));
  }
}

// left = left joined with right (contract 4's node).
static inline void merge_nodes(Node left, Node right, int rows, int64_t v_stride) {
  const f32x16 ml = load(left.m), mr = load(right.m);
  const f32x16 m = max(ml, mr);
  const f32x16 shift = select(m == broadcast(kNegInf), zero(), m);
  const f32x16 fl = exp(ml - shift), fr = exp(mr - shift);
  store(left.den, fma(load(left.den), fl, load(right.den) * fr));
  store(left.m, m);
  float factor_left[16], factor_right[16];
  store(factor_left, fl);
  store(factor_right, fr);
  for (int r = 0; r < rows; ++r) {
    const f32x16 a = broadcast(factor_left[r]), b = broadcast(factor_right[r]);
    for (int64_t c = r * v_stride; c < (r + 1) * v_stride; c += 16)
      store(left.num + c, fma(load(left.num + c), a, load(right.num + c) * b));
  }
}

// Smallest position among `count` rows with a non-finite visible score; the slow path, after a tile reported
// one.
static inline int64_t find_nonfinite_score(const QueryRows& rows, int64_t row, int count, const Queries& q) {
  const AttentionArgs& args = rows.args;
  for (int64_t r = 0; r < count; ++r)
    for (int64_t j = rows.first_visible(row + r); j <= rows.position(row + r); ++j) {
      const int64_t slot = j % args.slots;
      const int64_t lane = slot % kKeyPanel;
      float s[16];
      scores<1, 1>(args, q.from(r, args.head_dim), slot - lane, s);
      if (!(s[lane] - s[lane] == 0.0f)) return rows.position(row + r);
    }
  return INT64_MAX;
}

// Scratch: scores, the packed queries of kTiles tiles and their codes, and for each tile a stack of nodes.
static inline int64_t node_floats(int64_t v_stride) { return 32 + kTileRows * v_stride; }
static inline int64_t query_floats(int64_t head_dim) {
  constexpr int64_t kRows = kTiles * kTileRows;
  return kRows * ((head_dim + 15) / 16 * 16 + int15_stride(head_dim) / 2) + (kRows + 15) / 16 * 16;
}
static inline Queries queries_at(float* p, int64_t head_dim) {
  constexpr int64_t kRows = kTiles * kTileRows;
  float* codes = p + kRows * ((head_dim + 15) / 16 * 16);
  float* exponents = codes + kRows * int15_stride(head_dim) / 2;
  return {p, reinterpret_cast<int16_t*>(codes), reinterpret_cast<int32_t*>(exponents)};
}
int64_t attention_scratch(int64_t head_dim) {
  const int64_t v_stride = (head_dim + 15) / 16 * 16;
  return kTileRows * kScoreStride + query_floats(head_dim) + kTiles * kMaxTreeLevels * node_floats(v_stride);
}

// Contract 2's tree over blocks that come in ascending order, for some tiles at once.
class NodeStack {
 public:
  NodeStack(float* memory, int tiles, int rows, int64_t v_stride)
      : memory_(memory), tiles_(tiles), rows_(rows), v_stride_(v_stride) {}

  /// Where a tile's node of the next block goes, or, once joined, its only node.
  Node next(int tile) const { return at(tile, depth_); }
  Node joined(int tile) const { return at(tile, 0); }

  /// The nodes of block b are in place.
  void push(int64_t b) {
    index_[depth_++] = b;
    for (int level = 0; (b >> level) & 1; ++level)
      if (depth_ > 1 && (index_[depth_ - 2] >> level) == (b >> level) - 1) merge();
  }
  void join() {
    while (depth_ > 1) merge();
  }

 private:
  Node at(int tile, int depth) const {
    float* base = memory_ + (tile * kMaxTreeLevels + depth) * node_floats(v_stride_);
    return {base, base + 16, base + 32};
  }
  void merge() {
    --depth_;
    for (int t = 0; t < tiles_; ++t) merge_nodes(at(t, depth_ - 1), at(t, depth_), rows_, v_stride_);
  }

  float* memory_;
  int tiles_, rows_;
  int64_t v_stride_;
  int64_t index_[kMaxTreeLevels];  // absolute block index of the first block of each node
  int depth_ = 0;
};

static inline void write_outputs(const QueryRows& rows, int64_t row, int count, Node node, int64_t v_stride) {
  const int64_t hd = rows.args.head_dim;
  for (int r = 0; r < count; ++r) {
    float* y = rows.out(row + r);
    const f32x16 den = broadcast(node.den[r]);
    for (int64_t c = 0; c < hd; c += 16) {
      const f32x16 o = (load(node.num + r * v_stride + c) + zero()) / den;
      store_n(y + c, o, static_cast<int>(hd - c < 16 ? hd - c : 16));
    }
  }
}

// Up to kTiles tiles of ROWS rows each, from `row`: all of it, or the nodes of args.block alone.
template <int ROWS>
static inline int64_t attend_tiles(const QueryRows& rows, int64_t row, int tiles) {
  const AttentionArgs& args = rows.args;
  const int64_t hd = args.head_dim;
  const int64_t v_stride = (hd + 15) / 16 * 16;
  float* s = args.scratch;
  const Queries q = queries_at(s + kTileRows * kScoreStride, hd);
  NodeStack stack(q.values + query_floats(hd), tiles, ROWS, v_stride);
  for (int64_t r = 0; r < tiles * ROWS; ++r)
    for (int64_t d = 0; d < hd; ++d) q.values[r * hd + d] = rows.query(row + r)[d];
  if (args.key_codes) quantize_int15(q.values, hd, tiles * ROWS, hd, q.codes, int15_stride(hd), q.exponents);

  int64_t bad = INT64_MAX;
  const int64_t last_row = row + tiles * ROWS - 1;
  const bool whole = args.nodes == nullptr;
  const int64_t begin = whole ? rows.first_visible(row) / kBlock : args.block;
  const int64_t end = whole ? rows.position(last_row) / kBlock : args.block;
  for (int64_t b = begin; b <= end; ++b) {
    for (int t = 0; t < tiles; ++t) {
      const int64_t first = row + t * ROWS;
      const Queries tile = q.from(t * ROWS, hd);
      if (attend_block<ROWS>(rows, first, tile, b * kBlock, s, stack.next(t))) continue;
      const int64_t position = find_nonfinite_score(rows, first, ROWS, tile);
      if (position < bad) bad = position;
    }
    stack.push(b);
  }
  stack.join();

  for (int t = 0; t < tiles; ++t) {
    const int64_t first = row + t * ROWS;
    if (whole)
      write_outputs(rows, first, ROWS, stack.joined(t), v_stride);
    else
      save_node(stack.joined(t), ROWS, v_stride, args.nodes + first * attention_node_floats(hd));
  }
  return bad;
}

// The last rows, fewer than a tile.
template <int ROWS>
static inline int64_t attend_rest(const QueryRows& rows, int64_t row, int64_t left) {
  if constexpr (ROWS == 0) {
    return INT64_MAX;
  } else {
    return left == ROWS ? attend_tiles<ROWS>(rows, row, 1) : attend_rest<ROWS - 1>(rows, row, left);
  }
}

int64_t attention(const AttentionArgs& args) {
  const QueryRows rows{args};
  const int64_t count = args.n_pos * args.group;
  int64_t bad = INT64_MAX;
  int64_t row = 0;
  while (count - row >= kTileRows) {
    const int64_t whole = (count - row) / kTileRows;
    const int tiles = static_cast<int>(whole < kTiles ? whole : kTiles);
    const int64_t found = attend_tiles<kTileRows>(rows, row, tiles);
    if (found < bad) bad = found;
    row += tiles * kTileRows;
  }
  const int64_t found = attend_rest<kTileRows - 1>(rows, row, count - row);
  return found < bad ? found : bad;
}

void attention_join(const AttentionArgs& args, int64_t blocks) {
  const QueryRows rows{args};
  const int64_t v_stride = (args.head_dim + 15) / 16 * 16, floats = attention_node_floats(args.head_dim);
  const int64_t count = args.n_pos * args.group;
  for (int64_t row = 0; row < count; row += kTileRows) {
    const int n = static_cast<int>(count - row < kTileRows ? count - row : kTileRows);
    NodeStack stack(args.scratch, 1, n, v_stride);
    for (int64_t i = 0; i < blocks; ++i) {
      load_node(args.nodes + (i * count + row) * floats, n, v_stride, stack.next(0));
      stack.push(args.block + i);
    }
    stack.join();
    write_outputs(rows, row, n, stack.joined(0), v_stride);
  }
}

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE

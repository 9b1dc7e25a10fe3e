// SPDX-License-Identifier: Apache-2.0
// Every kernel's signature. One table per instruction set, all equal to the reference bit for bit.
//
// Conventions: float32, row-major; a leading dimension `ld*` counts floats between rows. "Panels" of a weight
// W [N, K] are [ceil(N/32)][K][32] with zeros in the columns past N, so that lanes run over outputs. Kernels
// run on the calling thread with the floating-point environment already set; they allocate nothing.
#pragma once

#include <cstdint>

namespace isobit::kernels {

constexpr int64_t kBlock = 256;     // contract 2: blocks of 256 at multiples of 256 of the absolute index
constexpr int64_t kPanel = 32;      // outputs of a weight panel
constexpr int64_t kKeyPanel = 16;   // positions of a key panel
constexpr int64_t kInt8Panel = 64;  // outputs of a panel of int8
constexpr int kMaxTreeLevels = 40;

/// Where W[n][i] of [N, k] lies in panels of fewer bits: [ceil(N/32)][k][16][2] of bfloat16 and
/// [ceil(N/64)][k][16][4] of int8, so that a word of 32 bits holds outputs j, j + 16, ... of a panel.
inline int64_t bf16_index(int64_t n, int64_t i, int64_t k) {
  return (n / kPanel * k + i) * kPanel + n % 16 * 2 + n % kPanel / 16;
}
inline int64_t int8_index(int64_t n, int64_t i, int64_t k) {
  return (n / kInt8Panel * k + i) * kInt8Panel + n % 16 * 4 + n % kInt8Panel / 16;
}

/// Functions of one number (contract 5), for arrays.
enum class Unary : int {
  kExp,
  kLog,
  kLog1p,
  kExpm1,
  kTanh,
  kErf,
  kErfc,
  kSigmoid,
  kSoftplus,
  kSilu,
  kGelu,
  kGeluTanh,
  kSin,
  kCos,
  kRelu,
  kCount
};

/// y[i] = act(gate[i]) * up[i], or act(gate[i]) where up is null.
enum class Activation : int { kSilu, kGelu, kGeluTanh };

/// Attention of `n_pos` consecutive positions of one sequence and one kv head with its `group` query heads
/// (contract 4).
struct AttentionArgs {
  const float* q;  // q[i*ldq + g*head_dim + d]: position pos0 + i, head g of the group
  int64_t ldq;
  const float* k;  // key panels [slots/16][head_dim][16]
  const float* v;  // value rows [slots][v_stride], zeros past head_dim; v_stride = head_dim rounded up to 16
  int64_t slots;   // multiple of 16; position p lies in slot p % slots; a multiple of 256 where it can wrap
  int64_t head_dim;
  int64_t group;
  int64_t pos0;
  int64_t n_pos;
  int64_t window;  // 0: none
  float scale;
  float softcap;  // 0: none
  float* out;     // like q, with ldo
  int64_t ldo;
  float* scratch;  // attention_scratch(head_dim) floats, 64-byte aligned
  // Where not null, scores are products of 15-bit codes (contract 7c.1): of the keys
  // [slots/16][ceil(head_dim/2)][16][2] with an exponent a slot, and of the queries, made here.
  const int16_t* key_codes = nullptr;
  const int32_t* key_exponents = nullptr;
  /// Not null: `attention` leaves the nodes of `block` alone here and no output; `attention_join` reads those
  /// of consecutive blocks from `block` on. [rows] of attention_node_floats: m, den, 14 unused, num.
  float* nodes = nullptr;
  int64_t block = 0;
};
constexpr int64_t attention_node_floats(int64_t head_dim) { return 16 + (head_dim + 15) / 16 * 16; }

/// Causal depthwise convolution of consecutive tokens of one sequence, then SiLU (contract 7b.1). Rows of
/// `ldw` floats: weights and windows [width], oldest tap first. The window holds the last `width` inputs
/// before the first token and then, in window_out (which may be window_in), before the next.
struct ConvArgs {
  const float* x;  // [tokens] rows of ldx
  int64_t ldx;
  int64_t tokens;
  int64_t channels;
  int64_t width;  // 1..kMaxConvWidth
  const float* w;
  const float* bias;  // null: none
  const float* window_in;
  float* window_out;
  int64_t ldw;
  float* y;  // [tokens] rows of ldy
  int64_t ldy;
};
constexpr int64_t kMaxConvWidth = 32;

/// Mamba 1's recurrence over consecutive tokens of one sequence (contract 7b.2). a, h_in and h_out: [states]
/// rows of ldh floats, a multiple of 16 >= channels; h_out may be h_in.
struct SelectiveScanArgs {
  int64_t tokens;
  int64_t channels;
  int64_t states;
  const float* dt;  // [tokens] rows of ldt
  int64_t ldt;
  const float* u;  // [tokens] rows of ldu
  int64_t ldu;
  const float* b;  // b[t*ldbc + n], c likewise
  const float* c;
  int64_t ldbc;
  const float* a;
  const float* d;  // [channels]
  const float* h_in;
  float* h_out;
  int64_t ldh;
  float* y;  // [tokens] rows of ldy
  int64_t ldy;
};

/// Mamba 2's recurrence of one head over consecutive tokens of one sequence (contract 7b.3). h_in and h_out:
/// [states] rows of head_dim rounded up to 16; h_out may be h_in.
struct HeadScanArgs {
  int64_t tokens;
  int64_t head_dim;
  int64_t states;
  const float* x;  // [tokens] rows of ldx
  int64_t ldx;
  const float* dt;     // dt[t*ldt]
  const float* decay;  // decay[t*ldt]
  int64_t ldt;
  const float* b;  // b[t*ldbc + n], c likewise
  const float* c;
  int64_t ldbc;
  float d;
  const float* h_in;
  float* h_out;
  float* y;  // [tokens] rows of ldy
  int64_t ldy;
};

/// Mamba 3's steps of one token's `heads` heads (contract 7b.4).
struct TrapezoidStepArgs {
  const float* dt_raw;  // [heads], and so on
  const float* a_raw;
  const float* trap;
  const float* dt_bias;
  int64_t heads;
  bool heavy_tail;  // else softplus
  float a_floor;
  float* dt;
  float* decay;
  float* gamma;  // weight of this token's input
  float* beta;   // weight of the one before, before its decay
};

/// Mamba 3's recurrence of one head over consecutive tokens of one sequence (contract 7b.4). *_out may be
/// *_in; h: [states] rows of head_dim rounded up to 16.
struct TrapezoidScanArgs {
  int64_t tokens;
  int64_t head_dim;
  int64_t states;  // even
  int64_t rank;
  int64_t angles;    // rotated pairs, at most states / 2
  bool split_pairs;  // pairs (j, j + states/2); else (2j, 2j + 1)
  const float* x;    // [tokens] rows of ldx
  int64_t ldx;
  const float* mimo_x;  // [rank][head_dim], or null where rank is 1
  const float* dt;      // dt[t*ldt], and so on
  const float* decay;
  const float* gamma;
  const float* beta;
  int64_t ldt;
  const float* spin;  // [tokens] rows of lds: radians per unit of dt
  int64_t lds;
  const float* b;  // b[t*ldbc + r*rank_stride + n], normalised; c likewise
  const float* c;
  int64_t ldbc;
  int64_t rank_stride;
  const float* b_bias;  // [rank][states]
  const float* c_bias;
  float d;
  const float* theta_in;  // [angles]
  float* theta_out;
  const float* h_in;
  float* h_out;
  const float* k_in;  // [rank][states]
  float* k_out;
  const float* v_in;  // [head_dim]
  float* v_out;
  float* y;  // y[t*ldy + r*ldr + p]
  int64_t ldy;
  int64_t ldr;
  float* scratch;  // trapezoid_scratch(states, rank) floats, 64-byte aligned
};
constexpr int64_t kMaxStates = 256;  // one block of DOT

/// Rows of 15-bit codes with zeros from k to ld = int15_stride(k), and their exponents (contract 7c.1).
struct Int15Rows {
  const int16_t* codes;
  int64_t ld;
  const int32_t* exponents;
};
constexpr int64_t int15_stride(int64_t k) { return (k + 15) / 16 * 16; }

/// One block of 32 of up to 8 rows, as one stretch that a register tile reads (contract 7c.2).
constexpr int64_t kInt8Block = 32, kInt8Group = 8;
struct Int8Group {
  int8_t codes[kInt8Group][kInt8Block];  // padded with zeros past k
  float scales[kInt8Group];
  int32_t offsets[kInt8Group];  // -128 times the sum of the codes
};
/// Rows of 8-bit codes: [ceil(rows/8)][blocks]; nothing reads the rows that the last groups lack.
struct Int8Rows {
  const Int8Group* groups;
  int64_t blocks;
};
/// A panel of 8-bit blocks: for each block, code + 128 as [8][32 outputs][4], then float scales [32].
constexpr int64_t kInt8BlockBytes = kInt8Block * kPanel + 4 * kPanel;
/// A panel of 4-bit blocks: for each block, [4][32 outputs][4] bytes that hold the code of k in the low and
/// of k + 16 in the high half, binary16 scales [32] and, in the longer ones, binary16 minima [32].
constexpr int64_t kInt4BlockBytes = kInt8Block * kPanel / 2 + 2 * kPanel;
constexpr int64_t kInt4MinBlockBytes = kInt4BlockBytes + 2 * kPanel;

/// Integer products, k >= 1 and at most kMaxIntegerK for 15 bits.
struct DotKernels {
  const char* isa;

  /// c[m*ldc + n] = fl32(sum of codes) * 2^(exponents of row and output) (+ bias[n]); panels
  /// [ceil(cols/32)][ceil(k/2)][32][2], exponents of whole panels.
  void (*matmul_int15)(const Int15Rows& a, int64_t rows, const int16_t* panels, const int32_t* exponents,
                       int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc);
  /// c[m*ldc + n] = block product of contract 7c.2 (+ bias[n]); panels [ceil(cols/32)][blocks].
  void (*matmul_int8x32)(const Int8Rows& a, int64_t rows, const uint8_t* panels, int64_t cols,
                         const float* bias, float* c, int64_t ldc);
  /// The same with panels of 4-bit blocks (contract 7c.3); scales and minima are finite.
  void (*matmul_int4x32)(const Int8Rows& a, int64_t rows, const uint8_t* panels, bool has_min, int64_t cols,
                         const float* bias, float* c, int64_t ldc);
};
constexpr int64_t kMaxIntegerK = 65536;

struct KernelTable {
  const char* isa;

  /// c[m*ldc + n] = DOT(a[m], w[n], k) (+ bias[n] if bias), m < rows, n < cols; panels: of these cols.
  void (*matmul)(const float* a, int64_t lda, int64_t rows, const float* panels, int64_t k, int64_t cols,
                 const float* bias, float* c, int64_t ldc);
  /// The same bits from panels of bfloat16 (bf16_index), or of int8 codes (int8_index) with one scale for
  /// each output (contract 8), which is 0 in the columns past N. scratch: k * 32 floats.
  void (*matmul_bf16)(const float* a, int64_t lda, int64_t rows, const uint16_t* panels, int64_t k,
                      int64_t cols, const float* bias, float* c, int64_t ldc, float* scratch);
  void (*matmul_int8)(const float* a, int64_t lda, int64_t rows, const int8_t* panels, const float* scales,
                      int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc, float* scratch);

  DotKernels dot;
  /// Rows of finite x [rows, k] as 15-bit codes, rows of ld codes, or as 8-bit blocks (layout of Int8Rows,
  /// from the first row of a group on).
  void (*quantize_int15)(const float* x, int64_t ldx, int64_t rows, int64_t k, int16_t* codes, int64_t ld,
                         int32_t* exponents);
  void (*quantize_int8x32)(const float* x, int64_t ldx, int64_t rows, int64_t k, Int8Group* groups);

  /// Returns the smallest position with a non-finite visible score, or INT64_MAX.
  int64_t (*attention)(const AttentionArgs& args);
  int64_t (*attention_scratch)(int64_t head_dim);
  /// The outputs of `attention` from the nodes of all blocks that its rows see.
  void (*attention_join)(const AttentionArgs& args, int64_t blocks);

  /// y = (x*r)*w, r = 1/sqrt(SUMSQ(x)/d + eps); offset: weight 1 + w. Returns the first row whose sum is not
  /// finite, or rows.
  int64_t (*rms_norm)(const float* x, int64_t ldx, int64_t rows, int64_t d, const float* w, float eps,
                      bool offset, float* y, int64_t ldy);
  /// Contract 6 LayerNorm; bias may be null. Returns the first row whose sums are not finite, or rows.
  int64_t (*layer_norm)(const float* x, int64_t ldx, int64_t rows, int64_t d, const float* w,
                        const float* bias, float eps, float* y, int64_t ldy);

  /// Rotates pairs (j, j + half) of `heads` consecutive vectors of head_dim at x, in place, by cos/sin[half].
  void (*rope)(float* x, int64_t heads, int64_t head_dim, int64_t half, const float* cos, const float* sin);

  void (*activate)(Activation kind, const float* gate, const float* up, int64_t n, float* y);
  void (*add)(const float* a, const float* b, int64_t n, float* y);
  void (*unary)(Unary kind, const float* x, int64_t n, float* y);

  void (*causal_conv)(const ConvArgs& args);
  void (*selective_scan)(const SelectiveScanArgs& args);
  /// dt[h] = softplus(raw[h] + bias[h]) limited to lo..hi; decay[h] = exp(dt[h] * a[h]).
  void (*head_steps)(const float* raw, const float* bias, const float* a, int64_t heads, float lo, float hi,
                     float* dt, float* decay);
  void (*head_scan)(const HeadScanArgs& args);
  void (*trapezoid_steps)(const TrapezoidStepArgs& args);
  void (*trapezoid_scan)(const TrapezoidScanArgs& args);
  int64_t (*trapezoid_scratch)(int64_t states, int64_t rank);
  /// out[i] = DOT over r of mix_out[r][i] * (silu(gate[i] * mix_gate[r][i]) * y[r*ldr + i]), i < n; rows of
  /// the mixes: n.
  void (*mimo_gate)(const float* y, int64_t ldr, const float* gate, const float* mix_gate,
                    const float* mix_out, int64_t rank, int64_t n, float* out);

  /// The first index of [0, n) that is not finite, or n.
  int64_t (*first_nonfinite)(const float* x, int64_t n);
  /// Lowest index of the largest value (n >= 1, finite; -0 == +0).
  int64_t (*argmax)(const float* x, int64_t n);

  /// Panels [ceil(n/32)][k][32] of rows w [n, k].
  void (*pack_panels)(const float* w, int64_t n, int64_t k, float* panels);
};

/// Tables this CPU can run, best first; the reference is not among them.
struct TableList {
  const KernelTable* const* begin_;
  int count;
  const KernelTable* const* begin() const { return begin_; }
  const KernelTable* const* end() const { return begin_ + count; }
};
TableList available_tables();
/// The one in use (ISOBIT_ISA or set_isa, else the best).
const KernelTable& active_table();
/// Plain scalar loops that read like the contract; what every table must equal.
const KernelTable& reference_table();

}  // namespace isobit::kernels

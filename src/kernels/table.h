// SPDX-License-Identifier: Apache-2.0
// Every kernel's signature. One table per instruction set, all equal to the reference bit for bit.
//
// Conventions: float32, row-major; a leading dimension `ld*` counts floats between rows. "Panels" of a weight
// W [N, K] are [ceil(N/32)][K][32] with zeros in the columns past N, so that lanes run over outputs. Kernels
// run on the calling thread with the floating-point environment already set; they allocate nothing.
#pragma once

#include <cstdint>

namespace isobit::kernels {

constexpr int64_t kBlock = 256;    // contract 2: blocks of 256 at multiples of 256 of the absolute index
constexpr int64_t kPanel = 32;     // outputs of a weight panel
constexpr int64_t kKeyPanel = 16;  // positions of a key panel
constexpr int kMaxTreeLevels = 40;

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
};

struct KernelTable {
  const char* isa;

  /// c[m*ldc + n] = DOT(a[m], w[n], k) (+ bias[n] if bias), m < rows, n < cols; panels: of these cols.
  void (*matmul)(const float* a, int64_t lda, int64_t rows, const float* panels, int64_t k, int64_t cols,
                 const float* bias, float* c, int64_t ldc);
  /// The same bits from panels of bfloat16, or of int8 codes with one scale for each output (contract 8),
  /// which is 0 in the columns past N. scratch: k * 32 floats.
  void (*matmul_bf16)(const float* a, int64_t lda, int64_t rows, const uint16_t* panels, int64_t k,
                      int64_t cols, const float* bias, float* c, int64_t ldc, float* scratch);
  void (*matmul_int8)(const float* a, int64_t lda, int64_t rows, const int8_t* panels, const float* scales,
                      int64_t k, int64_t cols, const float* bias, float* c, int64_t ldc, float* scratch);

  /// Returns the smallest position with a non-finite visible score, or INT64_MAX.
  int64_t (*attention)(const AttentionArgs& args);
  int64_t (*attention_scratch)(int64_t head_dim);

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

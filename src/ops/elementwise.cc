// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include <algorithm>
#include <atomic>

#include "backends/cpu/thread_pool.h"
#include "core/profile.h"
#include "kernels/table.h"
#include "ops/deferred_matrix.h"

namespace isobit::ops {
namespace {

// Runs body(first, count) over [0, n) in pieces that are worth a thread.
template <typename Body>
void in_pieces(int64_t n, int64_t piece, const Body& body) {
  cpu::parallel_for((n + piece - 1) / piece,
                    [&](int64_t i) { body(i * piece, std::min(piece, n - i * piece)); });
}

constexpr int64_t kPieceFloats = 1 << 15;

int64_t norm_rows(const NormWeights& w, const float* x, int64_t rows, float* y) {
  const kernels::KernelTable& table = kernels::active_table();
  const int64_t d = static_cast<int64_t>(w.weight.size());
  if (w.kind == NormKind::kLayerNorm)
    return table.layer_norm(x, d, rows, d, w.weight.data(), w.bias.empty() ? nullptr : w.bias.data(), w.eps,
                            y, d);
  return table.rms_norm(x, d, rows, d, w.weight.data(), w.eps, w.kind == NormKind::kRmsNormOffset, y, d);
}

}  // namespace

void norm(const NormWeights& w, const float* x, const TokenBatch& pass, float* y, Faults& faults,
          int64_t layer, Stage stage) {
  const StageTimer timer("norm");
  const int64_t d = static_cast<int64_t>(w.weight.size());
  std::atomic<bool> finite{true};
  in_pieces(pass.tokens, std::max<int64_t>(1, kPieceFloats / d), [&](int64_t first, int64_t count) {
    if (norm_rows(w, x + first * d, count, y + first * d) != count) finite = false;
  });
  if (finite) return;
  for (int64_t t = 0; t < pass.tokens; ++t) {
    if (norm_rows(w, x + t * d, 1, y + t * d) == 1) continue;
    faults.record(pass.segment_of(t).row, pass.position_of(t), layer, stage);
    std::fill_n(y + t * d, d, 0.0f);
  }
}

bool activation(MlpKind kind, const float* gu, int64_t tokens, int64_t width, float* act) {
  const StageTimer timer("activation");
  const kernels::KernelTable& table = kernels::active_table();
  const bool gated = is_gated(kind);
  const int64_t ld = gated ? 2 * width : width;
  const auto f = kind == MlpKind::kSwiGlu                            ? kernels::Activation::kSilu
                 : kind == MlpKind::kGelu || kind == MlpKind::kGeGlu ? kernels::Activation::kGelu
                                                                     : kernels::Activation::kGeluTanh;
  const auto activate = [&](const float* x, float* y) {
    if (kind != MlpKind::kRelu2) return table.activate(f, x, gated ? x + width : nullptr, width, y);
    table.unary(kernels::Unary::kRelu, x, width, y);
    for (int64_t i = 0; i < width; ++i) y[i] = y[i] * y[i];
  };
  std::atomic<bool> finite{true};
  in_pieces(tokens, std::max<int64_t>(1, kPieceFloats / 2 / width), [&](int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t) activate(gu + t * ld, act + t * width);
    if (table.first_nonfinite(act + first * width, count * width) != count * width) finite = false;
  });
  return finite;
}

bool residual(float* x, const float* y, int64_t n) {
  const StageTimer timer("residual");
  const kernels::KernelTable& table = kernels::active_table();
  std::atomic<bool> finite{true};
  in_pieces(n, kPieceFloats, [&](int64_t first, int64_t count) {
    table.add(x + first, y + first, count, x + first);
    if (table.first_nonfinite(x + first, count) != count) finite = false;
  });
  return finite;
}

void scale(float* x, int64_t ld, int64_t rows, int64_t width, float factor) {
  if (factor == 1.0f || width == 0) return;
  const StageTimer timer("multipliers");
  in_pieces(rows, std::max<int64_t>(1, kPieceFloats / width), [&](int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t)
      for (int64_t i = 0; i < width; ++i) x[t * ld + i] = x[t * ld + i] * factor;
  });
}

void divide(float* x, int64_t ld, int64_t rows, int64_t width, float divisor) {
  if (divisor == 1.0f) return;
  const StageTimer timer("multipliers");
  in_pieces(rows, std::max<int64_t>(1, kPieceFloats / width), [&](int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t)
      for (int64_t i = 0; i < width; ++i) x[t * ld + i] = x[t * ld + i] / divisor;
  });
}

void embed(const PackedMatrix& table, const int64_t* ids, int64_t tokens, float* x) {
  std::shared_ptr<const WeightRows> source;  // while nothing has packed the table
  if (table.deferred) source = table.deferred->use(DeferredMatrix::Use::kLookup);
  if (table.deferred && !source) return embed(*table.deferred->packed(), ids, tokens, x);
  const StageTimer timer("embedding");
  in_pieces(tokens, std::max<int64_t>(1, kPieceFloats / table.k), [&](int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t)
      if (source)
        unpack_rows(*source, ids[t], ids[t] + 1, x + t * table.k);
      else
        unpack_rows(table, ids[t], ids[t] + 1, x + t * table.k);
  });
  if (source) source->check_unchanged();
}

int64_t argmax(const float* x, int64_t n) {
  const StageTimer timer("argmax");
  return kernels::active_table().argmax(x, n);
}

}  // namespace isobit::ops

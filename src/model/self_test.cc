// SPDX-License-Identifier: Apache-2.0
// Golden digests by stage: SHA-256 of the result bits of each kernel and of one decoder block, on operands
// that are the same everywhere. Every NaN counts as the same NaN, since its bits are the machine's choice.
#include "model/self_test.h"

#include <bit>
#include <cmath>
#include <functional>
#include <span>

#include "core/aligned_buffer.h"
#include "core/fp_env.h"
#include "core/sha256.h"
#include "isobit/transformer_block.h"

namespace isobit {
namespace {

using kernels::KernelTable;

/// A linear congruential sequence as numbers in [-1, 1).
class Operands {
 public:
  explicit Operands(uint32_t seed) : state_(seed) {}
  float next() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>(state_) >> 8) * 0x1p-23f;
  }
  std::vector<float> take(int64_t n) {
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = next();
    return x;
  }

 private:
  uint32_t state_;
};

std::string digest(std::span<const float> values) {
  Sha256 sha;
  for (const float v : values) {
    const uint32_t bits = std::isnan(v) ? 0x7fc00000u : std::bit_cast<uint32_t>(v);
    const unsigned char bytes[4] = {static_cast<unsigned char>(bits), static_cast<unsigned char>(bits >> 8),
                                    static_cast<unsigned char>(bits >> 16),
                                    static_cast<unsigned char>(bits >> 24)};
    sha.update(bytes, 4);
  }
  return sha.hex().substr(0, 16);
}

std::vector<float> run_unary(const KernelTable& table, kernels::Unary kind) {
  constexpr int64_t kCount = 4096 + 5;
  Operands operands(1);
  std::vector<float> x = operands.take(kCount), y(x.size());
  uint32_t exponent = 0;
  for (float& v : x) {  // up to 2^-119 .. 2^7
    v *= std::bit_cast<float>((8 + exponent) << 23);
    exponent = (exponent + 1) % 127;
  }
  table.unary(kind, x.data(), kCount, y.data());
  return y;
}

std::vector<float> run_matmul(const KernelTable& table) {
  constexpr int64_t kRows = 7, kInner = 777, kCols = 70;
  Operands operands(2);
  const std::vector<float> a = operands.take(kRows * kInner), w = operands.take(kCols * kInner);
  const std::vector<float> bias = operands.take(kCols);
  AlignedBuffer panels((kCols + kernels::kPanel - 1) / kernels::kPanel * kernels::kPanel * kInner);
  table.pack_panels(w.data(), kCols, kInner, panels.data());
  std::vector<float> c(kRows * kCols);
  table.matmul(a.data(), kInner, kRows, panels.data(), kInner, kCols, bias.data(), c.data(), kCols);
  return c;
}

std::vector<float> run_norm(const KernelTable& table, bool is_layer_norm) {
  constexpr int64_t kRows = 3, kWidth = 577;
  Operands operands(3);
  const std::vector<float> x = operands.take(kRows * kWidth), w = operands.take(kWidth);
  const std::vector<float> bias = operands.take(kWidth);
  std::vector<float> y(x.size());
  if (is_layer_norm)
    table.layer_norm(x.data(), kWidth, kRows, kWidth, w.data(), bias.data(), 1e-5f, y.data(), kWidth);
  else
    table.rms_norm(x.data(), kWidth, kRows, kWidth, w.data(), 1e-5f, true, y.data(), kWidth);
  return y;
}

std::vector<float> run_rope(const KernelTable& table) {
  constexpr int64_t kHeads = 3, kHeadDim = 52, kHalf = 21;
  Operands operands(4);
  std::vector<float> x = operands.take(kHeads * kHeadDim);
  const std::vector<float> cos = operands.take(kHalf), sin = operands.take(kHalf);
  table.rope(x.data(), kHeads, kHeadDim, kHalf, cos.data(), sin.data());
  return x;
}

std::vector<float> run_activation(const KernelTable& table) {
  constexpr int64_t kCount = 333;
  Operands operands(5);
  const std::vector<float> gate = operands.take(kCount), up = operands.take(kCount);
  std::vector<float> y(3 * kCount);
  const kernels::Activation kinds[] = {kernels::Activation::kSilu, kernels::Activation::kGelu,
                                       kernels::Activation::kGeluTanh};
  for (int64_t i = 0; i < 3; ++i) table.activate(kinds[i], gate.data(), up.data(), kCount, &y[i * kCount]);
  return y;
}

std::vector<float> run_attention(const KernelTable& table, int64_t window, float softcap) {
  constexpr int64_t kHeadDim = 24, kStride = 32, kGroup = 3, kSlots = 640, kFirst = 600, kPositions = 5;
  Operands operands(6);
  const std::vector<float> q = operands.take(kPositions * kGroup * kHeadDim);
  AlignedBuffer keys(kSlots * kHeadDim), values(kSlots * kStride);
  for (int64_t i = 0; i < kSlots * kHeadDim; ++i) keys.data()[i] = operands.next();
  for (int64_t i = 0; i < kSlots * kHeadDim; ++i)
    values.data()[i / kHeadDim * kStride + i % kHeadDim] = operands.next();
  AlignedBuffer scratch(table.attention_scratch(kHeadDim));
  std::vector<float> out(q.size());
  table.attention({.q = q.data(),
                   .ldq = kGroup * kHeadDim,
                   .k = keys.data(),
                   .v = values.data(),
                   .slots = kSlots,
                   .head_dim = kHeadDim,
                   .group = kGroup,
                   .pos0 = kFirst,
                   .n_pos = kPositions,
                   .window = window,
                   .scale = 0.75f,
                   .softcap = softcap,
                   .out = out.data(),
                   .ldo = kGroup * kHeadDim,
                   .scratch = scratch.data()});
  return out;
}

std::vector<float> run_block() {
  constexpr int64_t kWidth = 36, kHeads = 4, kKvHeads = 2, kHeadDim = 12, kInner = 50, kTokens = 70;
  Operands operands(7);
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> stored;
  const auto add = [&](const char* name, std::vector<int64_t> shape) {
    std::vector<float> values = operands.take(shape.size() == 1 ? shape[0] : shape[0] * shape[1]);
    stored[name] = {std::move(shape), std::move(values)};
  };
  add("input_layernorm.weight", {kWidth});
  add("post_attention_layernorm.weight", {kWidth});
  add("q_proj.weight", {kHeads * kHeadDim, kWidth});
  add("k_proj.weight", {kKvHeads * kHeadDim, kWidth});
  add("v_proj.weight", {kKvHeads * kHeadDim, kWidth});
  add("o_proj.weight", {kWidth, kHeads * kHeadDim});
  add("gate_proj.weight", {kInner, kWidth});
  add("up_proj.weight", {kInner, kWidth});
  add("down_proj.weight", {kWidth, kInner});
  WeightMap weights;
  for (const auto& [name, tensor] : stored)
    weights[name] = {DType::F32, tensor.first, reinterpret_cast<const std::byte*>(tensor.second.data())};
  TransformerOptions options;
  options.n_heads = kHeads;
  options.n_kv_heads = kKvHeads;
  options.head_dim = kHeadDim;
  options.window = 33;
  const std::vector<float> x = operands.take(kTokens * kWidth);
  std::vector<float> y(x.size());
  TransformerBlock(weights, options).forward(x.data(), 1, kTokens, y.data());
  return y;
}

struct KernelStage {
  const char* name;
  const char* expected;
  std::function<std::vector<float>(const KernelTable&)> run;
};

KernelStage unary_stage(const char* name, const char* expected, kernels::Unary kind) {
  return {name, expected, [kind](const KernelTable& table) { return run_unary(table, kind); }};
}

std::vector<KernelStage> kernel_stages() {
  using kernels::Unary;
  return {
      unary_stage("exp", "b3bf005bbaf40a4a", Unary::kExp),
      unary_stage("log", "169e12e1ad896479", Unary::kLog),
      unary_stage("log1p", "0e4c46e03695ae7e", Unary::kLog1p),
      unary_stage("expm1", "267b1da002c44e96", Unary::kExpm1),
      unary_stage("tanh", "68c3fa8136cf24b8", Unary::kTanh),
      unary_stage("erf", "d1df1a74842a5ce7", Unary::kErf),
      unary_stage("erfc", "32556525c663d8cc", Unary::kErfc),
      unary_stage("sigmoid", "e514468cb4717971", Unary::kSigmoid),
      unary_stage("softplus", "16f8f479248dd8ea", Unary::kSoftplus),
      unary_stage("silu", "21f013541674f928", Unary::kSilu),
      unary_stage("gelu", "7cf7bd6e4ad34984", Unary::kGelu),
      unary_stage("gelu_tanh", "090f1c13a6d39b43", Unary::kGeluTanh),
      unary_stage("sin", "19fffe8e23447505", Unary::kSin),
      unary_stage("cos", "30441b054ef46fe4", Unary::kCos),
      {"matrix product", "4047cff0d3dbedb8", run_matmul},
      {"RMSNorm", "f5cca1519f0ecf63", [](const KernelTable& table) { return run_norm(table, false); }},
      {"LayerNorm", "b5911d43b02732ca", [](const KernelTable& table) { return run_norm(table, true); }},
      {"rotary embedding", "3f98d686eb4186c1", run_rope},
      {"gated activation", "503b5c66630886af", run_activation},
      {"attention", "cb0b2accbc2e3d6f",
       [](const KernelTable& table) { return run_attention(table, 0, 0.0f); }},
      {"attention, window and softcap", "fae670991525813a",
       [](const KernelTable& table) { return run_attention(table, 300, 2.0f); }},
  };
}

}  // namespace

std::vector<StageDigest> test_kernels(const KernelTable& table) {
  const FpEnv environment;
  std::vector<StageDigest> results;
  for (const KernelStage& stage : kernel_stages())
    results.push_back({stage.name, stage.expected, digest(stage.run(table))});
  return results;
}

std::vector<StageDigest> self_test() {
  std::vector<StageDigest> results = test_kernels(kernels::active_table());
  results.push_back({"decoder block", "1a518457f765a5e9", digest(run_block())});
  return results;
}

}  // namespace isobit

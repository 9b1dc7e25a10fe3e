// SPDX-License-Identifier: Apache-2.0
// The stages of the self-test that are kernels: functions of one number, then what is built from them.
#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "core/aligned_buffer.h"
#include "isobit/weight_format.h"
#include "model/self_test.h"
#include "model/synthetic.h"
#include "ops/integer_matrix.h"

namespace isobit {
namespace {

using kernels::Activation;
using kernels::KernelTable;
using kernels::Unary;
using synthetic::values;

// Arguments of every magnitude from 2^-149 to 2^10 and all signs, for functions that take any number.
std::vector<float> any_arguments() {
  std::vector<float> x = values(1, 5000);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t exponent =
        i % 3 == 0 ? 127 + static_cast<uint32_t>(i) % 11 : static_cast<uint32_t>(i) % 131;
    x[i] = x[i] * std::bit_cast<float>(exponent << 23 | (exponent == 0 ? 1u : 0u));
  }
  return x;
}

// The same where a function is defined: log for x >= 0, log1p for x >= -1.
std::vector<float> arguments_of(Unary kind) {
  std::vector<float> x = any_arguments();
  for (float& v : x) {
    if (kind == Unary::kLog && v < 0.0f) v = -v;
    if (kind == Unary::kLog1p && v < -1.0f) v = -v;
  }
  return x;
}

void run_unary(const KernelTable& table, Unary kind, Sha256& hash) {
  const std::vector<float> x = arguments_of(kind);
  std::vector<float> y(x.size());
  table.unary(kind, x.data(), static_cast<int64_t>(x.size()), y.data());
  hash_values(hash, y);
}

void run_matmul(const KernelTable& table, Sha256& hash) {
  constexpr int64_t kInner = 777, kCols = 70;
  for (const int64_t rows : {1, 2, 7, 13}) {
    const std::vector<float> a = values(2, rows * kInner), w = values(3, kCols * kInner),
                             bias = values(4, kCols);
    AlignedBuffer panels((kCols + kernels::kPanel - 1) / kernels::kPanel * kernels::kPanel * kInner);
    table.pack_panels(w.data(), kCols, kInner, panels.data());
    std::vector<float> c(static_cast<size_t>(rows * kCols));
    table.matmul(a.data(), kInner, rows, panels.data(), kInner, kCols, bias.data(), c.data(), kCols);
    hash_values(hash, c);
  }
}

// One scale for each output, of a different power of two.
void run_matmul_stored(const KernelTable& table, WeightFormat format, Sha256& hash) {
  constexpr int64_t kInner = 777, kCols = 70, kPanels = 3, kElements = kPanels * kernels::kPanel * kInner;
  std::vector<uint16_t> bits(kElements);
  std::vector<int8_t> codes((kCols + kernels::kInt8Panel - 1) / kernels::kInt8Panel * kernels::kInt8Panel *
                            kInner);
  std::vector<float> scales(kPanels * kernels::kPanel);
  for (int64_t p = 0; p < kElements; ++p) {
    const int64_t column = p / (kInner * kernels::kPanel) * kernels::kPanel + p % kernels::kPanel;
    if (column >= kCols) continue;
    const auto at = static_cast<size_t>(p);
    const float x = synthetic::value(16, at);
    const int64_t i = p / kernels::kPanel % kInner;
    bits[static_cast<size_t>(kernels::bf16_index(column, i, kInner))] =
        static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
    codes[static_cast<size_t>(kernels::int8_index(column, i, kInner))] = static_cast<int8_t>(x * 127.0f);
    scales[static_cast<size_t>(column)] =
        std::bit_cast<float>((127u - static_cast<uint32_t>(column) % 9) << 23);
  }
  AlignedBuffer scratch(kernels::kPanel * kInner);
  for (const int64_t rows : {1, 2, 4, 13}) {
    const std::vector<float> a = values(2, rows * kInner), bias = values(4, kCols);
    std::vector<float> c(static_cast<size_t>(rows * kCols));
    if (format == WeightFormat::kBfloat16)
      table.matmul_bf16(a.data(), kInner, rows, bits.data(), kInner, kCols, bias.data(), c.data(), kCols,
                        scratch.data());
    else
      table.matmul_int8(a.data(), kInner, rows, codes.data(), scales.data(), kInner, kCols, bias.data(),
                        c.data(), kCols, scratch.data());
    hash_values(hash, c);
  }
}

// Exponents and magnitudes that differ from row to row.
std::vector<float> uneven(uint64_t seed, int64_t rows, int64_t k) {
  std::vector<float> x = values(seed, rows * k);
  for (int64_t i = 0; i < rows * k; ++i)
    x[static_cast<size_t>(i)] *= std::bit_cast<float>((120u + static_cast<uint32_t>(i / k % 9)) << 23);
  return x;
}

void hash_products(const KernelTable& table, const PackedMatrix& w, const std::vector<float>& bias,
                   Sha256& hash) {
  for (const int64_t rows : {1, 2, 7, 13}) {
    const std::vector<float> a = uneven(18, rows, w.k);
    std::vector<float> c(static_cast<size_t>(rows * w.n));
    ops::IntegerRows quantized;
    quantized.quantize(table, a.data(), w.k, rows, w);
    quantized.multiply(table, 0, rows, w, 0, w.n, bias.data(), c.data(), w.n);
    hash_values(hash, c);
  }
}

void run_matmul_integer(const KernelTable& table, NumericProfile profile, Sha256& hash) {
  constexpr int64_t kInner = 777, kCols = 70;
  const std::vector<float> w = uneven(17, kCols, kInner), bias = values(4, kCols);
  PackedMatrix packed;
  packed.n = kCols;
  packed.k = kInner;
  packed.profile = profile;
  SlabPool pool;
  ops::allocate_integer_panels(packed, pool);
  for (int64_t first = 0; first < kCols; first += kernels::kPanel)
    ops::pack_integer_panel(table, w.data() + first * kInner, first, std::min(kernels::kPanel, kCols - first),
                            packed);
  hash_products(table, packed, bias, hash);
}

// A file's blocks: any codes but -128, scales and minima of both signs below 2, subnormal ones among them.
std::vector<std::byte> file_blocks(uint64_t seed, BlockType type, int64_t blocks) {
  const int64_t bytes = block_bytes(type), halves = type == BlockType::kQ4_1 ? 4 : 2;
  std::vector<std::byte> row(static_cast<size_t>(blocks * bytes));
  for (size_t i = 0; i < row.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) % bytes;
    auto byte = static_cast<uint8_t>(synthetic::hash(seed, i));
    if (at < halves && at % 2 == 1) byte &= 0xbf;
    if (at >= halves && type == BlockType::kQ8_0 && byte == 0x80) byte = 0x7f;
    row[i] = std::byte{byte};
  }
  return row;
}

void run_matmul_blocks(const KernelTable& table, BlockType type, Sha256& hash) {
  constexpr int64_t kInner = 800, kCols = 70;
  const std::vector<float> bias = values(4, kCols);
  PackedMatrix packed;
  packed.n = kCols;
  packed.k = kInner;
  packed.profile = NumericProfile::kInt8x32V1;
  if (type != BlockType::kQ8_0) packed.kept = type;
  SlabPool pool;
  ops::allocate_integer_panels(packed, pool);
  for (int64_t row = 0; row < kCols; ++row) {
    const std::vector<std::byte> bytes = file_blocks(19 + static_cast<uint64_t>(row), type, kInner / 32);
    ops::keep_block_row({DType::U8, {1, kInner}, bytes.data(), type}, row, packed);
  }
  hash_products(table, packed, bias, hash);
}

enum class Norm { kRms, kRmsOffset, kLayer };

void run_norm(const KernelTable& table, Norm norm, Sha256& hash) {
  constexpr int64_t kRows = 3;
  for (const int64_t width : {1, 33, 577}) {
    const std::vector<float> x = values(5, kRows * width), w = values(6, width), bias = values(7, width);
    std::vector<float> y(x.size());
    if (norm == Norm::kLayer)
      table.layer_norm(x.data(), width, kRows, width, w.data(), bias.data(), 1e-5f, y.data(), width);
    else
      table.rms_norm(x.data(), width, kRows, width, w.data(), 1e-5f, norm == Norm::kRmsOffset, y.data(),
                     width);
    hash_values(hash, y);
  }
}

void run_rotation(const KernelTable& table, Sha256& hash) {
  constexpr int64_t kHeads = 3, kHeadDim = 52, kHalf = 21;
  std::vector<float> x = values(8, kHeads * kHeadDim);
  const std::vector<float> cosines = values(9, kHalf), sines = values(10, kHalf);
  table.rope(x.data(), kHeads, kHeadDim, kHalf, cosines.data(), sines.data());
  hash_values(hash, x);
}

void run_activation(const KernelTable& table, Activation kind, Sha256& hash) {
  constexpr int64_t kCount = 333;
  const std::vector<float> gate = values(11, kCount, 8.0f), up = values(12, kCount);
  std::vector<float> y(kCount);
  for (const float* factor : {up.data(), static_cast<const float*>(nullptr)}) {
    table.activate(kind, gate.data(), factor, kCount, y.data());
    hash_values(hash, y);
  }
}

void run_attention(const KernelTable& table, int64_t head_dim, int64_t window, float softcap, Sha256& hash) {
  constexpr int64_t kGroup = 3, kSlots = 640, kFirst = 600, kPositions = 5;
  const int64_t stride = (head_dim + 15) / 16 * 16;
  const std::vector<float> q = values(13, kPositions * kGroup * head_dim), k = values(14, kSlots * head_dim);
  AlignedBuffer v(kSlots * stride), scratch(table.attention_scratch(head_dim));
  for (int64_t i = 0; i < kSlots * head_dim; ++i)
    v.data()[i / head_dim * stride + i % head_dim] = synthetic::value(15, static_cast<uint64_t>(i));
  std::vector<float> out(q.size());
  table.attention({.q = q.data(),
                   .ldq = kGroup * head_dim,
                   .k = k.data(),
                   .v = v.data(),
                   .slots = kSlots,
                   .head_dim = head_dim,
                   .group = kGroup,
                   .pos0 = kFirst,
                   .n_pos = kPositions,
                   .window = window,
                   .scale = 0.75f,
                   .softcap = softcap,
                   .out = out.data(),
                   .ldo = kGroup * head_dim,
                   .scratch = scratch.data()});
  hash_values(hash, out);
}

}  // namespace

std::vector<GoldenCase> kernel_cases(const KernelTable& table) {
  std::vector<GoldenCase> cases;
  const std::pair<const char*, Unary> functions[] = {
      {"exp", Unary::kExp},     {"log", Unary::kLog},         {"log1p", Unary::kLog1p},
      {"expm1", Unary::kExpm1}, {"tanh", Unary::kTanh},       {"erf", Unary::kErf},
      {"erfc", Unary::kErfc},   {"sigmoid", Unary::kSigmoid}, {"softplus", Unary::kSoftplus},
      {"silu", Unary::kSilu},   {"gelu", Unary::kGelu},       {"gelu_tanh", Unary::kGeluTanh},
      {"sin", Unary::kSin},     {"cos", Unary::kCos},         {"relu", Unary::kRelu}};
  for (const auto& [name, kind] : functions)
    cases.push_back({name, [&table, kind = kind](Sha256& hash) { run_unary(table, kind, hash); }});
  cases.push_back({"matrix product", [&table](Sha256& hash) { run_matmul(table, hash); }});
  for (const WeightFormat format : {WeightFormat::kBfloat16, WeightFormat::kInt8})
    cases.push_back({std::string("matrix product, ") + to_string(format),
                     [&table, format](Sha256& hash) { run_matmul_stored(table, format, hash); }});
  for (const NumericProfile profile : {NumericProfile::kFixed15V1, NumericProfile::kInt8x32V1})
    cases.push_back({std::string("matrix product, ") + to_string(profile),
                     [&table, profile](Sha256& hash) { run_matmul_integer(table, profile, hash); }});
  const std::pair<const char*, BlockType> blocks[] = {
      {"Q8_0", BlockType::kQ8_0}, {"Q4_0", BlockType::kQ4_0}, {"Q4_1", BlockType::kQ4_1}};
  for (const auto& [name, type] : blocks)
    cases.push_back({std::string("matrix product, ") + name + " blocks",
                     [&table, type = type](Sha256& hash) { run_matmul_blocks(table, type, hash); }});
  const std::pair<const char*, Norm> norms[] = {
      {"RMSNorm", Norm::kRms}, {"RMSNorm, offset", Norm::kRmsOffset}, {"LayerNorm", Norm::kLayer}};
  for (const auto& [name, norm] : norms)
    cases.push_back({name, [&table, norm = norm](Sha256& hash) { run_norm(table, norm, hash); }});
  cases.push_back({"rotation", [&table](Sha256& hash) { run_rotation(table, hash); }});
  const std::tuple<const char*, int64_t, int64_t, float> attentions[] = {
      {"attention", 24, 0, 0.0f},
      {"attention, window", 24, 300, 0.0f},
      {"attention, softcap", 24, 0, 2.0f},
      {"attention, two blocks of a head", 260, 0, 0.0f}};
  for (const auto& [name, head_dim, window, softcap] : attentions)
    cases.push_back({name, [&table, head_dim = head_dim, window = window, softcap = softcap](Sha256& hash) {
                       run_attention(table, head_dim, window, softcap, hash);
                     }});
  const std::pair<const char*, Activation> activations[] = {{"gated silu", Activation::kSilu},
                                                            {"gated gelu", Activation::kGelu},
                                                            {"gated gelu_tanh", Activation::kGeluTanh}};
  for (const auto& [name, kind] : activations)
    cases.push_back({name, [&table, kind = kind](Sha256& hash) { run_activation(table, kind, hash); }});
  return cases;
}

}  // namespace isobit

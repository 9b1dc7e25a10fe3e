// SPDX-License-Identifier: Apache-2.0
// float32 from the floating-point types that it holds exactly, by integer arithmetic alone, so that no
// rounding mode can matter; and from blocks of codes.
#include <bit>
#include <cstring>

#include "isobit/error.h"
#include "isobit/safetensors.h"

namespace isobit {
namespace {

uint32_t widen_bf16_bits(uint16_t half) { return static_cast<uint32_t>(half) << 16; }

/// 1 sign, 5 exponent (bias 15), 10 fraction bits -> 1, 8 (bias 127), 23. A NaN keeps its payload in the high
/// bits.
uint32_t widen_f16_bits(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t fraction = half & 0x3ffu;
  if (exponent == 31) return sign | 0x7f800000u | fraction << 13;
  if (exponent != 0) return sign | (exponent + 127 - 15) << 23 | fraction << 13;
  if (fraction == 0) return sign;
  // Subnormal: value = fraction * 2^-24. Shift its leading one to the implicit place, bit 10.
  const uint32_t shift = static_cast<uint32_t>(std::countl_zero(fraction)) - 21;
  fraction = fraction << shift & 0x3ffu;
  return sign | (127 - 14 - shift) << 23 | fraction << 13;
}

template <class Widen>
void widen_16bit(const std::byte* src, int64_t n, float* dst, Widen widen) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t half;
    std::memcpy(&half, src + 2 * i, sizeof half);
    const uint32_t bits = widen(half);
    std::memcpy(dst + i, &bits, sizeof bits);  // as bytes, so that a signalling NaN stays one
  }
}

float f16_at(const std::byte* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof half);
  return std::bit_cast<float>(widen_f16_bits(half));
}

void widen_blocks(const TensorView& src, float* dst) {
  const bool has_min = src.blocks == BlockType::kQ4_1;
  const std::byte* p = src.data;
  for (int64_t b = 0; b < src.size() / kBlockValues; ++b, p += block_bytes(src.blocks), dst += kBlockValues) {
    const float d = f16_at(p), m = has_min ? f16_at(p + 2) : 0.0f;
    const std::byte* codes = p + (has_min ? 4 : 2);
    if (src.blocks == BlockType::kQ8_0) {
      for (int i = 0; i < kBlockValues; ++i)
        dst[i] = d * static_cast<float>(std::to_integer<int8_t>(codes[i]));
      continue;
    }
    for (int i = 0; i < 16; ++i) {
      const int low = std::to_integer<int>(codes[i] & std::byte{15});
      const int high = std::to_integer<int>(codes[i] >> 4);
      dst[i] = has_min ? d * static_cast<float>(low) + m : d * static_cast<float>(low - 8);
      dst[i + 16] = has_min ? d * static_cast<float>(high) + m : d * static_cast<float>(high - 8);
    }
  }
}

}  // namespace

void widen_to_f32(const TensorView& src, float* dst) {
  if (src.blocks != BlockType::kNone) return widen_blocks(src, dst);
  const int64_t n = src.size();
  switch (src.dtype) {
    case DType::F32:
      if (n > 0) std::memcpy(dst, src.data, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::BF16:
      return widen_16bit(src.data, n, dst, widen_bf16_bits);
    case DType::F16:
      return widen_16bit(src.data, n, dst, widen_f16_bits);
    default:
      throw TypeError(std::string("[widen_to_f32] src: expected F32, BF16 or F16, got ") +
                      dtype_name(src.dtype));
  }
}

}  // namespace isobit

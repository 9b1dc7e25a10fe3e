// SPDX-License-Identifier: Apache-2.0
// A borrowed, contiguous, row-major tensor: what weights look like before the library packs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace isobit {

/// Element types, named as in safetensors.
enum class DType { F32, F16, BF16, F64, I8, U8, I16, U16, I32, U32, I64, U64, BOOL };

/// Bytes of one element.
int64_t itemsize(DType dtype);
/// The safetensors spelling: "F32", "BF16", ...
const char* dtype_name(DType dtype);

/// Blocks of 32 numbers of a row as GGUF stores them, each with a binary16 scale d (and minimum m).
enum class BlockType {
  kNone,
  kQ8_0,  ///< d, 32 int8 q: d*q
  kQ4_0,  ///< d, 16 bytes of two codes q in 0..15: d*(q - 8)
  kQ4_1,  ///< d, m, 16 bytes of two codes q in 0..15: d*q + m
};
constexpr int64_t kBlockValues = 32;
/// "Q8_0"; parse_block_type gives kNone for a name that is none.
const char* to_string(BlockType type);
BlockType parse_block_type(const std::string& name);
/// Of one block: 34, 18, 20.
int64_t block_bytes(BlockType type);

class MappedFile;

/// A view of memory that somebody else keeps alive, or that lies in a mapped file. `data` need not be
/// aligned.
struct TensorView {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  BlockType blocks = BlockType::kNone;  ///< else dtype is U8 and data holds blocks of the last dimension
  std::shared_ptr<const MappedFile> file = {};  ///< what `data` lies in, which stays open; null: memory

  int64_t size() const {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
  int64_t bytes() const;
  /// Rows [begin, end) of a tensor of rank >= 1.
  TensorView rows(int64_t begin, int64_t end) const;
};

/// Weights of one block by their documented names ("q_proj.weight", ...).
using WeightMap = std::map<std::string, TensorView>;

}  // namespace isobit

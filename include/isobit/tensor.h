// SPDX-License-Identifier: Apache-2.0
// A borrowed, contiguous, row-major tensor: what weights look like before the library packs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace isobit {

/// Element types, named as in safetensors.
enum class DType { F32, F16, BF16, F64, I8, U8, I16, U16, I32, U32, I64, U64, BOOL };

/// Bytes of one element.
int64_t itemsize(DType dtype);
/// The safetensors spelling: "F32", "BF16", ...
const char* dtype_name(DType dtype);

/// A view of memory that somebody else keeps alive. `data` need not be aligned.
struct TensorView {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;

  int64_t size() const {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
  /// Rows [begin, end) of a tensor of rank >= 1.
  TensorView rows(int64_t begin, int64_t end) const;
};

/// Weights of one block by their documented names ("q_proj.weight", ...).
using WeightMap = std::map<std::string, TensorView>;

}  // namespace isobit

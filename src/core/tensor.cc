// SPDX-License-Identifier: Apache-2.0
// Element types and row slices of borrowed tensors.
#include "isobit/tensor.h"

#include "isobit/error.h"

namespace isobit {

int64_t itemsize(DType dtype) {
  switch (dtype) {
    case DType::I8:
    case DType::U8:
    case DType::BOOL:
      return 1;
    case DType::F16:
    case DType::BF16:
    case DType::I16:
    case DType::U16:
      return 2;
    case DType::F32:
    case DType::I32:
    case DType::U32:
      return 4;
    case DType::F64:
    case DType::I64:
    case DType::U64:
      return 8;
  }
  throw TypeError("[itemsize] dtype: expected a member of DType, got " +
                  std::to_string(static_cast<int>(dtype)));
}

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return "F32";
    case DType::F16:
      return "F16";
    case DType::BF16:
      return "BF16";
    case DType::F64:
      return "F64";
    case DType::I8:
      return "I8";
    case DType::U8:
      return "U8";
    case DType::I16:
      return "I16";
    case DType::U16:
      return "U16";
    case DType::I32:
      return "I32";
    case DType::U32:
      return "U32";
    case DType::I64:
      return "I64";
    case DType::U64:
      return "U64";
    case DType::BOOL:
      return "BOOL";
  }
  throw TypeError("[dtype_name] dtype: expected a member of DType, got " +
                  std::to_string(static_cast<int>(dtype)));
}

const char* to_string(BlockType type) {
  switch (type) {
    case BlockType::kNone:
      return "none";
    case BlockType::kQ8_0:
      return "Q8_0";
    case BlockType::kQ4_0:
      return "Q4_0";
    case BlockType::kQ4_1:
      return "Q4_1";
  }
  throw TypeError("[BlockType] type: expected a member of its enumeration, got " +
                  std::to_string(static_cast<int>(type)));
}

BlockType parse_block_type(const std::string& name) {
  for (const BlockType type : {BlockType::kQ8_0, BlockType::kQ4_0, BlockType::kQ4_1})
    if (name == to_string(type)) return type;
  return BlockType::kNone;
}

int64_t block_bytes(BlockType type) {
  switch (type) {
    case BlockType::kNone:
      return 0;
    case BlockType::kQ8_0:
      return 34;
    case BlockType::kQ4_0:
      return 18;
    case BlockType::kQ4_1:
      return 20;
  }
  return 0;
}

int64_t TensorView::bytes() const {
  return blocks == BlockType::kNone ? size() * itemsize(dtype) : size() / kBlockValues * block_bytes(blocks);
}

TensorView TensorView::rows(int64_t begin, int64_t end) const {
  if (shape.empty())
    throw ValueError("[TensorView::rows] shape: expected a rank of at least 1, got a scalar");
  if (begin < 0 || end < begin || end > shape[0])
    throw ValueError("[TensorView::rows] range: expected 0 <= begin <= end <= " + std::to_string(shape[0]) +
                     ", got " + std::to_string(begin) + ".." + std::to_string(end));
  TensorView out = *this;
  out.shape[0] = 1;
  const int64_t row_bytes = out.bytes();
  out.shape[0] = end - begin;
  if (row_bytes > 0) out.data += begin * row_bytes;
  return out;
}

}  // namespace isobit

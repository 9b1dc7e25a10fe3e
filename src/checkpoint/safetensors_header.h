// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file, parsed and checked from memory: u64 length, JSON of that length, data
// section.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "isobit/safetensors.h"
#include "isobit/tensor.h"

namespace isobit {

/// Longest JSON header, in bytes; the limit of the format's own reader.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct SafetensorsHeader {
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  size_t data_begin = 0;  ///< offset of the data section in the file
};

/// Checks everything the format demands of the whole file: the tensors tile the data section exactly, shapes
/// and offsets agree, no key occurs twice. ValueError, opened by `where`, otherwise.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& where);

/// The element type with this spelling, if the library reads it.
std::optional<DType> parse_dtype(const std::string& name);

}  // namespace isobit

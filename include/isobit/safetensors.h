// SPDX-License-Identifier: Apache-2.0
// The safetensors format (https://huggingface.co/docs/safetensors): reading by mmap, checking everything, and
// writing.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "isobit/tensor.h"

namespace isobit {

struct TensorInfo {
  std::string name;
  std::string dtype;  ///< as spelled in the file; may be one that read() does not know
  std::vector<int64_t> shape;
  int64_t begin = 0;  ///< byte offsets in the data section
  int64_t end = 0;
  std::filesystem::path file;
};

/// One open file. Throws ValueError for a malformed file, FileNotFound when it is missing.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  std::vector<std::string> names() const;  ///< sorted
  bool contains(const std::string& name) const;
  const TensorInfo& info(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const;
  /// A view into the mapping, which lives as long as the view. TypeError for an unknown dtype.
  TensorView view(const std::string& name) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// A checkpoint directory or file: model.safetensors.index.json, model.safetensors, or exactly one
/// *.safetensors.
class Checkpoint {
 public:
  static Checkpoint open(const std::filesystem::path& path);
  std::vector<std::string> names() const;  ///< sorted
  bool contains(const std::string& name) const;
  const TensorInfo& info(const std::string& name) const;
  TensorView view(const std::string& name) const;
  /// As view, but a tensor that `isobit convert --keep-quantized` left in blocks is one of its true shape.
  /// ValueError where the file's word on that does not fit the tensor.
  TensorView weight(const std::string& name) const;
  BlockType block_type(const std::string& name) const;

 private:
  Checkpoint() = default;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Writes names sorted, header padded with spaces to a multiple of 8; atomically (temporary file, fsync,
/// rename).
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// dst[i] = float32 of element i: F32 copied, BF16 and F16 widened exactly, blocks by their formula (of Q4_1
/// rounded once). TypeError for other dtypes.
void widen_to_f32(const TensorView& src, float* dst);

}  // namespace isobit

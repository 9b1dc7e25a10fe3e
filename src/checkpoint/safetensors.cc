// SPDX-License-Identifier: Apache-2.0
// One safetensors file: the mapping and its checked header, shared by all copies of the handle.
#include "isobit/safetensors.h"

#include "checkpoint/file_io.h"
#include "checkpoint/json.h"
#include "checkpoint/safetensors_header.h"
#include "isobit/error.h"

namespace isobit {

struct SafetensorsFile::Impl {
  explicit Impl(const std::filesystem::path& path)
      : path(path),
        file(path, "SafetensorsFile"),
        header(parse_safetensors_header(file.bytes(), "[SafetensorsFile] " + path.string())) {
    for (auto& [name, info] : header.tensors) info.file = path;
  }

  std::filesystem::path path;
  MappedFile file;
  SafetensorsHeader header;
};

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : impl_(std::make_shared<Impl>(path)) {}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> out;
  for (const auto& [name, info] : impl_->header.tensors) out.push_back(name);
  return out;
}

bool SafetensorsFile::contains(const std::string& name) const { return impl_->header.tensors.contains(name); }

const TensorInfo& SafetensorsFile::info(const std::string& name) const {
  const auto found = impl_->header.tensors.find(name);
  if (found == impl_->header.tensors.end())
    throw ValueError("[SafetensorsFile] name: expected a tensor of " + impl_->path.string() + ", got " +
                     quote(name));
  return found->second;
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return impl_->header.metadata; }

TensorView SafetensorsFile::view(const std::string& name) const {
  const TensorInfo& found = info(name);
  const auto dtype = parse_dtype(found.dtype);
  if (!dtype)
    throw TypeError("[SafetensorsFile] " + impl_->path.string() + ": tensor " + quote(name) +
                    ": expected a dtype that can be read, got " + quote(found.dtype));
  impl_->file.check_whole();
  return {.dtype = *dtype,
          .shape = found.shape,
          .data = impl_->file.bytes().data() + impl_->header.data_begin + found.begin,
          .file = {impl_, &impl_->file}};
}

}  // namespace isobit

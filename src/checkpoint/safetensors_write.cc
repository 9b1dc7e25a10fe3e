// SPDX-License-Identifier: Apache-2.0
// Writing a safetensors file: names sorted, data in the order of the names, the header padded to a multiple
// of 8.
#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/file_io.h"
#include "checkpoint/json.h"
#include "checkpoint/safetensors_header.h"
#include "isobit/error.h"
#include "isobit/safetensors.h"

namespace isobit {
namespace {

constexpr const char* kWho = "[write_safetensors] ";

/// Bytes of a tensor, checked.
int64_t checked_nbytes(const std::string& name, const TensorView& tensor) {
  int64_t nbytes = itemsize(tensor.dtype);
  for (int64_t extent : tensor.shape)
    if (extent < 0 || __builtin_mul_overflow(nbytes, extent, &nbytes))
      throw ValueError(kWho + quote(name) +
                       ": expected a shape of non-negative extents whose size fits 63 bits, got " +
                       show(nlohmann::json(tensor.shape)));
  if (nbytes > 0 && tensor.data == nullptr)
    throw ValueError(kWho + quote(name) + ": expected data, got a null pointer");
  return nbytes;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::vector<std::span<const std::byte>> pieces(1);  // the first is the header
  int64_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__")
      throw ValueError(std::string(kWho) + "name: expected a tensor name, got \"__metadata__\"");
    const int64_t nbytes = checked_nbytes(name, tensor);
    int64_t end = 0;
    if (__builtin_add_overflow(begin, nbytes, &end))
      throw ValueError(kWho + quote(name) + ": expected a total size that fits 63 bits, got more");
    header[name] = {
        {"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    pieces.emplace_back(tensor.data, static_cast<size_t>(nbytes));
    begin = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw ValueError(std::string(kWho) + "names: expected names and metadata in UTF-8, got other bytes");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes)
    throw ValueError(std::string(kWho) + "header: expected at most " + std::to_string(kMaxHeaderBytes) +
                     " bytes, got " + std::to_string(text.size()));
  const uint64_t length = text.size();
  char prefix[sizeof length];
  std::memcpy(prefix, &length, sizeof length);
  text.insert(0, prefix, sizeof length);
  pieces[0] = std::as_bytes(std::span(text));
  write_atomically(path, pieces, "write_safetensors");
}

}  // namespace isobit

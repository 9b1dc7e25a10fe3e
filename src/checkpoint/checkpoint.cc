// SPDX-License-Identifier: Apache-2.0
// A checkpoint directory: which files belong to it and which of them each tensor is read from.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/file_io.h"
#include "checkpoint/json.h"
#include "isobit/error.h"
#include "isobit/safetensors.h"

namespace isobit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWho = "Checkpoint";
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = 100'000'000;
constexpr const char* kSingleName = "model.safetensors";

std::string at(const fs::path& path) { return "[Checkpoint] " + path.string() + ": "; }

/// "a, b, c" of at most five, then how many in all.
std::string list(const std::vector<std::string>& items) {
  constexpr size_t kShown = 5;
  std::string out;
  for (size_t i = 0; i < std::min(items.size(), kShown); ++i) out += (i > 0 ? ", " : "") + quote(items[i]);
  if (items.size() > kShown) out += ", ... (" + std::to_string(items.size()) + " in all)";
  return out;
}

/// The index decides where things are read from, so it must not reach outside the directory.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

bool present(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

/// weight_map of an index file: tensor name -> shard name.
std::map<std::string, std::string> read_weight_map(const fs::path& path) {
  const MappedFile file(path, kWho, kMaxIndexBytes);
  const nlohmann::json index = parse_json(file.text(), "[Checkpoint] " + path.string());
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw ValueError(at(path) + "expected an object with an object \"weight_map\", got " + show(index));
  std::map<std::string, std::string> weight_map;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    if (!shard.is_string() || !is_plain_file_name(shard.get<std::string>()))
      throw ValueError(at(path) + "weight_map: expected a plain file name for " + quote(name) + ", got " +
                       show(shard));
    weight_map[name] = shard;
  }
  return weight_map;
}

}  // namespace

struct Checkpoint::Impl {
  fs::path path;
  std::map<std::string, SafetensorsFile> source;  ///< tensor name -> the file it is read from

  void add_file(const fs::path& file_path) {
    const SafetensorsFile file(file_path);
    for (const std::string& name : file.names()) source.emplace(name, file);
  }

  /// The index is authoritative: a copy of a tensor in another shard than the named one is never read. What
  /// the index does not mention at all is offered too, so that a reader can refuse it instead of losing it
  /// silently.
  void add_index(const fs::path& index_path) {
    const auto weight_map = read_weight_map(index_path);
    std::map<std::string, fs::path> shard_paths;
    for (const auto& [name, shard] : weight_map) shard_paths[shard] = index_path.parent_path() / shard;
    std::vector<std::string> missing;
    for (const auto& [shard, shard_path] : shard_paths)
      if (file_type_at(shard_path, kWho) == fs::file_type::not_found) missing.push_back(shard);
    if (!missing.empty())
      throw FileNotFound(at(index_path) + "expected every shard of the index beside it, missing are " +
                         list(missing));

    std::map<std::string, SafetensorsFile> shards;
    for (const auto& [shard, shard_path] : shard_paths) shards.emplace(shard, SafetensorsFile(shard_path));
    std::vector<std::string> absent;
    for (const auto& [name, shard] : weight_map) {
      const SafetensorsFile& file = shards.at(shard);
      if (!file.contains(name)) absent.push_back(name);
      source.emplace(name, file);
    }
    if (!absent.empty())
      throw ValueError(at(index_path) +
                       "expected every tensor in the shard that the index names, absent are " + list(absent));
    for (const auto& [shard, file] : shards)
      for (const std::string& name : file.names())
        if (!weight_map.contains(name) && !source.emplace(name, file).second)
          throw ValueError(at(index_path) + "expected one shard for " + quote(name) +
                           ", got two, and the index names neither");
  }

  void add_directory() {
    if (present(path / kIndexName)) return add_index(path / kIndexName);
    if (present(path / kSingleName)) return add_file(path / kSingleName);
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".safetensors") found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    const std::string expected =
        std::string("expected ") + kIndexName + ", " + kSingleName + " or one *.safetensors, ";
    const bool pickled =
        present(path / "pytorch_model.bin") || present(path / "pytorch_model.bin.index.json");
    if (found.empty())
      throw FileNotFound(at(path) + expected +
                         (pickled ? "got pickled weights (pytorch_model.bin), whose tensors only "
                                    "CausalLM.load of the Python package reads"
                                  : "got none of them"));
    if (found.size() > 1) throw ValueError(at(path) + expected + "got " + list(found));
    add_file(path / found[0]);
  }

  const SafetensorsFile& file_of(const std::string& name) const {
    const auto found = source.find(name);
    if (found == source.end())
      throw ValueError(at(path) + "name: expected a tensor of the checkpoint, got " + quote(name));
    return found->second;
  }
};

Checkpoint Checkpoint::open(const fs::path& path) {
  const auto impl = std::make_shared<Impl>();
  impl->path = path;
  try {
    if (file_type_at(path, kWho) == fs::file_type::directory) {
      impl->add_directory();
    } else {
      impl->add_file(path);
    }
  } catch (const fs::filesystem_error& error) {
    throw ValueError(at(path) + "expected a readable directory, got \"" + error.code().message() + "\"");
  }
  Checkpoint checkpoint;
  checkpoint.impl_ = impl;
  return checkpoint;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> out;
  for (const auto& [name, file] : impl_->source) out.push_back(name);
  return out;
}

bool Checkpoint::contains(const std::string& name) const { return impl_->source.contains(name); }
const TensorInfo& Checkpoint::info(const std::string& name) const { return impl_->file_of(name).info(name); }
TensorView Checkpoint::view(const std::string& name) const { return impl_->file_of(name).view(name); }

// The writer's word: metadata "isobit.blocks.NAME" = "Q8_0" for a U8 tensor [rows, bytes of a row].
BlockType Checkpoint::block_type(const std::string& name) const {
  const auto& metadata = impl_->file_of(name).metadata();
  const auto word = metadata.find("isobit.blocks." + name);
  if (word == metadata.end()) return BlockType::kNone;
  const BlockType type = parse_block_type(word->second);
  if (type == BlockType::kNone)
    throw ValueError(at(impl_->path) + quote(name) + ": expected blocks of Q8_0, Q4_0 or Q4_1, got " +
                     quote(word->second));
  return type;
}

TensorView Checkpoint::weight(const std::string& name) const {
  TensorView t = view(name);
  t.blocks = block_type(name);
  if (t.blocks == BlockType::kNone) return t;
  const int64_t bytes = block_bytes(t.blocks);
  if (t.dtype != DType::U8 || t.shape.size() != 2 || t.shape[1] % bytes != 0)
    throw ValueError(at(impl_->path) + quote(name) + ": expected U8 rows of a multiple of " +
                     std::to_string(bytes) + " bytes, got " + dtype_name(t.dtype) + " of rank " +
                     std::to_string(t.shape.size()));
  t.shape[1] = t.shape[1] / bytes * kBlockValues;
  return t;
}

}  // namespace isobit

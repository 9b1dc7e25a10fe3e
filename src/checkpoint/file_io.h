// SPDX-License-Identifier: Apache-2.0
// Files as the checkpoint code sees them: regular files mapped read-only, and files replaced atomically.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isobit {

/// A regular file mapped read-only. Throws FileNotFound when it is missing and ValueError when it is a
/// directory, a FIFO or a device, is longer than max_bytes, cannot be read, or lies in a loop of symbolic
/// links. `who` opens the messages.
class MappedFile {
 public:
  MappedFile(const std::filesystem::path& path, const std::string& who, size_t max_bytes = SIZE_MAX);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  /// ValueError where the file has become shorter than what is mapped: touching the lost pages would end the
  /// process. What is cut off after the check is not seen.
  void check_whole() const;
  /// ValueError where it has been written since it was opened, as far as its length and its times tell.
  void check_unchanged() const;
  /// Tells the kernel that the whole pages inside `part` will not be needed again; they stay readable.
  void drop(std::span<const std::byte> part) const;

 private:
  std::filesystem::path path_;
  std::string who_;
  int fd_ = -1;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  struct stat opened_ = {};
};

/// What lies at a path after symbolic links are followed. Throws as MappedFile does, but not for a missing
/// path.
std::filesystem::file_type file_type_at(const std::filesystem::path& path, const std::string& who);

/// Replaces `path` by the concatenation of the pieces: temporary file in the same directory, fsync, rename.
/// Symbolic links are followed, a file that is there keeps its mode, and anything there that is no regular
/// file is refused. On any throw the old file is as before.
void write_atomically(const std::filesystem::path& path,
                      const std::vector<std::span<const std::byte>>& pieces, const std::string& who);

}  // namespace isobit

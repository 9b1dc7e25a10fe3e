// SPDX-License-Identifier: Apache-2.0
// POSIX calls behind file_io.h, with their errors as exceptions.
#include "checkpoint/file_io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "isobit/error.h"

namespace isobit {
namespace {

std::string message(const std::string& who, const std::filesystem::path& path, const std::string& expected,
                    const std::string& got) {
  return "[" + who + "] " + path.string() + ": expected " + expected + ", got " + got;
}

[[noreturn]] void throw_errno(const std::string& who, const std::filesystem::path& path,
                              const std::string& expected) {
  const int code = errno;
  const std::string what = message(who, path, expected, "\"" + std::generic_category().message(code) + "\"");
  if (code == ENOENT || code == ENOTDIR) throw FileNotFound(what);
  throw ValueError(what);
}

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

struct stat stat_regular(int fd, const std::filesystem::path& path, const std::string& who) {
  struct stat info;
  const int rc = fd < 0 ? ::stat(path.c_str(), &info) : ::fstat(fd, &info);
  if (rc != 0) throw_errno(who, path, "a readable file");
  if (!S_ISREG(info.st_mode)) throw ValueError(message(who, path, "a regular file", kind_of(info.st_mode)));
  return info;
}

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path,
               const std::string& who) {
  while (!bytes.empty()) {
    // One call moves at most 2 GiB on Linux, and INT_MAX is an error on macOS.
    const size_t piece = std::min<size_t>(bytes.size(), size_t{1} << 30);
    const ssize_t n = ::write(fd, bytes.data(), piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(who, path, "a writable file");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

/// Removes the temporary file unless the rename happened.
struct TemporaryFile {
  std::filesystem::path path;
  bool renamed = false;
  ~TemporaryFile() {
    if (!renamed) ::unlink(path.c_str());
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, const std::string& who, size_t max_bytes)
    : path_(path), who_(who) {
  stat_regular(-1, path, who);  // before open(), which blocks on a FIFO and may act on a device
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw_errno(who, path, "a readable file");
  opened_ = stat_regular(file.get(), path, who);
  size_ = static_cast<size_t>(opened_.st_size);
  if (size_ > max_bytes)
    throw ValueError(
        message(who, path, "at most " + std::to_string(max_bytes) + " bytes", std::to_string(size_)));
  if (size_ == 0) return;  // mmap refuses an empty range
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) throw_errno(who, path, "a file that can be mapped");
  data_ = static_cast<std::byte*>(address);
  fd_ = file.release();
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::check_whole() const {
  if (fd_ < 0) return;
  const auto now = static_cast<size_t>(stat_regular(fd_, path_, who_).st_size);
  if (now < size_)
    throw ValueError(message(who_, path_,
                             "the " + std::to_string(size_) + " bytes that it had when it was opened",
                             std::to_string(now)));
}

// A write whose time was set back still shows in the time of the inode's change, which links, owners and
// permissions move as well.
void MappedFile::check_unchanged() const {
  if (fd_ < 0) return;
  const struct stat now = stat_regular(fd_, path_, who_);
  const auto same_time = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  const bool explained = now.st_nlink != opened_.st_nlink || now.st_mode != opened_.st_mode ||
                         now.st_uid != opened_.st_uid || now.st_gid != opened_.st_gid;
  if (now.st_size != opened_.st_size || !same_time(now.st_mtim, opened_.st_mtim) ||
      (!explained && !same_time(now.st_ctim, opened_.st_ctim)))
    throw ValueError(message(who_, path_, "the file as it was opened", "one that was written since"));
}

void MappedFile::drop(std::span<const std::byte> part) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = static_cast<size_t>(part.data() - data_);
  const size_t first = (begin + page - 1) / page * page;
  const size_t last = (begin + part.size()) / page * page;
  // Advice only: a failure loses nothing.
  if (first < last) ::madvise(data_ + first, last - first, MADV_DONTNEED);
}

std::filesystem::file_type file_type_at(const std::filesystem::path& path, const std::string& who) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::none)
    throw ValueError(message(who, path, "a readable path", "\"" + error.message() + "\""));
  return type;
}

namespace {

/// Where a path leads, also where nothing lies at its end. A loop of links has been refused before.
std::filesystem::path followed(std::filesystem::path path) {
  std::error_code error;
  while (std::filesystem::is_symlink(path, error))
    path = path.parent_path() / std::filesystem::read_symlink(path);
  return path;
}

}  // namespace

void write_atomically(const std::filesystem::path& link,
                      const std::vector<std::span<const std::byte>>& pieces, const std::string& who) {
  std::optional<mode_t> mode;
  if (file_type_at(link, who) != std::filesystem::file_type::not_found)
    mode = stat_regular(-1, link, who).st_mode & 07777;
  const std::filesystem::path path = followed(link);
  static std::atomic<uint64_t> counter{0};
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  std::string name(".");
  name +=
      path.filename().string() + "." + std::to_string(::getpid()) + "." + std::to_string(counter++) + ".tmp";
  TemporaryFile temporary{directory / name};
  {
    const Descriptor file(
        ::open(temporary.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode.value_or(0666) & 0666));
    if (file.get() < 0) {
      temporary.renamed = true;  // not created by us: leave whatever has that name
      throw_errno(who, path, "a directory that can be written");
    }
    for (const auto& piece : pieces) write_all(file.get(), piece, path, who);
    // After the data: a mode without write permission is no hindrance, and writing clears set-user-id.
    if (mode && ::fchmod(file.get(), *mode) != 0) throw_errno(who, path, "a mode that can be kept");
    if (::fsync(file.get()) != 0) throw_errno(who, path, "a file that reaches the disk");
  }
  if (::rename(temporary.path.c_str(), path.c_str()) != 0)
    throw_errno(who, path, "a name that can be replaced");
  temporary.renamed = true;
  // The rename itself reaches the disk with the directory; some file systems do not offer this, so no error.
  const Descriptor parent(::open(directory.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (parent.get() >= 0) ::fsync(parent.get());
}

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Float storage aligned for any vector load, zero at first; pages are touched only when written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace isobit {

class AlignedBuffer {
  friend class SlabPool;

 public:
  AlignedBuffer() = default;
  /// Throws std::bad_alloc.
  explicit AlignedBuffer(int64_t floats);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        slab_(std::move(other.slab_)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(slab_, other.slab_);
    return *this;
  }

  float* data() { return data_; }
  const float* data() const { return data_; }
  int64_t size() const { return size_; }
  /// Replaced by a zeroed one when smaller than `floats`.
  float* at_least(int64_t floats) {
    if (size_ < floats) *this = AlignedBuffer(floats);
    return data_;
  }

 private:
  float* data_ = nullptr;
  int64_t size_ = 0;
  std::shared_ptr<AlignedBuffer> slab_;  // what data_ points into, if it is not a mapping of its own
};

/// Buffers carved from large slabs that share huge pages, so that streaming many matrices of a megabyte each
/// does not stall on address translation. A slab is freed with the last buffer in it: one pool for what lives
/// equally long.
class SlabPool {
 public:
  AlignedBuffer take(int64_t floats);

 private:
  std::mutex mutex_;
  std::weak_ptr<AlignedBuffer> current_;
  int64_t used_ = 0;
};

}  // namespace isobit

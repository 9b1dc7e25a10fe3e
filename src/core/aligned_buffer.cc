// SPDX-License-Identifier: Apache-2.0
#include "core/aligned_buffer.h"

#include <sys/mman.h>

#include <limits>
#include <new>

namespace isobit {

// Anonymous mappings are zero, page-aligned and lazy. Large ones ask for huge pages: weights and caches are
// streamed.
AlignedBuffer::AlignedBuffer(int64_t floats) : size_(floats) {
  if (floats == 0) return;
  if (floats < 0 || floats > std::numeric_limits<int64_t>::max() / 8) throw std::bad_alloc();
  const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  constexpr size_t kLarge = size_t{4} << 20;
  if (bytes >= kLarge) madvise(p, bytes, MADV_HUGEPAGE);
#endif
  data_ = static_cast<float*>(p);
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ && !slab_) munmap(data_, static_cast<size_t>(size_) * sizeof(float));
}

AlignedBuffer SlabPool::take(int64_t floats) {
  constexpr int64_t kSlab = int64_t{1} << 23;  // floats: 32 MiB
  if (floats > kSlab / 2) return AlignedBuffer(floats);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<AlignedBuffer> slab = current_.lock();
  const int64_t padded = (floats + 15) / 16 * 16;  // the next one starts at a cache line
  if (!slab || slab->size_ - used_ < padded) {
    slab = std::make_shared<AlignedBuffer>(kSlab);
    current_ = slab;
    used_ = 0;
  }
  AlignedBuffer buffer;
  buffer.data_ = slab->data_ + used_;
  buffer.size_ = floats;
  buffer.slab_ = std::move(slab);
  used_ += padded;
  return buffer;
}

}  // namespace isobit

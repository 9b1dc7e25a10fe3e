// SPDX-License-Identifier: Apache-2.0
// Memory whose end is the end of a page and whose next page cannot be touched: reading one float too far is
// fatal.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

namespace isobit::testing {

class Guarded {
 public:
  explicit Guarded(int64_t floats) : floats_(floats) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t used = static_cast<size_t>(floats) * sizeof(float);
    const size_t room = (used + page - 1) / page * page;
    size_ = room + page;
    base_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(static_cast<char*>(base_) + room, page, PROT_NONE);
    data_ = reinterpret_cast<float*>(static_cast<char*>(base_) + room - used);
  }
  explicit Guarded(std::span<const float> values) : Guarded(static_cast<int64_t>(values.size())) {
    std::ranges::copy(values, data_);  // memcpy must not be handed the null pointer of an empty span
  }
  ~Guarded() { munmap(base_, size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  float* data() { return data_; }
  const float* data() const { return data_; }
  int64_t size() const { return floats_; }
  std::span<const float> all() const { return {data_, static_cast<size_t>(floats_)}; }
  void fill(float value) {
    for (int64_t i = 0; i < floats_; ++i) data_[i] = value;
  }

 private:
  int64_t floats_;
  size_t size_;
  void* base_;
  float* data_;
};

}  // namespace isobit::testing

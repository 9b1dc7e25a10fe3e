// SPDX-License-Identifier: Apache-2.0
// Buffers of their own and buffers in slabs: zero at first, apart from each other, and alive as long as they
// are held.
#include "core/aligned_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <vector>

namespace isobit {
namespace {

TEST(AlignedBuffer, StartsAtACacheLineAndAtZero) {
  SlabPool pool;
  for (const int64_t n : {1, 15, 16, 17, 1000, 5 << 20}) {
    const AlignedBuffer own(n), shared = pool.take(n);
    for (const AlignedBuffer* b : {&own, &shared}) {
      EXPECT_EQ(b->size(), n);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data()) % 64, 0u);
      for (int64_t i = 0; i < n; i += 97) EXPECT_EQ(b->data()[i], 0.0f);
      EXPECT_EQ(b->data()[n - 1], 0.0f);
    }
  }
}

TEST(AlignedBuffer, BuffersOfASlabDoNotOverlapAndOutliveEachOther) {
  SlabPool pool;
  std::vector<AlignedBuffer> buffers;
  for (int i = 0; i < 40; ++i) {  // more than one slab holds
    AlignedBuffer& b = buffers.emplace_back(pool.take((1 << 20) + i));
    for (int64_t j = 0; j < b.size(); ++j) b.data()[j] = static_cast<float>(i + 1);
  }
  for (size_t i = 0; i < buffers.size(); i += 2) buffers[i] = AlignedBuffer();
  for (size_t i = 1; i < buffers.size(); i += 2)
    for (int64_t j = 0; j < buffers[i].size(); j += 4099)
      ASSERT_EQ(buffers[i].data()[j], static_cast<float>(i + 1));
  const AlignedBuffer moved = std::move(buffers[1]);
  buffers.clear();
  EXPECT_EQ(moved.data()[moved.size() - 1], 2.0f);
}

TEST(AlignedBuffer, SizesThatNoMemoryHoldsAreRefused) {
  EXPECT_THROW(AlignedBuffer(-1), std::bad_alloc);
  EXPECT_THROW(AlignedBuffer(INT64_MAX), std::bad_alloc);
  EXPECT_THROW(SlabPool().take(INT64_MAX), std::bad_alloc);
}

}  // namespace
}  // namespace isobit

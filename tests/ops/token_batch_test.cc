// SPDX-License-Identifier: Apache-2.0
// Passes hold every token once, earlier positions first, and never more than a ring can take.
#include "ops/token_batch.h"

#include <gtest/gtest.h>

#include "state/kv_cache.h"
#include "support/random.h"

namespace isobit::testing {
namespace {

void check_passes(int64_t batch, int64_t length, int64_t pos0, const std::vector<int64_t>& lengths) {
  std::vector<int64_t> next(static_cast<size_t>(batch), 0);  // token of each row
  int64_t tokens = 0;
  std::vector<int64_t> begins;  // a different position in each row
  for (int64_t row = 0; row < batch; ++row) begins.push_back(pos0 + 3 * row);
  for (const TokenBatch& pass : make_passes(batch, length, begins, lengths)) {
    ASSERT_LE(pass.tokens, KvCache::kMaxAppend);
    int64_t offset = 0;
    for (const Segment& s : pass.segments) {
      ASSERT_GT(s.count, 0);
      ASSERT_EQ(s.offset, offset);
      ASSERT_EQ(s.pos0, pos0 + 3 * s.row + next[static_cast<size_t>(s.row)]);
      ASSERT_EQ(s.source, s.row * length + next[static_cast<size_t>(s.row)]);
      for (int64_t t = offset; t < offset + s.count; ++t) {
        ASSERT_EQ(&pass.segment_of(t), &s);
        ASSERT_EQ(pass.position_of(t), s.pos0 + t - offset);
      }
      next[static_cast<size_t>(s.row)] += s.count;
      offset += s.count;
    }
    ASSERT_EQ(pass.tokens, offset);
    tokens += offset;
  }
  int64_t expected = 0;
  for (int64_t row = 0; row < batch; ++row) {
    const int64_t n = lengths.empty() ? length : lengths[static_cast<size_t>(row)];
    ASSERT_EQ(next[static_cast<size_t>(row)], n);
    expected += n;
  }
  ASSERT_EQ(tokens, expected);
}

TEST(TokenBatch, PassesCoverEveryTokenOnce) {
  check_passes(1, 1, 0, {});
  check_passes(1, 512, 7, {});
  check_passes(1, 513, 7, {});
  check_passes(3, 400, 0, {});
  check_passes(600, 2, 5, {});
  check_passes(2, 1500, 0, {1, 1500});
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const int64_t batch = random.in(1, 5), length = random.in(1, 1400);
    std::vector<int64_t> lengths;
    if (random.coin())
      for (int64_t row = 0; row < batch; ++row) lengths.push_back(random.in(1, length));
    check_passes(batch, length, random.in(0, 1000), lengths);
  }
}

}  // namespace
}  // namespace isobit::testing

// SPDX-License-Identifier: Apache-2.0
#include "ops/token_batch.h"

#include <algorithm>

#include "state/kv_cache.h"

namespace isobit {

const Segment& TokenBatch::segment_of(int64_t t) const {
  const auto after = std::upper_bound(segments.begin(), segments.end(), t,
                                      [](int64_t index, const Segment& s) { return index < s.offset; });
  return *std::prev(after);
}

std::vector<TokenBatch> make_passes(int64_t batch, int64_t length, std::span<const int64_t> pos0,
                                    std::span<const int64_t> lengths) {
  const auto length_of = [&](int64_t row) {
    return lengths.empty() ? length : lengths[static_cast<size_t>(row)];
  };
  std::vector<TokenBatch> passes(1);
  const int64_t step = KvCache::kMaxAppend;
  for (int64_t begin = 0; begin < length; begin += step)
    for (int64_t row = 0; row < batch; ++row) {
      const int64_t end = std::min(begin + step, length_of(row));
      for (int64_t at = begin; at < end;) {
        if (passes.back().tokens == step) passes.emplace_back();
        TokenBatch& pass = passes.back();
        const int64_t count = std::min(end - at, step - pass.tokens);
        pass.segments.push_back(
            {row, pos0[static_cast<size_t>(row)] + at, count, pass.tokens, row * length + at});
        pass.tokens += count;
        at += count;
      }
    }
  return passes;
}

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Which tokens one pass computes: runs of consecutive positions of some batch rows, stored back to back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace isobit {

struct Segment {
  int64_t row;     ///< batch row, and row of the cache
  int64_t pos0;    ///< absolute position of the first token
  int64_t count;   ///< tokens
  int64_t offset;  ///< index of the first token in the pass's [tokens, ...] activations
  int64_t source;  ///< index of the first token in the caller's [batch * length, ...] arrays
};

struct TokenBatch {
  std::vector<Segment> segments;
  int64_t tokens = 0;

  /// The segment that holds token t.
  const Segment& segment_of(int64_t t) const;
  int64_t position_of(int64_t t) const {
    const Segment& s = segment_of(t);
    return s.pos0 + t - s.offset;
  }
};

/// Cuts [batch, length] tokens (row i begins at position pos0[i] and has lengths[i] tokens, or length) into
/// passes of at most KvCache::kMaxAppend tokens, earlier positions first. By the contract no cut changes a
/// bit.
std::vector<TokenBatch> make_passes(int64_t batch, int64_t length, std::span<const int64_t> pos0,
                                    std::span<const int64_t> lengths);

}  // namespace isobit

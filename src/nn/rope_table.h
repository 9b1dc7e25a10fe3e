// SPDX-License-Identifier: Apache-2.0
// cos and sin of every rotation angle, [position][rope_dim/2], computed in chunks of positions when first
// asked for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "nn/rope_frequencies.h"

namespace isobit {

/// Safe to use from several threads. Rows stay where they are for the lifetime of the object.
class RopeTable {
 public:
  static constexpr int64_t kChunk = 256;  ///< positions computed at once

  explicit RopeTable(RopeFrequencies frequencies);
  /// Of options that validate_rope accepts.
  RopeTable(int64_t rope_dim, double rope_theta, const std::optional<RopeScaling>& scaling,
            int64_t max_positions);
  /// The live table with the same frequencies, or a new one: the layers of a model share theirs.
  static std::shared_ptr<const RopeTable> shared(int64_t rope_dim, double rope_theta,
                                                 const std::optional<RopeScaling>& scaling,
                                                 int64_t max_positions);
  ~RopeTable();
  RopeTable(const RopeTable&) = delete;
  RopeTable& operator=(const RopeTable&) = delete;

  int64_t half() const { return static_cast<int64_t>(frequencies_.inv_freq.size()); }
  float attention_factor() const { return frequencies_.attention_factor; }
  const RopeFrequencies& frequencies() const { return frequencies_; }

  /// half() values each, for a position >= 0. Only the first request of a chunk takes a lock.
  const float* cos_row(int64_t position) const {
    return chunk(position / kChunk) + position % kChunk * half();
  }
  const float* sin_row(int64_t position) const { return cos_row(position) + kChunk * half(); }
  /// Computes the rows of positions [0, positions) now.
  void reserve(int64_t positions) const;

 private:
  using Chunk = std::atomic<const float*>;  // cos [kChunk][half], then sin [kChunk][half]
  const float* chunk(int64_t index) const;
  const float* compute(int64_t index) const;

  RopeFrequencies frequencies_;
  // Chunk index i is slot i + 1 - 2^n of segment n = floor(log2(i + 1)): growth moves nothing.
  mutable std::array<std::atomic<Chunk*>, 56> segments_{};
  mutable std::mutex mutex_;  // held by whoever computes
};

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// angle = fl32(position) * inv_freq in float32; cos and sin of it in binary64, rounded to float32, times the
// factor.
#include "nn/rope_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/binary64.h"

namespace isobit {
namespace {

struct Slot {
  size_t segment;
  size_t offset;
};

Slot slot_of(int64_t index) {
  const uint64_t i = static_cast<uint64_t>(index) + 1;
  const size_t segment = static_cast<size_t>(std::bit_width(i)) - 1;
  return {segment, static_cast<size_t>(i - (uint64_t{1} << segment))};
}

}  // namespace

RopeTable::RopeTable(RopeFrequencies frequencies) : frequencies_(std::move(frequencies)) {}

RopeTable::RopeTable(int64_t rope_dim, double rope_theta, const std::optional<RopeScaling>& scaling,
                     int64_t max_positions)
    : RopeTable(rope_frequencies(rope_dim, rope_theta, scaling, max_positions)) {}

std::shared_ptr<const RopeTable> RopeTable::shared(int64_t rope_dim, double rope_theta,
                                                   const std::optional<RopeScaling>& scaling,
                                                   int64_t max_positions) {
  static std::mutex mutex;
  static std::vector<std::weak_ptr<const RopeTable>> tables;
  RopeFrequencies frequencies = rope_frequencies(rope_dim, rope_theta, scaling, max_positions);
  const std::lock_guard lock(mutex);
  std::erase_if(tables, [](const auto& table) { return table.expired(); });
  for (const auto& known : tables) {
    const std::shared_ptr<const RopeTable> table = known.lock();
    if (table && table->frequencies() == frequencies) return table;
  }
  auto table = std::make_shared<const RopeTable>(std::move(frequencies));
  tables.push_back(table);
  return table;
}

RopeTable::~RopeTable() {
  for (size_t n = 0; n < segments_.size(); n++) {
    const std::unique_ptr<Chunk[]> segment(segments_[n].load());
    if (!segment) continue;
    for (size_t i = 0; i < size_t{1} << n; i++) delete[] segment[i].load();
  }
}

const float* RopeTable::chunk(int64_t index) const {
  const Slot slot = slot_of(index);
  const Chunk* segment = segments_[slot.segment].load(std::memory_order_acquire);
  const float* rows = segment ? segment[slot.offset].load(std::memory_order_acquire) : nullptr;
  return rows ? rows : compute(index);
}

const float* RopeTable::compute(int64_t index) const {
  const Slot slot = slot_of(index);
  const std::lock_guard lock(mutex_);
  Chunk* segment = segments_[slot.segment].load(std::memory_order_relaxed);
  if (!segment) {
    segment = new Chunk[size_t{1} << slot.segment]();
    segments_[slot.segment].store(segment, std::memory_order_release);
  }
  if (const float* rows = segment[slot.offset].load(std::memory_order_relaxed)) return rows;

  const size_t n = frequencies_.inv_freq.size();
  std::unique_ptr<float[]> rows(new float[2 * kChunk * n]);
  float* cosines = rows.get();
  float* sines = cosines + kChunk * n;
  for (int64_t i = 0; i < kChunk; i++) {
    const float position = static_cast<float>(index * kChunk + i);
    for (const float inv : frequencies_.inv_freq) {
      const float angle = position * inv;
      const binary64::SinCos pair = binary64::sincos(angle);
      *cosines++ = static_cast<float>(pair.cos) * frequencies_.attention_factor;
      *sines++ = static_cast<float>(pair.sin) * frequencies_.attention_factor;
    }
  }
  segment[slot.offset].store(rows.get(), std::memory_order_release);
  return rows.release();
}

void RopeTable::reserve(int64_t positions) const {
  for (int64_t c = 0; c * kChunk < positions; c++) chunk(c);
}

}  // namespace isobit

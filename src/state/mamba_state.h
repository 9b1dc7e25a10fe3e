// SPDX-License-Identifier: Apache-2.0
// The inside of MambaState. Each batch row is one run of floats holding all sections in the kernels' layout,
// and there are two copies of each row: a call reads the one and writes the other, so that a call that fails
// has changed nothing.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/aligned_buffer.h"
#include "isobit/mamba_state.h"
#include "state/layer_state.h"

namespace isobit {

struct MambaState::Impl : LayerState {
  /// Element (i, j, ...) of the documented buffer lies at offset + i*stride[0] + j*stride[1] + ... of a row.
  struct Section {
    std::string name;
    std::vector<int64_t> shape;  // without the batch
    std::vector<int64_t> stride;
    int64_t offset = 0;
    int64_t size() const;
  };
  /// Indices of sections.
  enum { kWindow = 0, kTheta = 0, kH = 1, kK = 2, kV = 3 };

  Impl(const MambaShape& shape, int64_t batch);
  int64_t batch_size() const override { return batch; }
  int64_t tokens_of(int64_t row) const override { return tokens[static_cast<size_t>(row)]; }
  void reset() override;
  std::unique_ptr<Transaction> begin(std::span<const int64_t> appended) override;

  /// Inside a call: where a section of a row is read (until the row took its first tokens, afterwards what
  /// was written) and where it is written.
  const float* source(int64_t row, int section) const {
    const auto r = static_cast<size_t>(row);
    return copies[taken[r] > 0 ? 1 - now : now].data() + row * row_floats +
           sections[static_cast<size_t>(section)].offset;
  }
  float* target(int64_t row, int section) {
    return copies[1 - now].data() + row * row_floats + sections[static_cast<size_t>(section)].offset;
  }
  /// The row's target now holds the state after `count` more tokens.
  void took(int64_t row, int64_t count) { taken[static_cast<size_t>(row)] += count; }

  size_t find(const std::string& name) const;
  void export_to(size_t section, std::vector<float>& buffer) const;
  void check_finite(size_t section, const float* values) const;
  void import_from(size_t section, const float* values);
  /// Before a call: takes over what the holders of the documented buffers wrote; drops buffers nobody holds.
  void begin_call();
  /// After a successful call: shows its result in the documented buffers that are still held.
  void end_call();

  MambaShape shape;
  int64_t batch;
  std::vector<Section> sections;
  int64_t row_floats = 0;
  AlignedBuffer copies[2];  // [batch][row_floats]
  int now = 0;
  std::vector<int64_t> taken;   // tokens of the call so far, by row
  std::vector<int64_t> tokens;  // before the call, by row
  std::vector<std::shared_ptr<std::vector<float>>> documented;
};

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// What one Mamba block carries from token to token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace isobit {

/// Sizes of a state. Mamba 1: conv_channels = channels; Mamba 2: conv_channels = channels + 2 * groups *
/// states; Mamba 3 has no convolution. channels = heads * head_dim for 2 and 3.
struct MambaShape {
  int version = 1;  ///< 1, 2 or 3
  int64_t channels = 0;
  int64_t states = 0;
  int64_t conv_channels = 0;
  int64_t conv_width = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t rank = 1;    ///< Mamba 3
  int64_t angles = 0;  ///< Mamba 3
  bool operator==(const MambaShape&) const = default;
};

/// Buffers by version, float32, all zero at first, B = batch_size:
///   1: conv_window (B, channels, conv_width), h (B, channels, states)
///   2: conv_window (B, conv_channels, conv_width), h (B, heads, head_dim, states)
///   3: theta (B, heads, angles), h (B, heads, head_dim, states), k (B, heads, states), or (B, rank, heads,
///   states)
///      where rank > 1, v (B, heads, head_dim)
/// conv_window: the last inputs of the convolution, oldest first. They are exact after every token. Between
/// calls the state keeps the kernels' own layout; a caller who keeps what buffer() returns may edit it: the
/// next call reads the edits and updates it in place.
class MambaState {
 public:
  MambaState(const MambaShape& shape, int64_t batch_size);
  ~MambaState();
  MambaState(MambaState&&) noexcept;
  MambaState& operator=(MambaState&&) noexcept;

  const MambaShape& shape() const;
  int64_t batch_size() const;
  std::vector<std::string> buffer_names() const;
  std::vector<int64_t> buffer_shape(const std::string& name) const;
  std::shared_ptr<std::vector<float>> buffer(const std::string& name);
  /// Copies; ValueError for a wrong size or non-finite values.
  void set_buffer(const std::string& name, std::span<const float> values);
  /// Tokens that a row has consumed since it was made or reset.
  int64_t tokens(int64_t row) const;
  void reset();
  /// Another state with the same contents and counts.
  MambaState copy();

  struct Impl;
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit

// SPDX-License-Identifier: Apache-2.0
// Checks of a block's weights by name, shape and dtype, all made before any work.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/checked.h"
#include "isobit/tensor.h"
#include "kernels/table.h"

namespace isobit {

inline std::string shape_text(const std::vector<int64_t>& shape) {
  std::string s = "(";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + (shape.size() == 1 ? ",)" : ")");
}

/// What a block asks of its weights and options. Every refusal begins with "[who]".
class WeightChecker {
 public:
  WeightChecker(const WeightMap& weights, const char* who) : weights_(weights), who_(who) {}

  void positive(const char* name, int64_t value) const {
    expect(value > 0, who_, name, "a positive integer", std::to_string(value));
  }
  void finite_positive(const char* name, double value) const {
    const float rounded = static_cast<float>(value);
    expect(std::isfinite(rounded) && rounded > 0, who_, name, "a finite number > 0", std::to_string(value));
  }
  /// A weight that must be there, of rank `rank`.
  const TensorView& require(const std::string& name, size_t rank) const {
    const auto found = weights_.find(name);
    if (found == weights_.end())
      throw ValueError(refusal(who_, name, "this weight", "no weight of that name"));
    const TensorView& t = found->second;
    if (t.dtype != DType::F32 && t.dtype != DType::BF16 && t.dtype != DType::F16 &&
        t.blocks == BlockType::kNone)
      throw TypeError(refusal(who_, name, "float32 values", dtype_name(t.dtype)));
    expect(t.shape.size() == rank &&
               std::all_of(t.shape.begin(), t.shape.end(), [](int64_t n) { return n > 0; }),
           who_, name, "a non-empty tensor of rank " + std::to_string(rank), "shape " + shape_text(t.shape));
    return t;
  }
  void shape(const std::string& name, const std::vector<int64_t>& wanted) {
    const TensorView& t = require(name, wanted.size());
    expect(t.shape == wanted, who_, name, "shape " + shape_text(wanted), shape_text(t.shape));
    seen_.push_back(name);
  }
  /// A bias or head norm that is there exactly when its option is on.
  void optional(bool on, const char* option, const std::string& name, int64_t n) {
    if (on) return shape(name, {n});
    expect(!weights_.contains(name), who_, name, std::string("no such weight while ") + option + " is off",
           "this weight");
  }
  /// A weight whose presence is the option.
  void if_there(const std::string& name, const std::vector<int64_t>& wanted) {
    if (weights_.contains(name)) shape(name, wanted);
  }
  /// Depthwise taps [channels, 1, width] or [channels, width]; returns the width.
  int64_t conv(const std::string& name, int64_t channels) {
    const auto found = weights_.find(name);
    const bool flat = found != weights_.end() && found->second.shape.size() == 2;
    const int64_t width = require(name, flat ? 2 : 3).shape.back();
    expect(width <= kernels::kMaxConvWidth, who_, name,
           "at most " + std::to_string(kernels::kMaxConvWidth) + " taps", std::to_string(width));
    if (flat)
      shape(name, {channels, width});
    else
      shape(name, {channels, 1, width});
    return width;
  }
  void no_others() const {
    for (const auto& [name, tensor] : weights_)
      expect(std::find(seen_.begin(), seen_.end(), name) != seen_.end(), who_, name, "a weight of this block",
             "an unknown name");
  }

 private:
  const WeightMap& weights_;
  const char* who_;
  std::vector<std::string> seen_;
};

}  // namespace isobit

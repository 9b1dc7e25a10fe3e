// SPDX-License-Identifier: Apache-2.0
// Small Mamba blocks whose weights are the same bits everywhere, one for each thing that a block can have.
#pragma once

#include <string>
#include <vector>

#include "isobit/mamba_block.h"
#include "model/synthetic.h"

namespace isobit::synthetic {

struct MambaCase {
  std::string name;
  MambaOptions options;
  int64_t d_model = 12;
  int64_t heads = 3;
  int64_t head_dim = 20;
  int64_t states = 10;
  int64_t groups = 1;
  int64_t width = 4;
  int64_t rank = 1;
  bool mimo = false;
  bool biases = false;
  bool norm = true;
  uint64_t seed = 1;

  int version() const { return static_cast<int>(options.index()) + 1; }

  Weights weights() const;
  MambaBlock block() const { return MambaBlock(weights().map, options); }
  std::vector<float> input(int64_t batch, int64_t length, float scale = 1.5f) const {
    return values(seed + 100, batch * length * d_model, scale);
  }
};

/// Of each version the plain block, its options and its formats.
std::vector<MambaCase> mamba_cases();

}  // namespace isobit::synthetic

// SPDX-License-Identifier: Apache-2.0
// Every operation of a 16-lane type, behind plain pointers, so that the types of all instruction sets can be
// compared.
#pragma once

#include <cstdint>

namespace isobit::kernels {

/// What lanes an operation may be given.
enum class Domain {
  kAny,    // any bits
  kInt32,  // floats inside the range of int32
  kLdexp,  // a in [0.5, 2), b integral in -125..127
};

/// r[i] = op(a[i], b[i], c[i]) on the bits of 16 lanes.
struct SimdOp {
  const char* name;
  Domain domain;
  bool float_result;  // all NaNs are alike then
  void (*run)(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* r);
};

struct SimdOps {
  const char* isa;
  const SimdOp* ops;
  int count;
  void (*load_n)(const float* p, int n, float* lanes);
  void (*store_n)(float* p, const float* lanes, int n);
};

}  // namespace isobit::kernels

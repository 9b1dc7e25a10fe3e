// SPDX-License-Identifier: Apache-2.0
// The floating-point environment of the contract: round to nearest even, subnormals kept, whatever the host
// has set.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace isobit {

/// Sets the environment on construction and gives the host's back on destruction.
class FpEnv {
 public:
#if defined(__x86_64__)
  FpEnv() : saved_(_mm_getcsr()) {
    if (saved_ != kDefault) _mm_setcsr(kDefault);
  }
  ~FpEnv() {
    if (saved_ != kDefault) _mm_setcsr(saved_);
  }

 private:
  static constexpr uint32_t kDefault =
      0x1f80;  // all exceptions masked, no flags, nearest even, no FTZ, no DAZ
  uint32_t saved_;
#elif defined(__aarch64__)
  FpEnv() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    if (saved_ != 0) asm volatile("msr fpcr, %0" ::"r"(uint64_t{0}));
  }
  ~FpEnv() {
    if (saved_ != 0) asm volatile("msr fpcr, %0" ::"r"(saved_));
  }

 private:
  uint64_t saved_;
#else
#error "FpEnv: unknown architecture"
#endif

 public:
  FpEnv(const FpEnv&) = delete;
  FpEnv& operator=(const FpEnv&) = delete;
};

}  // namespace isobit

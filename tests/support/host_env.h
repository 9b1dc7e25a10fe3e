// SPDX-License-Identifier: Apache-2.0
// A host that changed the floating-point mode of its thread: flush to zero, denormals are zero, rounding
// upward.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace isobit::testing {

class HostMode {
 public:
  HostMode() : saved_(read()) {
    std::fesetround(FE_UPWARD);
    write(read() | kFlush);
    mode_ = read();
  }
  ~HostMode() {
    write(saved_);
    std::fesetround(FE_TONEAREST);
  }
  HostMode(const HostMode&) = delete;
  HostMode& operator=(const HostMode&) = delete;

  /// Whether the thread still has the mode set here; exception flags, which are no mode, aside.
  bool intact() const { return (read() & kModes) == (mode_ & kModes); }

 private:
#if defined(__x86_64__)
  static constexpr uint64_t kFlush = 0x8040;  // FTZ, DAZ
  static constexpr uint64_t kModes = 0xffff & ~0x3f;
  static uint64_t read() { return _mm_getcsr(); }
  static void write(uint64_t mode) { _mm_setcsr(static_cast<uint32_t>(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kFlush = uint64_t{1} << 24;  // FZ
  static constexpr uint64_t kModes = ~uint64_t{0};
  static uint64_t read() {
    uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void write(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode)); }
#endif
  uint64_t saved_, mode_;
};

}  // namespace isobit::testing

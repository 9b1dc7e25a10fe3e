// SPDX-License-Identifier: Apache-2.0
// Exit code 0 where a*b+c is rounded twice, 1 where the compiler fused it. Meant to be built with FMA
// instructions enabled.

// (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 rounds to 1 + 2^-11, so two roundings give 0 and one gives 2^-24.
__attribute__((noinline)) static int fused(volatile float* operands) {
  const float a = operands[0], b = operands[1], c = operands[2];
  return a * b + c != 0.0f;
}

int main() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("fma")) return 0;  // nothing here could fuse
#endif
  volatile float operands[3] = {1.0f + 0x1p-12f, 1.0f + 0x1p-12f, -(1.0f + 0x1p-11f)};
  return fused(operands);
}

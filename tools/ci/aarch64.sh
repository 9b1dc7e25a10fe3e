#!/usr/bin/env bash
# Cross build for aarch64, run by qemu: the golden digests, the functions, the kernels, the Mamba blocks and ragged rows
# on NEON and on the scalar table.
set -euo pipefail

tools/build.sh build/aarch64 isobit_tests -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64-linux-gnu.cmake" \
  -DISOBIT_BUILD_TESTS=ON -DISOBIT_WERROR=ON
export EMULATOR="qemu-aarch64 -L /usr/aarch64-linux-gnu"
tools/run_cpp_tests.py build/aarch64 --gtest_filter='*Golden*:*Kernel*:Matmul*:Attention*:Simd*:ScalarFma*:Elementary*:StateSpace*:Mamba*:*MambaBlocks*:*RaggedRowsContinue*'

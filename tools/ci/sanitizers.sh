#!/usr/bin/env bash
# Every C++ test under AddressSanitizer and UndefinedBehaviorSanitizer.
set -euo pipefail

flags="-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
tools/build.sh build/sanitize isobit_tests -DCMAKE_BUILD_TYPE=Sanitize "-DCMAKE_CXX_FLAGS_SANITIZE=$flags" \
  -DISOBIT_BUILD_TESTS=ON
tools/run_cpp_tests.py build/sanitize

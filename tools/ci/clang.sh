#!/usr/bin/env bash
# The other compiler: no warnings, and every C++ test, golden digests among them.
set -euo pipefail

tools/build.sh build/clang isobit_tests -DCMAKE_CXX_COMPILER=clang++ -DISOBIT_BUILD_TESTS=ON -DISOBIT_WERROR=ON
tools/run_cpp_tests.py build/clang

#!/usr/bin/env bash
# Each libFuzzer target for the given number of seconds: tools/ci/fuzz.sh SECONDS
set -euo pipefail

tools/build.sh build/fuzz tests/fuzz/all -DCMAKE_CXX_COMPILER=clang++ -DISOBIT_BUILD_FUZZERS=ON
found=0
for target in build/fuzz/tests/fuzz/fuzz_*; do
  [ -x "$target" ] && [ -f "$target" ] || continue
  name=$(basename "$target")
  mkdir -p "build/corpus/$name"
  log=build/$name.log
  "$target" -max_total_time="$1" -max_len=4096 -print_final_stats=1 -verbosity=0 \
    "build/corpus/$name" "tests/fuzz/corpus/${name#fuzz_}" >"$log" 2>&1 || { tail -60 "$log"; exit 1; }
  echo "$name: $(sed -n 's/stat::number_of_executed_units: *//p' "$log") inputs, no finding"
  found=$((found + 1))
done
echo "$found fuzz targets"
[ $found -gt 0 ]

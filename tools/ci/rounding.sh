#!/usr/bin/env bash
# The program that CMake runs to prove two roundings must fail when a compiler is told to fuse: the proof can fail.
set -euo pipefail

grep -qw fma /proc/cpuinfo || { echo "this CPU has no FMA: nothing could fuse"; exit 0; }
proof=build/strict_fp_proof
for compiler in g++ clang++; do
  $compiler -O3 -mfma -ffp-contract=off cmake/strict_fp_proof.cc -o $proof && $proof
  $compiler -O3 -mfma -ffp-contract=fast cmake/strict_fp_proof.cc -o $proof
  if $proof; then
    echo "$compiler: -ffp-contract=fast went unnoticed" >&2
    exit 1
  fi
  echo "$compiler: two roundings with off, noticed with fast"
done

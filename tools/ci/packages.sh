#!/usr/bin/env bash
# What a bare Debian lacks: make itself, and the tools of every later step.
set -euo pipefail

if ! command -v make >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends make >/dev/null
fi
tools/system_packages.sh build test ci
g++ --version | head -1
clang++ --version | head -1
cmake --version | head -1
python3 --version
nproc

#!/usr/bin/env bash
# Configures and builds a CMake folder: tools/build.sh FOLDER TARGET [CMake option]...
set -euo pipefail
export CCACHE_BASEDIR=$PWD  # clones in other folders share the cache

folder=$1 target=$2
shift 2
mkdir -p "$(dirname "$folder")"
tools/fresh_build_dir.sh "$folder"
cmake -S . -B "$folder" -G Ninja "$@" >"$folder.configure.log" 2>&1 || { cat "$folder.configure.log" >&2; exit 1; }
cmake --build "$folder" --target "$target"

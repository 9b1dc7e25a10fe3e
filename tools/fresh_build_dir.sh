#!/usr/bin/env bash
# Removes a CMake build folder that belongs to another path, another compiler that is gone, or a broken configure run.
set -euo pipefail

cache=$1/CMakeCache.txt
[ -d "$1" ] || exit 0
value() { sed -n "s/^$1:[A-Z]*=//p" "$cache" 2>/dev/null; }
if [ "$(value CMAKE_HOME_DIRECTORY)" != "$(pwd -P)" ] || [ "$(value CMAKE_CACHEFILE_DIR)" != "$(cd "$1" && pwd -P)" ] ||
  ! [ -x "$(value CMAKE_CXX_COMPILER)" ]; then
  echo "removing the build folder $1: it was not made here"
  rm -rf "$1"
fi

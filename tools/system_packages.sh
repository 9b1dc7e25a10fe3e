#!/usr/bin/env bash
# Installs the Debian packages that are missing on this machine. Usage: tools/system_packages.sh [build|test|ci]...
# Asks for nothing when everything is there; without root or sudo it says what to install and stops.
set -euo pipefail

declare -A wanted=()
want() { wanted[$1]=1; }
has() { command -v "$1" >/dev/null 2>&1; }
has_header() { echo "#include <$1>" | g++ -E -x c++ - >/dev/null 2>&1; }
has_python() { python3 -c "$1" >/dev/null 2>&1; }

need_build() {
  has g++ || want g++
  has cmake || want cmake
  has ninja || want ninja-build
  has ccache || want ccache
  has python3 || want python3
  has_python 'import venv, ensurepip' || want python3-venv
  has_python 'import os, sysconfig; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' ||
    want python3-dev
  has_header nlohmann/json.hpp || want nlohmann-json3-dev
}

need_test() {
  has_header gtest/gtest.h || want libgtest-dev
  has_header mpfr.h || want libmpfr-dev
}

can_fuzz() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null >/dev/null 2>&1
}

need_ci() {
  has git || want git
  has clang++ || want clang
  can_fuzz || want "libclang-rt-$(apt-cache depends clang | sed -n 's/.*Depends: clang-//p')-dev"
  [ -d /usr/src/googletest ] || want googletest
  has aarch64-linux-gnu-g++ || want g++-aarch64-linux-gnu
  has qemu-aarch64 || want qemu-user
}

if [[ " $* " == *" ci "* ]]; then apt-get update -qq; fi
for group in "${@:-build}"; do "need_$group"; done
[ ${#wanted[@]} -gt 0 ] || exit 0

packages=$(printf '%s\n' "${!wanted[@]}" | sort | tr '\n' ' ')
sudo=""
if [ "$(id -u)" != 0 ]; then sudo=sudo; fi
if ! has apt-get || { [ -n "$sudo" ] && ! has sudo; }; then
  echo "isobit: please install these packages (Debian names) and run this again: $packages" >&2
  exit 1
fi
echo "installing: $packages"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo apt-get install -y -qq --no-install-recommends $packages >/dev/null

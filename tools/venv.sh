#!/usr/bin/env bash
# Makes .venv in the current folder, or makes it anew when it is broken or was moved, and installs what the arguments name
# (arguments of pip install).
set -euo pipefail

venv=.venv
here=$(pwd -P)
if [ "$(cat $venv/location 2>/dev/null)" != "$here" ] || ! $venv/bin/python -m pip --version >/dev/null 2>&1; then
  rm -rf $venv
  "${PYTHON:-python3}" -m venv $venv
  echo "$here" >$venv/location
fi
$venv/bin/python -m pip install -qq --disable-pip-version-check "$@"

#!/usr/bin/env bash
# Formatting (clang-format 14, ruff), style (ruff) and types (mypy). With --fix, formatting is repaired instead.
set -euo pipefail

bin=.venv/bin
mapfile -t cpp < <(git ls-files '*.h' '*.cc')
if [ "${1:-}" = --fix ]; then
  $bin/clang-format -i "${cpp[@]}"
  $bin/ruff format --quiet .
  $bin/ruff check --quiet --fix .
  exit
fi
if ! $bin/clang-format --dry-run --Werror "${cpp[@]}" 2>build/format.log; then
  sed -n "s/:.*error: .*clang-format.*//p" build/format.log | sort | uniq -c >&2
  echo "clang-format: these files want \`make format\` (left: places)" >&2
  exit 1
fi
echo "clang-format: ${#cpp[@]} files"
$bin/ruff format --check .
$bin/ruff check .
$bin/mypy

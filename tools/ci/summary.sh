#!/usr/bin/env bash
# One closing line over every test run of a log: tools/ci/summary.sh LOG
set -euo pipefail

total() { grep -E '^(=+ )?[0-9]+ (passed|failed)' "$1" | grep -oE "[0-9]+ $2" | awk '{n += $1} END {print n + 0}'; }
echo
grep -E '^-- .*: [0-9]+ s$' "$1"
echo "$(total "$1" passed) passed, $(total "$1" failed) failed, $(total "$1" skipped) skipped"

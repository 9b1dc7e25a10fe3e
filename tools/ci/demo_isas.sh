#!/usr/bin/env bash
# The demo's committed digest, under each instruction set that this machine can run.
set -euo pipefail

for isa in $(.venv/bin/python -c 'import isobit; print(*isobit.available_isas())'); do
  ISOBIT_ISA=$isa .venv/bin/isobit demo
done

#!/usr/bin/env bash
# Every benchmark there is, unattended: makes the peers, then measures whole models (two of them, each as the CPU
# allows and held to AVX2), one block, and the kernels, and draws the plots. Each part keeps what it has when
# another fails. Usage: PYTHON=python3 benchmarks/compare.sh CHECKPOINT OUT [options of compare.py, as --rounds 3]
#
# CHECKPOINT: SmolLM2-135M, as `make demo` leaves it in models/. PYTHON: an interpreter that has isobit; else
# .venv's. Run it on a machine that does nothing else; the peers alone take half an hour the first time.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
checkpoint=$1 out=$2
shift 2
mkdir -p "$out"
out=$(realpath "$out")
python=${PYTHON:-$root/.venv/bin/python}
peers=$out/peers

"$here/peers.sh" "$checkpoint" "$peers"
for model in smollm2-135m qwen3-0.6b; do
  "$python" "$here/compare.py" "$peers" --model "$model" --out "$out/$model" "$@"
  if grep -q avx512 /proc/cpuinfo; then
    "$python" "$here/compare.py" "$peers" --model "$model" --isa avx2 --out "$out/$model-avx2" "$@"
  fi
done

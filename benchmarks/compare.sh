#!/usr/bin/env bash
# Everything beside others, unattended: makes the peers, then measures the kernels, one block and two whole models,
# each as the CPU allows and held to AVX2, and draws the plots. A part that fails leaves the others alone.
# Usage: [PYTHON=...] benchmarks/compare.sh CHECKPOINT OUT [options of compare.py, such as --rounds 3]
#
# CHECKPOINT: SmolLM2-135M, as `make demo` leaves it in models/. PYTHON: an interpreter that has isobit, else
# .venv's. Wants a machine that does nothing else; the peers alone take half an hour the first time. Run again with
# the same OUT, it measures what is missing of the models, and the rest anew.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
checkpoint=$1 out=$2
shift 2
mkdir -p "$out"
out=$(realpath "$out")
python=${PYTHON:-$root/.venv/bin/python}
peers=$out/peers

isas=("")
if grep -q avx512 /proc/cpuinfo; then isas+=(avx2); fi

"$here/peers.sh" "$checkpoint" "$peers"

cmake -S "$root" -B "$out/build" -DISOBIT_BUILD_BENCHMARKS=ON -DCMAKE_BUILD_TYPE=Release >"$out/build.log" 2>&1 &&
  cmake --build "$out/build" --target isobit_kernels_bench -j "$(nproc)" >>"$out/build.log" 2>&1 ||
  echo "compare.sh: no kernel benchmark (see $out/build.log)" >&2
for isa in "${isas[@]}"; do
  folder=$out/kernels${isa:+-$isa}
  mkdir -p "$folder"
  ISOBIT_ISA=$isa "$out/build/benchmarks/isobit_kernels_bench" --benchmark_filter=-stored \
    --benchmark_min_time=0.2 --benchmark_repetitions=3 \
    --benchmark_enable_random_interleaving=true --benchmark_out="$folder/kernels.json" >/dev/null &&
    "$peers/tools/bin/python" "$here/kernels_table.py" "$folder/kernels.json" | tee "$folder/kernels.md"
done

# torch from its peer's environment, isobit from ours.
mkdir -p "$out/packages"
ln -sfn "$("$python" -c 'import isobit, pathlib; print(pathlib.Path(isobit.__file__).parent)')" "$out/packages/isobit"
PYTHONPATH=$out/packages "$peers/transformers/bin/python" "$here/block.py" --out "$out/block"

for model in smollm2-135m qwen3-0.6b mamba-130m mamba2-130m; do
  for isa in "${isas[@]}"; do
    folder=$out/$model${isa:+-$isa}
    "$python" "$here/compare.py" "$peers" --model "$model" ${isa:+--isa "$isa"} --out "$folder" "$@"
  done
  for threads in 1 2; do
    "$python" -m isobit bench "$peers/models/$model/checkpoint" --profile --threads "$threads" \
      --prompts 16 512 4096 --depths 32 2048 >"$out/$model/profile-$threads.txt"
  done
done

"$peers/tools/bin/python" "$here/plot.py" "$out"/*/

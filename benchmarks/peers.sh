#!/usr/bin/env bash
# Makes what compare.py runs beside isobit: a Python environment for each peer, pinned in requirements-*.txt
# (llama.cpp is built from its source package, once for this CPU and once held to AVX2), and the models in each
# peer's form. Usage: benchmarks/peers.sh CHECKPOINT PEERS
#
# CHECKPOINT: SmolLM2-135M, as `make demo` leaves it in models/. What cannot be made is noted in NAME.error beside
# where it would be, which compare.py then shows; run again, this makes what is missing.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
checkpoint=$(realpath "$1")
mkdir -p "$2" && cd "$2" || exit 1
export PIP_DISABLE_PIP_VERSION_CHECK=1

# made NAME COMMAND...: runs the command unless NAME is there; if it fails, NAME is removed and the reason kept.
made() {
  local name=$1
  shift
  [ -e "$name" ] && [ ! -e "$name.log" ] && return  # a log that is left tells of a run cut short
  rm -rf "$name"
  mkdir -p "$(dirname "$name")"
  echo "making $name" >&2
  if "$@" >"$name.log" 2>&1; then
    rm -f "$name.error" "$name.log"
  else
    rm -rf "$name"
    grep -v '^\s*$' "$name.log" | tail -n 1 | cut -c 1-300 >"$name.error"
    echo "  failed: $(cat "$name.error") (see $PWD/$name.log)" >&2
  fi
}

environment() { # FOLDER REQUIREMENTS
  python3 -m venv "$1" && "$1/bin/pip" install -q -r "$here/requirements-$2.txt"
}
export_openvino() { # MODEL
  openvino/bin/optimum-cli export openvino -m "models/$1/checkpoint" --weight-format fp32 \
    --task text-generation-with-past "models/$1/openvino"
}
model_forms() { # MODEL
  made "models/$1/f32.gguf" tools/bin/python "$here/to_gguf.py" "models/$1/checkpoint" "models/$1/f32.gguf"
  made "models/$1/openvino" export_openvino "$1"
}

made tools environment tools tools
made transformers environment transformers transformers
made openvino environment openvino openvino
options="-DLLAVA_BUILD=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF"
CMAKE_ARGS="$options -DGGML_NATIVE=ON" made llamacpp environment llamacpp llamacpp
if grep -q avx2 /proc/cpuinfo; then
  avx2="-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_AVX512=OFF"
  CMAKE_ARGS="$options $avx2" made llamacpp-avx2 environment llamacpp-avx2 llamacpp
fi

made models/smollm2-135m/checkpoint ln -s "$checkpoint" models/smollm2-135m/checkpoint
model_forms smollm2-135m
made models/qwen3-0.6b/checkpoint tools/bin/python "$here/make_checkpoint.py" qwen3-0.6b \
  models/qwen3-0.6b/checkpoint --tokenizer models/smollm2-135m/checkpoint
model_forms qwen3-0.6b
for name in mamba-130m mamba2-130m; do
  made "models/$name/checkpoint" tools/bin/python "$here/make_checkpoint.py" "$name" "models/$name/checkpoint" \
    --tokenizer models/smollm2-135m/checkpoint
  model_forms "$name"
done

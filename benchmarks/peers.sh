#!/usr/bin/env bash
# Makes the peers that compare.py runs beside isobit: two Python environments, llama.cpp from the source package on
# PyPI, and the model in the forms they read. Usage: benchmarks/peers.sh CHECKPOINT MODEL.gguf OUT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
checkpoint=$(realpath "$1") gguf=$(realpath "$2")
mkdir -p "$3"
cd "$3"

for name in transformers openvino; do
  [ -x "$name/bin/python" ] || python3 -m venv "$name"
  "$name/bin/pip" install -q -r "$here/requirements-$name.txt"
done
[ -d exported ] || openvino/bin/optimum-cli export openvino -m "$checkpoint" --weight-format fp32 \
  --task text-generation-with-past exported

if [ ! -x llama-bench ]; then
  pip download -q --no-deps --no-binary :all: llama-cpp-python
  tar xf llama_cpp_python-*.tar.gz
  cmake -S llama_cpp_python-*/vendor/llama.cpp -B llama -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF \
    -DLLAMA_BUILD_TOOLS=ON
  cmake --build llama --target llama-bench llama-quantize
  ln -s llama/bin/llama-bench llama-bench
fi
[ -f model-f32.gguf ] || llama/bin/llama-quantize --allow-requantize "$gguf" model-f32.gguf F32

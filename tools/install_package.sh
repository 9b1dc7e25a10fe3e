#!/usr/bin/env bash
# Builds the wheel incrementally in build/wheel and installs it with its extras into .venv.
set -euo pipefail
export CCACHE_BASEDIR=$PWD

mkdir -p build
tools/fresh_build_dir.sh build/wheel
tools/venv.sh 'build==1.*' 'scikit-build-core>=0.11' 'nanobind>=3' 'nlohmann-json>=3.11'
rm -rf build/dist
.venv/bin/python -m build --wheel --no-isolation -Cbuild-dir=build/wheel --outdir build/dist .
wheel=$(ls build/dist/*.whl)
.venv/bin/python -m pip install -qq --force-reinstall --no-deps "$wheel"
.venv/bin/python -m pip install -qq "$wheel[text,gguf]"

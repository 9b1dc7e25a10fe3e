#!/usr/bin/env bash
# Installs the oracle (torch, transformers) into .venv where a CPU build of torch is to be had; says so where it is not.
set -euo pipefail

if ! .venv/bin/python -m pip install -qq --disable-pip-version-check -r requirements-oracle.txt 2>build/oracle.log; then
  echo "torch's CPU build is not available from the configured package index: the tests that compare with transformers"
  echo "will be skipped. To run them: .venv/bin/python -m pip install -r requirements-oracle.txt \\"
  echo "  --extra-index-url https://download.pytorch.org/whl/cpu"
fi

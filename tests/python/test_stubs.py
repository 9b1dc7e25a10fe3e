# SPDX-License-Identifier: Apache-2.0
"""The committed type stub of the extension module is what the module says."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import isobit


@pytest.mark.skipif(not (find_spec("nanobind") and find_spec("ruff")), reason="needs nanobind and ruff")
def test_the_stub_is_current():
    script = Path(__file__).parents[2] / "tools" / "check_stubs.sh"
    built = Path(isobit._core.__file__).parent
    environment = os.environ | {"PYTHON": sys.executable}
    run = subprocess.run([script, built], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr

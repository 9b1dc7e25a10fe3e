# SPDX-License-Identifier: Apache-2.0
"""The tiny checkpoint that the installed library and the installed wheel are tried on."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    subprocess.run([sys.executable, ROOT / "tools" / "make_tiny_checkpoint.py", folder], check=True)
    return folder

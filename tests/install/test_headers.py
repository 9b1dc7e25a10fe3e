# SPDX-License-Identifier: Apache-2.0
"""Public headers: each compiles alone and includes nothing but the standard library and its siblings."""

import re
import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parents[2] / "include"
HEADERS = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.h"))
ALLOWED = re.compile(r"<[a-z_]+>|\"isobit/[a-z_]+\.h\"")


def test_there_are_headers():
    assert "isobit/causal_lm.h" in HEADERS


@pytest.mark.parametrize("header", HEADERS)
def test_compiles_alone(header):
    command = [
        "g++",
        "-std=c++20",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        f"-I{INCLUDE}",
        "-x",
        "c++",
        "-",
    ]
    run = subprocess.run(command, input=f'#include "{header}"\n', capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("header", HEADERS)
def test_includes_only_standard_headers_and_siblings(header):
    included = re.findall(r"^\s*#\s*include\s*(\S+)", (INCLUDE / header).read_text(), re.M)
    assert [name for name in included if not ALLOWED.fullmatch(name)] == []

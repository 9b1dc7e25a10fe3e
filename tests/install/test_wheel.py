# SPDX-License-Identifier: Apache-2.0
"""The wheel installs offline and works in an environment with no compiler and no NumPy."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import importlib.util, sys
assert importlib.util.find_spec("numpy") is None
from isobit.models import CausalLM
model = CausalLM.load(sys.argv[1])
print(model.generate([[3, 1, 4, 1, 5]], 4).tolist()[0])
"""


@pytest.fixture(scope="module")
def fresh_environment(tmp_path_factory):
    wheels = sorted((ROOT / "build" / "dist").glob("isobit-*.whl"))
    if not wheels:
        pytest.skip("no wheel in build/dist: run `make package` first")
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheels[-1]]
    subprocess.run([folder / "bin" / "python", *install], check=True)
    return folder


def run(environment, *command):
    """Runs a program of the environment with nothing else on PATH."""
    program = [environment / "bin" / command[0], *command[1:]]
    variables = {"PATH": str(environment / "bin")}
    return subprocess.run(program, env=variables, capture_output=True, text=True, check=False)


def test_generates(fresh_environment, tiny_checkpoint):
    result = run(fresh_environment, "python", "-c", PROGRAM, tiny_checkpoint)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("[3, 1, 4, 1, 5, ")


def test_command_line(fresh_environment, tiny_checkpoint):
    result = run(fresh_environment, "isobit", "info", tiny_checkpoint)
    assert result.returncode == 0, result.stderr
    assert "llama" in result.stdout


def test_carries_only_the_package(fresh_environment):
    (site,) = fresh_environment.glob("lib/python*/site-packages")
    installed = {path.name for path in site.iterdir()} - {
        "pip",
        "setuptools",
        "_distutils_hack",
        "pkg_resources",
    }
    assert {name for name in installed if not name.endswith((".dist-info", ".pth", ".so"))} <= {
        "isobit",
        "__pycache__",
    }

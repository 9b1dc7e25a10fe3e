# SPDX-License-Identifier: Apache-2.0
"""numeric_mode and numeric_profile: process defaults, the environment, refusals."""

import os
import subprocess
import sys

import pytest
from support.refusals import refuses

import isobit
from isobit import _modes


@pytest.fixture(autouse=True)
def defaults_as_before():
    before = dict(_modes._chosen)
    yield
    _modes._chosen.clear()
    _modes._chosen.update(before)


def in_a_new_process(program, **environment):
    run = subprocess.run(
        [sys.executable, "-c", "import isobit\n" + program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout.strip() or run.stderr.strip().splitlines()[-1]


def test_mode():
    assert isobit.numeric_mode() == "identical"
    for mode in ("fast", "deterministic", "identical"):
        isobit.set_numeric_mode(mode)
        assert isobit.numeric_mode() == mode
    with refuses(ValueError, "[set_numeric_mode] numeric_mode", "identical, deterministic, fast", "'exact'"):
        isobit.set_numeric_mode("exact")
    with refuses(TypeError, "[set_numeric_mode] numeric_mode", "NoneType"):
        isobit.set_numeric_mode(None)
    assert isobit.numeric_mode() == "identical"


def test_mode_of_the_environment():
    assert in_a_new_process("print(isobit.numeric_mode())", ISOBIT_NUMERIC_MODE="fast") == "fast"
    refusal = in_a_new_process("print(isobit.numeric_mode())", ISOBIT_NUMERIC_MODE="exact")
    assert refusal.startswith("ValueError") and "ISOBIT_NUMERIC_MODE" in refusal and "'exact'" in refusal
    overridden = "isobit.set_numeric_mode('identical'); print(isobit.numeric_mode())"
    assert in_a_new_process(overridden, ISOBIT_NUMERIC_MODE="exact") == "identical"


def test_profile():
    assert isobit.numeric_profiles() == ("fp32_v1", "fixed15_v1", "int8x32_v1")
    assert isobit.numeric_profile() == "fp32_v1"
    for name in reversed(isobit.numeric_profiles()):
        isobit.set_numeric_profile(name)
        assert isobit.numeric_profile() == name
    for name in ("int8_v1", "fixed15_int8_attention_v1"):
        with refuses(NotImplementedError, "[set_numeric_profile]", name, "rejected", "perplexity"):
            isobit.set_numeric_profile(name)
    with refuses(ValueError, "[set_numeric_profile]", "fp32_v1", "'bf16'"):
        isobit.set_numeric_profile("bf16")
    with refuses(TypeError, "[set_numeric_profile]", "int"):
        isobit.set_numeric_profile(3)


def test_profile_of_the_environment():
    program = "print(isobit.numeric_profile())"
    for name in isobit.numeric_profiles():
        assert in_a_new_process(program, ISOBIT_NUMERIC_PROFILE=name) == name
    refusal = in_a_new_process(program, ISOBIT_NUMERIC_PROFILE="int8_v1")
    assert refusal.startswith("NotImplementedError") and "int8_v1" in refusal and "rejected" in refusal
    assert in_a_new_process(program, ISOBIT_NUMERIC_PROFILE="bf16").startswith("ValueError")

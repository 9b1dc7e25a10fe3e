# SPDX-License-Identifier: Apache-2.0
"""numeric_mode and numeric_profile: process defaults, the environment, refusals, slow profiles."""

import os
import subprocess
import sys

import pytest
from support.checkpoints import make_config, random_weights, write_checkpoint
from support.refusals import refuses

import isobit
from isobit import _modes
from isobit.models import CausalLM, plan_for


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


SLOW = """
import warnings
import numpy as np
def block(profile, d=8):
    names = {"input_layernorm.weight": d, "post_attention_layernorm.weight": d}
    names |= {f"{n}_proj.weight": (d, d) for n in ("q", "k", "v", "o", "gate", "up", "down")}
    weights = {name: np.ones(shape, "f4") for name, shape in names.items()}
    return isobit.TransformerBlock(weights, n_heads=2, numeric_profile=profile)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for profile in ("fp32_v1", "int8x32_v1", "int8x32_v1", "fixed15_v1", "int8x32_v1"):
        block(profile).set_params(window=3)
    print(len(caught))
    for warning in caught:
        print(warning.category is isobit.NumericProfileSpeedWarning, warning.filename, warning.message)
warnings.simplefilter("error", isobit.NumericProfileSpeedWarning)
block("int8x32_v1")
"""


def test_a_profile_that_is_slow_here_warns_once():
    fast = [isa for isa in isobit.available_isas() if isa != "scalar"]
    for isa in fast:
        assert in_a_new_process(SLOW, ISOBIT_ISA=isa) == "0"
    lines = in_a_new_process(SLOW, ISOBIT_ISA="scalar").splitlines()
    assert lines[0] == "2" and len(lines) == 3
    for line, profile in zip(lines[1:], ("int8x32_v1", "fixed15_v1"), strict=True):
        assert line.startswith("True <string> [TransformerBlock] numeric_profile: ")
        assert all(part in line for part in (profile, "slow", "scalar", "integer dot products"))
    assert issubclass(isobit.NumericProfileSpeedWarning, Warning)


def test_a_model_warns_as_a_block_does(tmp_path):
    config = make_config("llama")
    folder = write_checkpoint(tmp_path / "model", config, random_weights(config))
    used = isobit.active_isa()
    before = set(_modes._warned)
    try:
        isobit.set_isa("scalar")
        for make in (
            lambda: CausalLM.load(folder, numeric_profile="fixed15_v1"),
            lambda: CausalLM(plan_for(config), random_weights(config), numeric_profile="fixed15_v1"),
        ):
            _modes._warned.clear()
            CausalLM.load(folder)
            with pytest.warns(isobit.NumericProfileSpeedWarning, match=r"\[CausalLM\].*fixed15_v1") as caught:
                make()
            assert [warning.filename for warning in caught] == [__file__]
    finally:
        isobit.set_isa(used)
        _modes._warned.clear()
        _modes._warned.update(before)

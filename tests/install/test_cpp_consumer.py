# SPDX-License-Identifier: Apache-2.0
"""find_package(isobit): examples/cpp builds on an installed library, same bits everywhere."""

import os
import subprocess
from pathlib import Path

import pytest

import isobit

ROOT = Path(__file__).resolve().parents[2]
NEW_TOKENS = 12
PROMPT = ["3", "1", "4", "1", "5"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Installs the library into an empty prefix and builds the example with nothing but that prefix."""
    prefix, build = tmp_path_factory.mktemp("prefix"), tmp_path_factory.mktemp("build")
    subprocess.run(["tools/build.sh", "build/release", "isobit"], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--install", ROOT / "build" / "release", "--prefix", prefix], check=True)
    configure = [
        "cmake",
        "-S",
        ROOT / "examples" / "cpp",
        "-B",
        build,
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}",
    ]
    subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", build], check=True)
    return build / "generate"


@pytest.mark.parametrize("arguments", [["x", "3"], ["2", "three"], ["2", "3x"], ["2", ""], ["2", "9" * 30]])
def test_the_example_refuses_what_is_no_number(program, tiny_checkpoint, arguments):
    run = subprocess.run([program, tiny_checkpoint, *arguments], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (1, "")
    assert (
        run.stderr.startswith("[generate] arguments: expected a whole number") and run.stderr.count("\n") == 1
    )


def generate(program, checkpoint, **environment):
    command = [program, checkpoint, str(NEW_TOKENS), *PROMPT]
    run = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    ids, fingerprint = run.stdout.splitlines()
    return [int(token) for token in ids.split()], fingerprint.split()[1]


def test_every_isa_and_thread_count_gives_the_same_fingerprint(program, tiny_checkpoint):
    results = {
        (isa, threads): generate(program, tiny_checkpoint, ISOBIT_ISA=isa, ISOBIT_NUM_THREADS=threads)
        for isa in isobit.available_isas()
        for threads in ("1", "3")
    }
    first = next(iter(results.values()))
    assert len(first[0]) == NEW_TOKENS
    assert all(result == first for result in results.values()), results


def test_python_generates_the_same_ids(program, tiny_checkpoint):
    model = isobit.models.CausalLM.load(str(tiny_checkpoint))
    ids = model.generate([[int(token) for token in PROMPT]], NEW_TOKENS).tolist()[0]
    assert ids[len(PROMPT) :] == generate(program, tiny_checkpoint)[0]


def test_a_missing_folder_is_reported_and_not_a_crash(program, tmp_path):
    run = subprocess.run(
        [program, tmp_path / "absent", "1", "1"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "absent" in run.stderr

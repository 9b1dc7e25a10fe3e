# SPDX-License-Identifier: Apache-2.0
"""Settings of all Python tests.

ISOBIT_LONG_TESTS=1 draws many more examples; ISOBIT_DEMO_MODEL names a folder with the model of the demo.
"""

import os
from pathlib import Path

import hypothesis
import pytest

import isobit
from isobit.models import CausalLM

hypothesis.settings.register_profile(
    "short", max_examples=30, deadline=None, derandomize=True, print_blob=True
)
hypothesis.settings.register_profile("long", max_examples=400, deadline=None, print_blob=True)
hypothesis.settings.load_profile("long" if os.environ.get("ISOBIT_LONG_TESTS") else "short")


@pytest.fixture(autouse=True)
def runtime_as_before():
    """A test may choose threads and instruction set; the next one starts from the same ones."""
    isa, threads = isobit.active_isa(), isobit.num_threads()
    yield
    isobit.set_isa(isa)
    isobit.set_num_threads(threads)


@pytest.fixture(scope="session")
def demo_model():
    """The folder of SmolLM2-135M-Instruct, where it is to be had."""
    default = Path(__file__).parents[2] / "models" / "SmolLM2-135M-Instruct"
    folder = Path(os.environ.get("ISOBIT_DEMO_MODEL", default))
    if not (folder / "config.json").exists():
        pytest.skip(f"no model in {folder} (`make demo` makes one)")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small llama as a checkpoint directory."""
    checkpoints = pytest.importorskip("support.checkpoints")
    config = checkpoints.make_config("llama")
    weights = checkpoints.random_weights(config)
    return checkpoints.write_checkpoint(tmp_path_factory.mktemp("llama"), config, weights)


@pytest.fixture(scope="module")
def model(folder):
    return CausalLM.load(folder)


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory):
    """A small llama as a GGUF file, with its tokenizer."""
    pytest.importorskip("gguf")
    builder = pytest.importorskip("gguf_builder")
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    path.write_bytes(builder.build(*builder.model("llama", positions=256)))
    return path


@pytest.fixture(scope="module")
def converted(gguf_file):
    """The same as a checkpoint directory."""
    return pytest.importorskip("isobit.gguf").convert(gguf_file, gguf_file.parent / "tiny")

# SPDX-License-Identifier: Apache-2.0
"""A loaded model computes its first pass from the file's own pages: the bits of weights in memory, and never
those of a file that has changed."""

import os
import subprocess
import sys

import numpy as np
import pytest
from support.checkpoints import make_config, random_weights, write_checkpoint
from support.refusals import refuses

from isobit.cli import info
from isobit.models import CausalLM, Checkpoint, HFConfig, plan_for

IDS = [[5, 17, 2, 33, 8], [40, 1, 9, 9, 60]]


def in_memory(folder, **options):
    checkpoint = Checkpoint.open(folder)
    weights = {name: checkpoint.read(name) for name in checkpoint.names()}
    return CausalLM(plan_for(HFConfig.from_json(folder)), weights, **options)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "phi3"])
@pytest.mark.parametrize("tied", [False, True])
def test_every_pass_has_the_same_bits(tmp_path, family, dtype, tied):
    config = make_config(family) | {"tie_word_embeddings": tied}
    folder = write_checkpoint(tmp_path, config, random_weights(config), dtype)
    expected = np.asarray(in_memory(folder).forward(IDS)).tobytes()
    model = CausalLM.load(folder)
    assert [np.asarray(model.forward(IDS)).tobytes() == expected for _ in range(3)] == [True] * 3
    by_token = CausalLM.load(folder)
    state = by_token.allocate_state(2, 8)
    steps = [np.asarray(by_token.step([row[t] for row in IDS], state)) for t in range(5)]
    assert np.stack(steps, axis=1).tobytes() == expected


def test_parameters_are_the_same_before_and_after(tmp_path):
    config = make_config("llama")
    folder = write_checkpoint(tmp_path, config, random_weights(config), "BF16")
    model = CausalLM.load(folder)
    before = {name: np.asarray(value).tobytes() for name, value in model.parameters().items()}
    model.generate(IDS, 3)
    assert before == {name: np.asarray(value).tobytes() for name, value in model.parameters().items()}


@pytest.mark.parametrize("family", ["llama", "phi3"])
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
@pytest.mark.parametrize("tied", [False, True])
def test_bytes_that_are_announced_are_those_of_the_model(tmp_path, family, dtype, tied):
    # Every matrix is of whole panels.
    config = make_config(family, hidden_size=64, intermediate_size=64) | {"tie_word_embeddings": tied}
    folder = write_checkpoint(tmp_path, config, random_weights(config), dtype)
    model = CausalLM.load(folder)
    each = 2 if dtype == "BF16" else 4
    assert info.describe(folder)["memory_bytes"] == model.weight_bytes
    assert model.step_bytes == model.weight_bytes - (0 if tied else each * 96 * 64)


SHORT_OF_MEMORY = """
import resource, sys, numpy as np
from isobit.models import CausalLM
import isobit
isobit.set_num_threads(1)
free, short = CausalLM.load(sys.argv[1]), CausalLM.load(sys.argv[1])
expected = [np.asarray(free.forward([[5, 17, 2]])).tobytes() for _ in range(2)][1]
assert np.asarray(short.forward([[5, 17, 2]])).tobytes() == expected
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
# Room for a state, and then for no matrix.
resource.setrlimit(resource.RLIMIT_AS, (used + (44 << 20), resource.RLIM_INFINITY))
assert all(np.asarray(short.forward([[5, 17, 2]])).tobytes() == expected for _ in range(3))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_without_memory_for_panels_the_file_serves_on(tmp_path):
    config = make_config("llama") | {"hidden_size": 512, "intermediate_size": 8192, "head_dim": 16}
    folder = write_checkpoint(tmp_path, config, random_weights(config))
    subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY, str(folder)], check=True)


def rewrite(path, keep):
    """Other weights in the same file, or only its beginning."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size if keep else size // 2)
        file.seek(size // 2 - 64)
        file.write(bytes(64))
    later = path.stat().st_mtime + 2
    os.utime(path, (later, later))


@pytest.mark.parametrize("keep", [True, False])
def test_a_file_that_was_written_is_refused(tmp_path, keep):
    config = make_config("llama")
    folder = write_checkpoint(tmp_path, config, random_weights(config))
    path = folder / "model.safetensors"
    fresh, used, packed = (CausalLM.load(folder) for _ in range(3))
    states = [model.allocate_state(2, 16) for model in (used, packed)]
    for model, state in zip((used, packed), states, strict=True):
        model.forward(IDS, state)
    expected = np.asarray(packed.forward(IDS)).tobytes()
    rewrite(path, keep)
    with refuses(ValueError, str(path), "as it was opened"):
        fresh.forward(IDS)
    with refuses(ValueError, str(path), "as it was opened"):
        used.step([3, 4], states[0])
    assert states[0].positions == 5
    with refuses(ValueError, str(path), "as it was opened"):
        used.parameters()
    assert np.asarray(packed.forward(IDS)).tobytes() == expected


def test_a_file_that_was_replaced_or_removed_is_still_there(tmp_path):
    config = make_config("llama")
    folder = write_checkpoint(tmp_path / "model", config, random_weights(config))
    other = write_checkpoint(tmp_path / "other", config, random_weights(config, seed=1))
    expected = np.asarray(in_memory(folder).forward(IDS)).tobytes()
    replaced, removed = CausalLM.load(folder), CausalLM.load(folder)
    os.replace(other / "model.safetensors", folder / "model.safetensors")
    assert np.asarray(replaced.forward(IDS)).tobytes() == expected
    (folder / "model.safetensors").unlink()
    for model in (replaced, removed, removed):
        assert np.asarray(model.forward(IDS)).tobytes() == expected

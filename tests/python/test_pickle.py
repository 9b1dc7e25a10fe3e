# SPDX-License-Identifier: Apache-2.0
"""Blocks and configs through pickle and copy, also into another process."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from support.bits import same
from support.blocks import case
from support.refusals import refuses

import isobit
from isobit.models import CausalLM, HFConfig

OPTIONS = {
    "window": 5,
    "attn_softcap": 9.0,
    "mlp": "geglu",
    "rope_dim": 4,
    "qk_norm": True,
    "rope_scaling": {
        "rope_type": "longrope",
        "short_factor": [1.0, 1.5],
        "long_factor": [2.0, 3.0],
        "original_max_position_embeddings": 64,
        "factor": 4.0,
    },
}


@pytest.mark.parametrize("cls", [isobit.TransformerBlock, isobit.TransformerBlockInference])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_blocks(cls, copied):
    c = case(**OPTIONS)
    block = cls(c.weights(), **c.options, numeric_mode="fast")
    other = copied(block)
    x = c.input(2, 9)
    assert type(other) is cls and same(other(x), block(x))
    assert other.numeric_mode == "fast"
    for name, value in block.get_params().items():
        if name != "weights":
            assert getattr(other, name) == value, name
    other.set_params(weights=case(seed=3, **OPTIONS).weights())
    assert same(block(x), case(**OPTIONS).block()(x))


def test_subclasses_keep_their_class_and_attributes():
    class Named(isobit.TransformerBlock):
        pass

    c = case()
    block = Named(c.weights(), **c.options)
    assert type(copy.deepcopy(block)) is Named


def test_another_process_computes_the_same_bits(tmp_path):
    c = case(**OPTIONS)
    block, x = c.block(), c.input(1, 7)
    state = block.allocate_state(1, 9)
    block.forward(x[:, :3], state)
    file = tmp_path / "all.pickle"
    file.write_bytes(pickle.dumps((block, state, isobit.Array.from_buffer(x[:, 3:].copy()))))
    program = (
        "import pickle, sys\n"
        f"block, state, x = pickle.load(open({str(file)!r}, 'rb'))\n"
        "sys.stdout.buffer.write(bytes(block.forward(x, state)))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert run.stdout == bytes(block.forward(x[:, 3:], state))


def test_names_in_pickles_are_public():
    c = case()
    data = pickle.dumps((c.block(), c.block().allocate_state(1, 2), isobit.Array.zeros(2)))
    assert b"_core" not in data


def test_configs():
    config = HFConfig({"model_type": "llama", "hidden_size": 64, "rope_theta": 1e4}, "/models/config.json")
    for other in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert dict(other) == dict(config) and other.path == config.path


def test_models_are_loaded_again():
    with refuses(TypeError, "[CausalLM] pickle", "directory"):
        CausalLM.__new__(CausalLM).__reduce__()


def test_sessions_are_not_copied():
    block = case().block()
    session = block.decode_session(block.allocate_state(1, 2))
    with pytest.raises(TypeError):
        pickle.dumps(session)
    assert np.isfinite(np.asarray(session.step(case().input(1, 1)[:, 0]))).all()

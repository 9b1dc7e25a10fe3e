# SPDX-License-Identifier: Apache-2.0
"""Objects behind their constructor's back: used before it, constructed twice, written to."""

import inspect

import numpy as np
import pytest
from support.bits import same
from support.blocks import case
from support.checkpoints import make_config, random_weights
from support.refusals import refuses
from test_mamba_block import make

import isobit
from isobit import Array, TransformerBlock, TransformerState, mamba, models
from isobit.models import CausalLM, write_safetensors
from isobit.transformer import TransformerDecodeSession

COMPILED = [
    Array,
    TransformerBlock,
    isobit.TransformerBlockInference,
    TransformerState,
    TransformerDecodeSession,
    *(getattr(mamba, name) for name in mamba.__all__),
    CausalLM,
    models.CausalLMState,
    models.Checkpoint,
    models.ModelPlan,
    models.SafetensorsFile,
    models.TensorInfo,
]


def sessions():
    for block in (case().block(), make("1"), make("2"), make("3")):
        state = block.allocate_state(1, 4) if type(block) is TransformerBlock else block.allocate_state(1)
        yield block, state, block.decode_session(state)


def uses(cls):
    """Every property and every method that takes nothing."""
    blank = cls.__new__(cls)
    yield lambda: repr(blank)
    for name, member in inspect.getmembers(cls):
        if isinstance(member, property):
            yield lambda name=name: getattr(blank, name)
        elif name in ("names", "tolist", "reset", "keys", "close", "parameters", "get_params", "__enter__"):
            yield lambda name=name: getattr(blank, name)()


@pytest.mark.parametrize("cls", COMPILED)
@pytest.mark.filterwarnings("error")
def test_before_the_constructor(cls):
    refused = 0
    for use in uses(cls):
        try:
            use()
        except TypeError as error:
            assert str(error).startswith(f"[{cls.__name__}] self: expected an initialised object, got")
            refused += 1
    assert refused >= 3 or (cls is Array and refused >= 2)


def test_a_subclass_that_forgets_its_base():
    class Forgetful(TransformerBlock):
        def __init__(self):
            pass

    with refuses(TypeError, "[Forgetful] self", "__init__ has not run"):
        Forgetful().forward(case().input(1, 2))
    with refuses(TypeError, "[Forgetful] self", "__init__ has not run"):
        TransformerDecodeSession(Forgetful(), case().block().allocate_state(1, 2))


@pytest.mark.filterwarnings("error")
def test_a_second_constructor_changes_nothing(model, tmp_path):
    plan, ids = model.plan, [[1, 2, 3]]
    logits = model.forward(ids)
    with refuses(TypeError, "[CausalLM] __init__", "second"):
        model.__init__(plan, random_weights(make_config("llama"), seed=5), numeric_mode="fast")
    assert same(model.forward(ids), logits) and model.numeric_mode is None
    for block, state, session in sessions():
        x = np.ones((1, 1, block.d_model), np.float32)
        y, before = block.forward(x), repr(state)
        params = {**block.get_params(), "norm_eps": 0.5, "numeric_mode": "fast"}
        with refuses(TypeError, f"[{type(block).__name__}] __init__", "second"):
            block.__init__(**params)
        assert same(block.forward(x), y) and block.norm_eps != 0.5 and block.numeric_mode is None
        with refuses(TypeError, f"[{type(session).__name__}] __init__", "second"):
            session.__init__(block, state)
        assert session.is_open and session.state is state
        with refuses(TypeError, f"[{type(state).__name__}] __init__", "second"):
            state.__init__(*state.__reduce__()[1])
        assert repr(state) == before
    write_safetensors(tmp_path / "a.safetensors", {"a": np.ones(2, np.float32)})
    with models.SafetensorsFile(tmp_path / "a.safetensors") as file:
        with refuses(TypeError, "[SafetensorsFile] __init__", "second"):
            file.__init__(tmp_path / "b.safetensors")
        assert file.names() == ["a"]


WRITABLE = {"k_cache", "v_cache", "cached_tokens", "conv_window", "h", "theta", "k", "v"}


def public(thing):
    return [name for name in dir(thing) if not name.startswith("_") and not callable(getattr(thing, name))]


def test_attributes_are_read_only(model):
    things = [model, model.allocate_state(1, 4), *(part for three in sessions() for part in three)]
    for thing in things:
        names = [name for name in public(thing) if name not in WRITABLE]
        assert len(names) >= 1
        for name in names:
            before, where = (
                repr(getattr(thing, name)),
                f"[{type(thing).__name__}] {name}: expected to be read",
            )
            with refuses(AttributeError, where, "got an assignment"):
                setattr(thing, name, 3)
            with refuses(AttributeError, where, "got a deletion"):
                delattr(thing, name)
            assert repr(getattr(thing, name)) == before
    block = case(rope_scaling={"rope_type": "linear", "factor": 2.0}).block()
    block.rope_scaling["factor"] = 3.0  # a copy
    assert block.rope_scaling["factor"] == 2.0
    assert {"d_model", "n_heads", "norm", "device", "numeric_mode", "weight_format"} <= set(public(block))
    with refuses(AttributeError, "[TransformerBlock] n_heads", "set_params"):
        block.n_heads = 2
    block.note = "mine"  # a name of the user's own
    assert block.note == "mine"
    del block.note

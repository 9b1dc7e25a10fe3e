# SPDX-License-Identifier: Apache-2.0
"""Refusals name the class, the argument, what was expected and what came, whatever is wrong."""

import numpy as np
import pytest
from support.blocks import case
from support.checkpoints import make_config, random_weights
from support.refusals import refuses
from test_mamba_block import draw, make

import isobit
from isobit import Array, TransformerBlock, TransformerState, linalg, lowbit, models
from isobit.models import CausalLM, CausalLMState, HFConfig, SafetensorsFile, plan_for


@pytest.fixture(scope="module")
def block():
    c = case()
    return TransformerBlock(c.weights(), **c.options)


def test_names_that_are_no_text():
    c = case()
    with refuses(ValueError, "[TransformerBlock] weight name", "'\\ud800'"):
        TransformerBlock({**c.weights(), "\ud800": np.ones(1, np.float32)}, **c.options)
    with refuses(ValueError, "[Array] dtype", "surrogates"):
        Array.zeros(1, "\ud800")


def test_states_that_were_not_initialised(block, model):
    x = case().input(2, 1)
    with refuses(TypeError, "[TransformerBlock] state: expected a TransformerState"):
        block.step(x, TransformerState.__new__(TransformerState))
    with refuses(TypeError, "[CausalLM] state: expected a CausalLMState"):
        model.step([1], CausalLMState.__new__(CausalLMState))


def test_sizes_beyond_memory(block, model):
    for call in (
        lambda: block.allocate_state(2**50, 8),
        lambda: block.allocate_state(2**62, 8),
        lambda: TransformerState(2**31, 2**31, 2, 2**31),
        lambda: model.allocate_state(2**55, 8),
        lambda: Array.empty((2**60,)),
    ):
        with refuses(MemoryError, "expected a size that fits into memory, got"):
            call()
    with refuses(ValueError, "[Array] shape", "within int64"):
        Array.zeros(10**30)


def test_broadcast_arrays_are_measured_before_they_are_copied(block, model):
    d = block.d_model
    with refuses(ValueError, "[TransformerBlock] x", "max_positions"):
        block.forward(np.broadcast_to(np.float32(0), (1, 10**10, d)))
    with refuses(ValueError, "[TransformerBlock] x", "shape"):
        block.step(np.broadcast_to(np.float32(0), (1, 10**10, d)), block.allocate_state(1, 8))
    ids = np.broadcast_to(np.int64(1), (1, 10**10))
    for call in (model.forward, lambda x: model.generate(x, 1)):
        with refuses(ValueError, "[CausalLM] ids", "at most 128", "10000000000"):
            call(ids)
    with refuses(ValueError, "[CausalLM] ids", "shape"):
        model.step(np.broadcast_to(np.int64(1), (10**5, 10**5)), model.allocate_state(1, 8))


ROWS = 10**14  # more than any address space has bytes


def test_broadcast_batches_are_measured_before_they_are_copied(block, model):
    mamba = make("2")
    states = block.allocate_state(2, 8), mamba.allocate_state(2), model.allocate_state(2, 8)
    sessions = [b.decode_session(b.allocate_state(*more)) for b, more in ((block, (2, 8)), (mamba, (2,)))]
    for b, state, session in zip((block, mamba), states, sessions, strict=False):
        x = np.broadcast_to(np.float32(0), (ROWS, 1, b.d_model))
        for call in (b.forward, b.step):
            with refuses(ValueError, f"[{type(b).__name__}] state.batch_size", str(ROWS), "got 2"):
                call(x, state)
        for call in (session.forward, session.step):
            with refuses(ValueError, "Session] state.batch_size", str(ROWS), "got 2"):
                call(x)
        with pytest.raises(MemoryError, match="fits into memory"):
            b.forward(x)
    ids = np.broadcast_to(np.int64(1), (ROWS, 1))
    for call in (model.forward, model.step):
        with refuses(ValueError, "[CausalLM] state.batch_size", str(ROWS), "got 2"):
            call(ids, states[2])
    for call in (model.forward, lambda x: model.generate(x, 1), lambda x: model.forward(x, last_only=True)):
        with refuses(MemoryError, "[CausalLM] ids", f"({ROWS}, 1)"):
            call(ids)


def test_other_broadcast_arrays_are_measured_before_they_are_copied():
    whole = np.broadcast_to(np.float32(0), (ROWS, 24))
    state = make("1").allocate_state(2)
    for name in ("conv_window", "h"):
        huge = np.broadcast_to(np.float32(0), (ROWS, *getattr(state, name).shape[1:]))
        with refuses(ValueError, f"[Mamba1State] {name}", "shape", str(ROWS)):
            setattr(state, name, huge)
    with refuses(ValueError, "[linalg.matmul] b", "extent that is summed"):
        linalg.matmul(whole, np.ones((2, 3), np.float32))
    with refuses(MemoryError, "fits into memory"):
        linalg.matmul(whole, np.ones((24, 3), np.float32))


def test_broadcast_lengths_are_measured_before_they_are_copied(block, model):
    lengths = np.broadcast_to(np.int64(1), (ROWS,))
    for thing, x in ((block, case().input(2, 3)), (make("1"), draw((2, 3, 24))), (model, [[1, 2], [3, 4]])):
        for wrong in (lengths, np.broadcast_to(np.int64(1), (ROWS, 1)), [1]):
            with refuses(ValueError, f"[{type(thing).__name__}] lengths"):
                thing.forward(x, lengths=wrong)


def test_arguments_of_a_wrong_kind(model):
    plan = model.plan
    for wrong in (10**30, -(10**30)):
        with refuses(ValueError, "[ModelPlan] i", "within int64"):
            plan.layer_kwargs(wrong)
    with refuses(TypeError, "[CausalLM] plan", "NoneType"):
        CausalLM(None, {})
    with refuses(TypeError, "[CausalLM] weights", "NoneType"):
        CausalLM(plan, None)
    with refuses(models.UnsupportedModel, "[CausalLM] weights: expected a key 'embed'"):
        CausalLM(plan, {"layers": None})
    whole = {"embed": 0, "norm": 0, "head": 0}
    for layers in (None, 5, [None]):
        with refuses(TypeError, "[CausalLM] layers"):
            CausalLM(plan, {**whole, "layers": layers})
    with refuses(TypeError, "[set_isa] name", "NoneType"):
        isobit.set_isa(None)
    with refuses(ValueError, "[set_num_threads] n", "got -1"):
        isobit.set_num_threads(-1)
    with refuses(TypeError, "[lowbit] weights", "NoneType"):
        lowbit.pack(None, "int8")
    with refuses(ValueError, "[HFConfig] data", "object"):
        HFConfig({"model_type": "llama", "x": object()})
    with refuses(ValueError, "[CausalLM] path", "non-empty"):
        CausalLM.load("")


def test_numbers_in_messages():
    c = case()
    for option, value, shown in (
        ("norm_eps", 1e-50, "got 1e-50"),
        ("norm_eps", 1e300, "got 1e+300"),
        ("rope_theta", 1e39, "expected a finite float32 number > 0, got 1e+39"),
        ("attn_softcap", -2, "got -2"),
    ):
        with refuses(ValueError, f"[TransformerBlock] {option}", shown):
            TransformerBlock(c.weights(), **{**c.options, option: value})
    with refuses(ValueError, "[TransformerBlock] norm: "):
        TransformerBlock(c.weights(), **{**c.options, "norm": "x"})
    with refuses(ValueError, "[TransformerBlock] rope_theta", "float64, got int that"):
        TransformerBlock(c.weights(), **{**c.options, "rope_theta": 10**400})


def test_out_of_a_product():
    a = np.ones((2, 3), np.float32)
    frozen = np.zeros((2, 2), np.float32)
    frozen.setflags(write=False)
    with refuses(ValueError, "[linalg.matmul] out", "read-only"):
        linalg.matmul(a, a.T, out=frozen)
    with refuses(ValueError, "[linalg.matmul] out", "strides (4, 8)"):
        linalg.matmul(a, a.T, out=np.zeros((2, 2), np.float32, order="F"))


@pytest.mark.parametrize(
    "content, shown",
    [
        (b"<!DOCTYPE html><html>", "<!DOCTYPE html><html>"),
        (b"version https://git-lfs.github.com/spec/v1\n", "version https://git-lfs."),
        (b"GGUF\x03\x00\x00\x00" + bytes(40), "GGUF\\x03\\x00"),
        (b'{\n  "a": 1}', "{\\x0a  \\x22a\\x22: 1}"),
        (b"", 'begins with ""'),
        ((8).to_bytes(8, "little") + b"hello   ", "hello"),
    ],
)
def test_other_files(tmp_path, content, shown):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with refuses(ValueError, "[SafetensorsFile]", "not a safetensors file", shown):
        SafetensorsFile(path)


def test_weights_of_another_type_are_named(tmp_path):
    config = make_config("llama")
    weights = {name: w.astype(np.float64) for name, w in random_weights(config).items()}
    with refuses(TypeError, "[CausalLM] model.embed_tokens.weight", "F64"):
        CausalLM(plan_for(config), weights)


def test_a_state_is_mentioned_where_there_is_one():
    c = case()
    weights = c.weights()
    for name in ("up_proj.weight", "down_proj.weight"):
        weights[name] = weights[name] * np.float32(1e30)
    block = TransformerBlock(weights, **c.options)
    with pytest.raises(isobit.NonFiniteError) as caught:
        block.forward(c.input(1, 3), block.allocate_state(1, 8))
    assert "the state is as before the call" in str(caught.value)
    with pytest.raises(isobit.NonFiniteError) as caught:
        block.forward(c.input(1, 3))
    assert "state is as before" not in str(caught.value)

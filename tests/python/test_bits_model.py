# SPDX-License-Identifier: Apache-2.0
"""Whole models: prefill = any split = steps = ragged = row alone = any thread count = any instruction set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bits import by_steps, in_calls, next_up, same
from support.blocks import cuts
from support.checkpoints import make_config, random_weights, without_prefix, write_checkpoint

import isobit
from isobit.models import CausalLM, plan_for

LONGROPE = {"rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2], "long_factor": [1.0, 2.0, 5.0]}
CONFIGS = {
    "llama": make_config("llama", attention_bias=True, mlp_bias=True),
    "mistral": make_config("mistral", head_dim=12, sliding_window=6),
    "qwen2": make_config(
        "qwen2", use_sliding_window=True, sliding_window=5, max_window_layers=1, tie_word_embeddings=True
    ),
    "qwen3": make_config("qwen3", head_dim=16, rope={"rope_type": "linear", "factor": 2.0}),
    "phi3": make_config(
        "phi3",
        rope=LONGROPE | {"partial_rotary_factor": 0.75},
        head_dim=8,
        sliding_window=7,
        original_max_position_embeddings=32,
    ),
}
MODELS = {}


def model_of(family):
    if family not in MODELS:
        config = CONFIGS[family]
        MODELS[family] = CausalLM(plan_for(config), random_weights(config))
    return MODELS[family]


def draw_ids(data, model, batch, length):
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    return rng.integers(0, model.vocab_size, (batch, length))


@pytest.mark.parametrize("family", CONFIGS)
@given(st.data())
def test_ways_to_cut_and_batch(family, data):
    model = model_of(family)
    batch, length = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 40))
    ids = draw_ids(data, model, batch, length)
    whole = np.asarray(model.forward(ids))
    assert same(in_calls(model, ids, data.draw(cuts(length))), whole)
    assert same(by_steps(model.step, ids, model.allocate_state(batch, length)), whole)
    assert same(model.forward(ids, last_only=True), whole[:, -1])
    assert same(model.forward(ids[:1]), whole[:1])
    order = data.draw(st.permutations(range(batch)))
    assert same(model.forward(ids[order]), whole[order])
    lengths = data.draw(st.lists(st.integers(1, length), min_size=batch, max_size=batch))
    ragged = np.asarray(model.forward(ids, lengths=lengths))
    last = np.asarray(model.forward(ids, lengths=lengths, last_only=True))
    for i, n in enumerate(lengths):
        assert same(ragged[i, :n], whole[i, :n])
        assert same(last[i], whole[i, n - 1])


@pytest.mark.parametrize("family", CONFIGS)
def test_threads_and_instruction_sets(family):
    ids = np.random.default_rng(6).integers(0, 96, (2, 30))
    whole = np.asarray(model_of(family).forward(ids))
    generated = np.asarray(model_of(family).generate(ids, 8))
    config = CONFIGS[family]
    for isa in isobit.available_isas():
        isobit.set_isa(isa)
        model = CausalLM(plan_for(config), random_weights(config))
        for threads in (1, 2, 3, 7):
            isobit.set_num_threads(threads)
            assert same(model.forward(ids), whole), (isa, threads)
            state = model.allocate_state(2, 30)
            assert same(model.forward(ids[:, :17], state), whole[:, :17])
            assert same(by_steps(model.step, ids[:, 17:], state), whole[:, 17:])
            assert np.array_equal(model.generate(ids, 8), generated)


@pytest.mark.parametrize("family", CONFIGS)
@given(st.data())
def test_generate_is_stepwise_argmax(family, data):
    """Ties go to the lowest id; a row among others is generated as if it were alone."""
    model = model_of(family)
    batch, length, n = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 20)), 9)
    ids = draw_ids(data, model, batch, length)
    generated = np.asarray(model.generate(ids, n))
    assert generated.dtype == np.int32
    state = model.allocate_state(batch, length + n)
    logits = np.asarray(model.forward(ids, state))[:, -1]
    for i in range(n):
        chosen = logits.argmax(-1)  # the first of equal ones
        assert np.array_equal(generated[:, length + i], chosen)
        logits = np.asarray(model.step(chosen, state))
    assert np.array_equal(generated[:, :length], ids)
    for i in range(batch):
        assert np.array_equal(model.generate(ids[i : i + 1], n)[0], generated[i])


def test_ties_go_to_the_lowest_id():
    """Two equal rows of the head always tie: the second of them is never chosen."""
    config = make_config("llama")
    weights = random_weights(config)
    head = weights["lm_head.weight"]
    head[:] = head[: len(head) // 2].repeat(2, axis=0)
    model = CausalLM(plan_for(config), weights)
    generated = np.asarray(model.generate(np.arange(12).reshape(3, 4), 20))
    assert not (generated[:, 4:] % 2).any()
    assert len(set(generated[:, 4:].flat)) > 3


@pytest.mark.parametrize("family", CONFIGS)
def test_a_reset_state_is_a_new_one(family):
    model = model_of(family)
    ids = np.random.default_rng(8).integers(0, 96, (1, 25))
    state = model.allocate_state(1, 25)
    first = np.asarray(model.forward(ids, state))
    model.reset_state(state)
    assert state.positions == 0
    assert same(model.forward(ids, state), first)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("family", CONFIGS)
def test_how_a_checkpoint_is_stored(tmp_path, family, dtype):
    """Shards, names and dtype of the files do not matter: the widened weights decide."""
    config = CONFIGS[family]
    weights = random_weights(config)
    ids = np.random.default_rng(9).integers(0, 96, (1, 20))
    write_checkpoint(tmp_path / "one", config, weights, dtype)
    write_checkpoint(tmp_path / "many", config, without_prefix(weights), dtype, shards=3)
    one = CausalLM.load(tmp_path / "one")
    whole = np.asarray(one.forward(ids))
    assert same(CausalLM.load(tmp_path / "many").forward(ids), whole)
    assert same(CausalLM(one.plan, one.parameters()).forward(ids), whole)
    assert same(whole, model_of(family).forward(ids)) is (dtype == "F32")


def test_step_vs_full_notices_one_ulp():
    """The comparison of steps with a full pass can fail: a cache off by one ulp anywhere is enough."""
    model = model_of("llama")
    ids = np.random.default_rng(10).integers(0, 96, (1, 16))
    whole = np.asarray(model.forward(ids))
    for layer in range(model.n_layers):
        for cache in ("k_cache", "v_cache"):
            state = model.allocate_state(1, 16)
            model.forward(ids[:, :10], state)
            buffer = np.array(getattr(state.layers[layer], cache))
            for index in range(0, 80, 8):
                buffer[index] = next_up(buffer[index])
            setattr(state.layers[layer], cache, buffer)
            assert not same(by_steps(model.step, ids[:, 10:], state), whole[:, 10:]), (layer, cache)

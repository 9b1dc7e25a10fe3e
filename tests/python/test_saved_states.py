# SPDX-License-Identifier: Apache-2.0
"""States remember the numeric profile that filled them, also in pickles; blocks of others refuse them."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from support.bits import same
from support.blocks import case
from support.checkpoints import make_config, random_weights, write_checkpoint
from support.refusals import refuses

import isobit
from isobit import TransformerState
from isobit.models import CausalLM

PROFILES = isobit.numeric_profiles()
COPIES = [copy.copy, copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))]


def filled(profile, window=0):
    """A block of a profile, its input, and a state after five tokens."""
    c = case(window=window, numeric_profile=profile)
    block, x = c.block(), c.input(2, 9)
    state = block.allocate_state(2, 9)
    block.forward(x[:, :5], state)
    return block, x, state


def snapshot(state):
    return state.numeric_profile, state.cached_tokens, bytes(state.k_cache), bytes(state.v_cache)


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("copied", COPIES)
def test_copies_continue(profile, window, copied):
    block, x, state = filled(profile, window)
    other = copied(state)
    assert other.numeric_profile == profile and snapshot(other) == snapshot(state)
    assert same(block.forward(x[:, 5:], other), np.asarray(block(x))[:, 5:])


@pytest.mark.parametrize("profile", PROFILES)
def test_the_field_is_stored_unless_it_is_fp32_v1(profile):
    _, _, state = filled(profile)
    _, values = state.__reduce__()
    assert values[8:] == (() if profile == "fp32_v1" else (profile,))
    assert (profile.encode() in pickle.dumps(state)) == (profile != "fp32_v1")
    assert TransformerState(*values[:8]).numeric_profile == "fp32_v1"


@pytest.mark.parametrize(("of_state", "of_block"), list(itertools.permutations(PROFILES, 2)))
@pytest.mark.parametrize("copied", [lambda state: state, *COPIES])
def test_another_profile_is_refused(of_state, of_block, copied):
    block, x, _ = filled(of_block)
    own, _, state = filled(of_state)
    state = copied(state)
    before = snapshot(state)
    for call in (
        lambda: block.forward(x[:, 5:], state),
        lambda: block(x[:, 5:], state),
        lambda: block.step(x[:, 5], state),
    ):
        with refuses(ValueError, "[TransformerBlock] state.numeric_profile", of_state, of_block):
            call()
    with refuses(ValueError, "[TransformerDecodeSession] state", "numeric_profile", of_state, of_block):
        block.decode_session(state)
    assert snapshot(state) == before
    assert same(own.forward(x[:, 5:], state), np.asarray(own(x))[:, 5:])


def test_a_block_that_changed_its_profile_refuses_its_old_states():
    block, x, state = filled("fp32_v1")
    before = snapshot(state)
    block.set_params(numeric_profile="int8x32_v1")
    with refuses(ValueError, "[TransformerBlock] state.numeric_profile", "int8x32_v1", "fp32_v1"):
        block.step(x[:, 5], state)
    assert snapshot(state) == before


@pytest.mark.parametrize("profile", PROFILES)
def test_an_empty_state_takes_the_profile_of_its_first_tokens(profile):
    block, x, used = filled(profile)
    state = TransformerState(2, 2, 8, 9)
    assert state.numeric_profile == "fp32_v1"
    broken = np.full_like(x[:, :1], 3e38)
    with pytest.raises(isobit.NonFiniteError):
        block.forward(broken, state)
    assert state.numeric_profile == "fp32_v1" and state.cached_tokens == 0
    with block.decode_session(state) as session:
        session.forward(x[:, :5])
    assert snapshot(state) == snapshot(used)
    state.reset()
    other = case(numeric_profile="fp32_v1").block()
    other.forward(x, state)
    assert state.numeric_profile == "fp32_v1" and state.cached_tokens == 9


def test_buffers_from_elsewhere_say_what_filled_them():
    block, x, state = filled("int8x32_v1")
    parts = (2, 2, 8, 9, state.k_cache, state.v_cache, 5, 0)
    assert same(
        block.step(x[:, 5], TransformerState(*parts, numeric_profile="int8x32_v1")),
        block.step(x[:, 5], state),
    )
    unnamed = TransformerState(*parts)
    with refuses(ValueError, "[TransformerBlock] state.numeric_profile", "int8x32_v1", "fp32_v1"):
        block.step(x[:, 5], unnamed)


@pytest.mark.parametrize(
    ("value", "error", "part"),
    [
        ("int8x32_v2", ValueError, "fp32_v1, fixed15_v1, int8x32_v1"),
        ("", ValueError, "fp32_v1"),
        ("FP32_V1", ValueError, "fp32_v1"),
        ("fp32_v1\0", ValueError, "fp32_v1"),
        ("int8_v1", NotImplementedError, "rejected"),
        ("fixed15_int8_attention_v1", NotImplementedError, "rejected"),
        (None, TypeError, "NoneType"),
        (1, TypeError, "int"),
        (b"fp32_v1", TypeError, "bytes"),
        (("fp32_v1",), TypeError, "tuple"),
    ],
)
def test_hostile_fields(value, error, part):
    _, _, state = filled("int8x32_v1")
    cls, values = state.__reduce__()

    class Hostile:
        def __reduce__(self):
            return cls, (*values[:8], value)

    for make in (
        lambda: pickle.loads(pickle.dumps(Hostile())),
        lambda: cls(1, 2, 8, 9, numeric_profile=value),
    ):
        with refuses(error, "[TransformerState] numeric_profile", part):
            make()
    before = snapshot(state)
    with pytest.raises(AttributeError):
        state.numeric_profile = "fp32_v1"
    assert snapshot(state) == before


def test_layers_of_a_model(tmp_path):
    config = make_config("llama")
    folder = write_checkpoint(tmp_path / "model", config, random_weights(config))
    ids = [[5, 9, 70]]
    models = {profile: CausalLM.load(folder, numeric_profile=profile) for profile in PROFILES}
    for profile, model in models.items():
        state = model.allocate_state(1, 8)
        assert [layer.numeric_profile for layer in state.layers] == [profile] * model.n_layers
        model.forward(ids, state)
        layer = pickle.loads(pickle.dumps(state.layers[0]))
        assert layer.numeric_profile == profile
        for other, foreign in models.items():
            x = np.ones((1, model.d_model), "f4")
            if other == profile:
                foreign.blocks[0].step(x, copy.copy(layer))
                continue
            with refuses(ValueError, "[TransformerBlock] state.numeric_profile", other, profile):
                foreign.blocks[0].step(x, layer)
            with refuses(ValueError, "[CausalLM] state", "another model"):
                foreign.step([1], state)
        assert layer.cached_tokens == 3 and state.positions == 3

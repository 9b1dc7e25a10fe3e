# SPDX-License-Identifier: Apache-2.0
"""TransformerState: the documented layout, edits of the shared buffers, and what does not fit."""

import copy
import pickle

import numpy as np
import pytest
from support.bits import same
from support.blocks import case
from support.refusals import refuses

from isobit import Array, TransformerState

SIZES = {"batch_size": 2, "n_kv_heads": 2, "head_dim": 8, "max_tokens": 10}
FLAT = 2 * 2 * 10 * 8


def filled(window=0, tokens=5, batch=2):
    """A block, its input and a state after `tokens` tokens."""
    c = case(window=window)
    block, x = c.block(), c.input(batch, 12)
    state = block.allocate_state(batch, 12)
    if tokens:
        block.forward(x[:, :tokens], state)
    return block, x, state


def snapshot(state):
    return state.cached_tokens, bytes(state.k_cache), bytes(state.v_cache)


def test_a_new_state_is_zeros():
    state = TransformerState(**SIZES)
    assert (state.batch_size, state.n_kv_heads, state.head_dim, state.max_tokens) == (2, 2, 8, 10)
    assert (state.cached_tokens, state.window, state.capacity) == (0, 0, 10)
    assert type(state.k_cache) is Array and state.k_cache.shape == (FLAT,) and state.k_cache.dtype == "f4"
    assert not np.asarray(state.k_cache).any() and not np.asarray(state.v_cache).any()
    assert state.keys().shape == (2, 2, 0, 8)
    assert "cached_tokens=0" in repr(state)
    windowed = TransformerState(**SIZES, window=4)
    assert windowed.capacity == 4 and windowed.v_cache.shape == (2 * 2 * 4 * 8,)


def test_the_used_part_is_packed():
    block, x, state = filled(tokens=5)
    packed = np.asarray(state.k_cache)[: 2 * 2 * 5 * 8].reshape(2, 2, 5, 8)
    assert same(packed, state.keys())
    whole = block.allocate_state(2, 12)
    block.forward(x, whole)
    assert same(np.asarray(whole.keys())[:, :, :5], packed)
    assert same(np.asarray(whole.values())[:, :, :5], state.values())
    assert packed.any()


@pytest.mark.parametrize("tokens", [1, 3, 4, 5, 7, 11])
def test_a_window_is_a_ring(tokens):
    _, _, state = filled(window=4, tokens=tokens)
    _, _, whole = filled(window=0, tokens=tokens)
    # Keys of the first layer do not depend on the window.
    ring = np.asarray(state.k_cache).reshape(2, 2, 4, 8)
    kept = range(max(0, tokens - 4), tokens)
    for position in kept:
        assert same(ring[:, :, position % 4], np.asarray(whole.keys())[:, :, position])
    assert state.cached_tokens == tokens and state.keys().shape == (2, 2, len(kept), 8)
    assert same(state.keys(), np.asarray(whole.keys())[:, :, kept.start :])
    assert same(state.values(), np.asarray(whole.values())[:, :, kept.start :])


@pytest.mark.parametrize("window", [0, 4])
def test_rebuilt_from_its_buffers(window):
    block, x, state = filled(window)
    sizes = {"batch_size": 2, "n_kv_heads": 2, "head_dim": 8, "max_tokens": 12}
    rebuilt = TransformerState(
        **sizes, k_cache=state.k_cache, v_cache=state.v_cache, cached_tokens=5, window=window
    )
    assert snapshot(rebuilt) == snapshot(state)
    assert same(block.forward(x[:, 5:], rebuilt), block.forward(x[:, 5:], state))
    assert snapshot(rebuilt) == snapshot(state)


@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies(window, copied):
    block, x, state = filled(window)
    other = copied(state)
    before = snapshot(state)
    assert type(other) is TransformerState and snapshot(other) == before and other.window == window
    y = block.step(x[:, 5], other)
    assert snapshot(state) == before
    assert same(block.step(x[:, 5], state), y) and snapshot(state) == snapshot(other)


@pytest.mark.parametrize("window", [0, 4])
def test_edits_are_honoured(window):
    block, x, state = filled(window)
    other = copy.deepcopy(state)
    plain = block.step(x[:, 5], copy.deepcopy(state))
    edited = np.array(state.v_cache)
    edited[:40] *= 2
    other.v_cache = edited
    right = block.step(x[:, 5], other)
    assert not same(right, plain)

    held = state.v_cache
    np.asarray(held)[:40] *= 2
    assert same(state.v_cache, held)
    assert same(block.step(x[:, 5], state), right)
    assert same(held, other.v_cache)  # updated in place
    assert same(state.keys(), other.keys())


@pytest.mark.parametrize("window", [0, 4])
def test_an_edit_through_a_temporary_is_honoured(window):
    block, x, state = filled(window)
    kept = copy.deepcopy(state)
    held = kept.k_cache
    np.asarray(held)[:] = 0.25
    right = block.step(x[:, 5], kept)
    np.asarray(state.k_cache)[:] = 0.25
    assert same(block.step(x[:, 5], state), right)


@pytest.mark.parametrize("window", [0, 4])
def test_looking_changes_nothing(window):
    block, x, state = filled(window)
    _, _, unseen = filled(window)
    for t in range(5, 12):
        held = state.k_cache, state.v_cache
        assert same(block.step(x[:, t], state), block.step(x[:, t], unseen))
        assert same(state.values(), unseen.values())
        del held


def test_a_state_that_goes_leaves_its_arrays():
    _, _, state = filled()
    k, right = state.k_cache, bytes(state.k_cache)
    del state
    assert bytes(k) == right


def test_reset():
    block, x, state = filled()
    state.reset()
    assert state.cached_tokens == 0
    assert same(block.forward(x, state), block.forward(x))


def test_reset_forgets_a_nonfinite_cache():
    block, x, state = filled()
    held = state.k_cache
    np.asarray(held)[3] = np.nan
    state.reset()
    assert same(block.forward(x, state), block.forward(x))


def test_forgetting_the_newest():
    block, x, state = filled(tokens=7)
    right = block.forward(x[:, 4:6], filled(tokens=4)[2])
    state.cached_tokens = 4
    assert state.cached_tokens == 4 and same(state.keys(), filled(tokens=4)[2].keys())
    assert same(block.forward(x[:, 4:6], state), right)
    for n in (-1, 13, 7):
        with refuses(ValueError, "[TransformerState] cached_tokens", str(n)):
            state.cached_tokens = n
    for n in (1.0, True, None):
        with refuses(TypeError, "[TransformerState] cached_tokens"):
            state.cached_tokens = n
    assert state.cached_tokens == 6


def test_refused_sizes():
    for name in SIZES:
        for value in (0, -1):
            with refuses(ValueError, "[TransformerState]", name):
                TransformerState(**SIZES | {name: value})
        for value in (1.0, True, "2", None):
            with refuses(TypeError, "[TransformerState]", name):
                TransformerState(**SIZES | {name: value})
    with refuses(ValueError, "[TransformerState]", "window"):
        TransformerState(**SIZES, window=-1)
    with refuses(ValueError, "[TransformerState]", "cached_tokens"):
        TransformerState(**SIZES, cached_tokens=1)


BUFFER_REFUSALS = [
    (np.zeros(FLAT), TypeError, "F64"),
    (np.zeros(FLAT, "i4"), TypeError, "I32"),
    ([0.0] * FLAT, TypeError, "list"),
    (np.zeros(FLAT - 1, "f4"), ValueError, f"({FLAT},)"),
    (np.zeros(FLAT + 1, "f4"), ValueError, f"({FLAT},)"),
    (np.zeros((FLAT, 1), "f4"), ValueError, f"({FLAT}, 1)"),
    (np.zeros(2 * FLAT, "f4")[::2], ValueError, "contiguous"),
    (np.full(FLAT, np.nan, "f4"), ValueError, "finite"),
    (np.full(FLAT, np.inf, "f4"), ValueError, "finite"),
]


@pytest.mark.parametrize(("buffer", "error", "part"), BUFFER_REFUSALS)
@pytest.mark.parametrize("which", ["k_cache", "v_cache"])
def test_refused_buffers(buffer, error, part, which):
    buffers = {"k_cache": np.zeros(FLAT, "f4"), "v_cache": np.zeros(FLAT, "f4")} | {which: buffer}
    with refuses(error, "[TransformerState]", which, part):
        TransformerState(**SIZES, **buffers, cached_tokens=10)


def test_refused_cached_tokens():
    zeros = np.zeros(FLAT, "f4")
    for n in (-1, 11):
        with refuses(ValueError, "[TransformerState]", "cached_tokens"):
            TransformerState(**SIZES, k_cache=zeros, v_cache=zeros, cached_tokens=n)
    with refuses(ValueError, "[TransformerState] v_cache", "both"):
        TransformerState(**SIZES, k_cache=zeros)


def test_assigned_buffers_are_checked():
    _, _, state = filled()
    before = snapshot(state)
    size = state.k_cache.size
    for buffer, error in (
        (np.zeros(size), TypeError),
        (np.zeros(size + 1, "f4"), ValueError),
        (3, TypeError),
    ):
        with refuses(error, "[TransformerState] k_cache"):
            state.k_cache = buffer
    assert snapshot(state) == before


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("which", ["k_cache", "v_cache"])
def test_a_nonfinite_assignment_is_refused(window, which, bad):
    block, x, state = filled(window)
    before, right = snapshot(state), block.step(x[:, 5], filled(window)[2])
    held = getattr(state, which)
    for used in (0, 2 * 2 * min(5, window or 5) * 8 - 1):
        buffer = np.array(held)
        buffer[used] = bad
        with refuses(ValueError, f"[TransformerState] {which}", "finite", "position"):
            setattr(state, which, buffer)
    assert snapshot(state) == before and same(held, getattr(state, which))
    assert same(block.step(x[:, 5], state), right)


def test_the_unused_part_of_an_assigned_buffer_may_hold_anything():
    block, x, state = filled()
    right = block.step(x[:, 5], filled()[2])
    buffer = np.array(state.k_cache)
    buffer[2 * 2 * 5 * 8 :] = np.nan
    state.k_cache = buffer
    assert same(block.step(x[:, 5], state), right)


def test_assigned_to_itself():
    block, x, state = filled()
    state.k_cache, state.v_cache = state.k_cache, state.v_cache
    assert same(block.step(x[:, 5], state), block.step(x[:, 5], filled()[2]))


@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("which", ["k_cache", "v_cache"])
def test_a_nonfinite_cache_is_refused(window, which):
    block, x, state = filled(window)
    held = getattr(state, which)
    right = held[3]
    np.asarray(held)[3] = np.nan
    with refuses(ValueError, which, "finite"):
        block.step(x[:, 5], state)
    assert state.cached_tokens == 5
    np.asarray(held)[3] = right
    assert same(block.step(x[:, 5], state), block.step(x[:, 5], filled(window)[2]))


def test_states_that_do_not_fit_the_block():
    block, x, state = filled()
    before = snapshot(state)
    with refuses(ValueError, "[TransformerBlock]", "batch"):
        block.forward(x[:1, 5:6], state)
    with refuses(ValueError, "[TransformerBlock]", "batch"):
        block.step(np.zeros((3, 24), "f4"), state)
    assert snapshot(state) == before
    wrong = {"window": {"window": 3}, "n_kv_heads": {"n_kv_heads": 4}, "head_dim": {"head_dim": 6}}
    for part, change in wrong.items():
        odd = TransformerState(**SIZES | change)
        with refuses(ValueError, "[TransformerBlock]", part):
            block.forward(x[:, :1], odd)
        assert odd.cached_tokens == 0
    for thing in (3, "state", object(), {}):
        with refuses(TypeError, "[TransformerBlock] state", type(thing).__name__):
            block.forward(x, thing)


def test_too_many_tokens():
    block, x, state = filled(tokens=5)
    before = snapshot(state)
    with refuses(ValueError, "[TransformerBlock] state", "room for", "12 cached"):
        block.forward(x[:, :8], state)
    assert snapshot(state) == before
    block.forward(x[:, 5:], state)
    with refuses(ValueError, "[TransformerBlock] state", "room for", "12 cached"):
        block.step(x[:, 0], state)
    assert state.cached_tokens == 12


def test_too_many_positions():
    c = case(max_positions=6)
    block, x = c.block(), c.input(1, 8)
    with refuses(ValueError, "[TransformerBlock]", "max_positions", "6"):
        block.forward(x)
    with refuses(ValueError, "max_positions", "6"):
        block.allocate_state(1, 7)
    state = TransformerState(1, 2, 8, 20)
    block.forward(x[:, :6], state)
    with refuses(ValueError, "[TransformerBlock]", "max_positions", "6"):
        block.step(x[:, 6], state)
    assert state.cached_tokens == 6


def test_refused_allocations():
    block = case().block()
    for sizes in ((0, 4), (2, 0), (-1, 4), (2, -4)):
        with refuses(ValueError, "batch_size" if sizes[0] < 1 else "max_tokens"):
            block.allocate_state(*sizes)
    for sizes in ((1.0, 4), (2, True), ("2", 4)):
        with refuses(TypeError, "[TransformerBlock]"):
            block.allocate_state(*sizes)

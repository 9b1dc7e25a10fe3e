# SPDX-License-Identifier: Apache-2.0
"""TransformerDecodeSession: the same bytes as the block, and sole ownership of its state."""

import copy
import threading

import numpy as np
import pytest
from support.bits import same
from support.blocks import case
from support.refusals import refuses

import isobit
from isobit.transformer import TransformerDecodeSession


def opened(window=0, tokens=3, **options):
    c = case(window=window, **options)
    block, x = c.block(), c.input(2, 12)
    state = block.allocate_state(2, 12)
    block.forward(x[:, :tokens], state)
    return block, x, state


@pytest.mark.parametrize("window", [0, 4])
def test_equals_the_block(window):
    block, x, state = opened(window)
    alone = copy.deepcopy(state)
    with block.decode_session(state) as session:
        assert type(session) is TransformerDecodeSession and session.is_open and session.state is state
        assert same(session.step(x[:, 3]), block.step(x[:, 3], alone))
        assert same(session.step(x[:, 4:5]), block.step(x[:, 4:5], alone))
        assert same(session.forward(x[:, 5:9]), block.forward(x[:, 5:9], alone))
        assert state.cached_tokens == 9
        session.sync_state()
        assert same(state.k_cache, alone.k_cache)
    assert not session.is_open and session.state is state
    assert same(block.step(x[:, 9], state), block.step(x[:, 9], alone))


def test_the_session_owns_the_state():
    block, x, state = opened()
    session = block.decode_session(state)
    for refused in (lambda: block.step(x[:, 3], state), lambda: block.forward(x[:, 3:5], state)):
        with refuses(ValueError, "[TransformerBlock] state", "session"):
            refused()
    with refuses(ValueError, "[TransformerDecodeSession] state", "open session"):
        block.decode_session(state)
    assert state.cached_tokens == 3
    session.close()
    block.step(x[:, 3], state)
    assert block.decode_session(state).is_open


def test_closed_sessions():
    block, x, state = opened()
    session = block.decode_session(state)
    session.step(x[:, 3])
    session.close()
    session.close()
    for refused in (
        lambda: session.step(x[:, 4]),
        lambda: session.forward(x[:, 4:5]),
        session.sync_state,
        session.load_state,
        session.__enter__,
    ):
        with refuses(ValueError, "[TransformerDecodeSession]", "closed"):
            refused()
    assert state.cached_tokens == 4
    second = block.decode_session(state)
    second.discard()
    assert not second.is_open
    second.discard()
    block.step(x[:, 4], state)


def test_closed_by_an_exception():
    block, x, state = opened()
    with pytest.raises(RuntimeError, match="mine"), block.decode_session(state) as session:
        session.step(x[:, 3])
        raise RuntimeError("mine")
    assert not session.is_open
    block.step(x[:, 4], state)


def test_a_session_that_is_forgotten_gives_the_state_back():
    block, x, state = opened()
    session = block.decode_session(state)
    del session
    block.step(x[:, 3], state)


def test_keeps_the_weights_of_its_opening():
    block, x, state = opened()
    alone = copy.deepcopy(state)
    old = case().block()
    with block.decode_session(state) as session:
        block.set_params(weights=case(seed=9).weights())
        assert same(session.step(x[:, 3]), old.step(x[:, 3], alone))
    assert not same(block.step(x[:, 4], state), old.step(x[:, 4], alone))


@pytest.mark.parametrize("window", [0, 4])
def test_edits_of_the_cache(window):
    block, x, state = opened(window)
    alone = copy.deepcopy(state)
    np.asarray(alone.v_cache)[:30] = 0.5
    right = block.step(x[:, 3], alone)
    with block.decode_session(state) as session:
        np.asarray(state.v_cache)[:30] = 0.5
        session.load_state()
        assert same(session.step(x[:, 3]), right)


def test_states_that_do_not_fit():
    block, _, _ = opened()
    sizes = {"batch_size": 2, "n_kv_heads": 2, "head_dim": 8, "max_tokens": 9}
    for part, change in {
        "window": {"window": 3},
        "n_kv_heads": {"n_kv_heads": 1},
        "head_dim": {"head_dim": 4},
    }.items():
        with refuses(ValueError, "[TransformerDecodeSession] state", part):
            block.decode_session(isobit.TransformerState(**sizes | change))
    with refuses(TypeError, "[TransformerDecodeSession] state", "NoneType"):
        block.decode_session(None)
    with refuses(TypeError, "[TransformerDecodeSession] block", "int"):
        TransformerDecodeSession(3, isobit.TransformerState(**sizes))


def test_refused_inputs_leave_the_state():
    block, x, state = opened()
    before = bytes(state.k_cache)
    with block.decode_session(state) as session:
        for bad, error in (
            (x[:, 3].astype("f8"), TypeError),
            (x[:, 3:5], ValueError),
            (x[:1, 3], ValueError),
        ):
            with refuses(error):
                session.step(bad)
        with refuses(ValueError, "room for"):
            session.forward(x)
        nan = x[:, 3].copy()
        nan[1, 2] = np.nan
        with refuses(ValueError, "finite"):
            session.step(nan)
    assert state.cached_tokens == 3 and bytes(state.k_cache) == before


def test_not_for_two_calls_at_once():
    """A call from within a call: while the session reads its input, the input calls the session."""
    block, x, state = opened()
    session = block.decode_session(state)
    refusals = []

    class Reentrant:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            for call in (lambda: session.step(x[:, 3]), session.close, lambda: state.k_cache):
                try:
                    call()
                except ValueError as error:
                    refusals.append(str(error))
            return x[:, 3].copy().__dlpack__()

    y = session.step(Reentrant())
    assert len(refusals) == 3 and all("in use" in text for text in refusals)
    assert session.is_open and state.cached_tokens == 4
    assert same(y, block.step(x[:, 3], opened()[2]))


def test_not_for_two_threads_at_once():
    block, _, state = opened(d_model=64, intermediate=256)
    wide = case(d_model=64, intermediate=256).input(2, 1)[:, 0]
    session = block.decode_session(state)
    steps, refusals = [], []

    def work():
        for _ in range(4):
            try:
                steps.append(session.step(wide))
            except ValueError as error:
                refusals.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(steps) + len(refusals) == 8 and state.cached_tokens == 3 + len(steps)
    assert all("in use" in text for text in refusals)

# SPDX-License-Identifier: Apache-2.0
"""One block, many ways to compute the same rows: all give the same bits. hypothesis draws blocks and ways."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bits import by_steps, in_calls, next_up, same
from support.blocks import case, cases, cuts

import isobit


@given(st.data())
def test_ways_to_cut_a_sequence(data):
    c = data.draw(cases())
    length = data.draw(st.integers(1, 48))
    x = c.input(data.draw(st.integers(1, 3)), length)
    block = c.block()
    whole = np.asarray(block.forward(x))
    assert same(block(x), whole)
    assert same(in_calls(block, x, data.draw(cuts(length))), whole)

    state = block.allocate_state(len(x), length)
    assert same(by_steps(block.step, x, state), whole)
    assert state.cached_tokens == length

    with block.decode_session(block.allocate_state(len(x), length)) as session:
        first = data.draw(st.integers(0, length - 1))
        parts = [np.asarray(session.forward(x[:, :first]))] if first else []
        parts.append(by_steps(session.step, x[:, first:]))
        assert same(np.concatenate(parts, axis=1), whole)


@given(st.data())
def test_batches(data):
    """A row alone, among others, in another order, beside itself, and at its own length."""
    c = data.draw(cases())
    batch, length = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 24))
    x = c.input(batch, length)
    block = c.block()
    whole = np.asarray(block.forward(x))
    for i in range(batch):
        assert same(block.forward(x[i : i + 1])[0], whole[i])
    order = data.draw(st.permutations(range(batch)))
    assert same(block.forward(np.ascontiguousarray(x[order])), whole[order])

    lengths = data.draw(st.lists(st.integers(1, length), min_size=batch, max_size=batch))
    padded = x.copy()
    for i, n in enumerate(lengths):
        padded[i, n:] = 1e30
    ragged = np.asarray(block.forward(padded, lengths=lengths))
    for i, n in enumerate(lengths):
        assert same(ragged[i, :n], block.forward(np.ascontiguousarray(x[i : i + 1, :n]))[0])
        assert same(ragged[i, n:], np.zeros((length - n, c.d_model)))


@given(st.data())
def test_threads_and_instruction_sets(data):
    c = data.draw(cases())
    length = data.draw(st.integers(1, 40))
    x = c.input(data.draw(st.integers(1, 3)), length)
    calls = data.draw(cuts(length))
    whole = np.asarray(c.block().forward(x))
    for isa in isobit.available_isas():
        isobit.set_isa(isa)
        block = c.block()
        for threads in (1, 2, 3, 7):
            isobit.set_num_threads(threads)
            assert same(block.forward(x), whole), (isa, threads)
            assert same(in_calls(block, x, calls), whole), (isa, threads)


def test_instruction_set_chosen_after_packing():
    """Weights lie in memory in one way for all instruction sets, and a state too."""
    c = case()
    x = c.input(2, 20)
    block = c.block()
    whole = np.asarray(block.forward(x))
    state = block.allocate_state(2, 20)
    for i, isa in enumerate(isobit.available_isas() * 5):
        isobit.set_isa(isa)
        assert same(block.step(x[:, i], state), whole[:, i])


@pytest.mark.parametrize("window", [0, 100, 256, 300])
def test_several_blocks_of_keys_and_inputs(window):
    """Past 256 in every direction, where TREE has nodes: prefill in odd pieces, and steps."""
    c = case(d_model=270, intermediate=515, head_dim=16, window=window, max_positions=1100)
    x = c.input(1, 1050)
    block = c.block()
    whole = np.asarray(block.forward(x))
    assert same(in_calls(block, x, [1, 255, 1, 300, 256, 237]), whole)
    state = block.allocate_state(1, 1050)
    block.forward(np.ascontiguousarray(x[:, :1000]), state)
    assert same(by_steps(block.step, x[:, 1000:], state), whole[:, 1000:])
    for threads in (1, 3, 7):
        isobit.set_num_threads(threads)
        assert same(block.forward(x), whole)


@pytest.mark.parametrize("batch", [13, 32, 71])
def test_many_rows(batch):
    """More rows than any tile has, in prefill and in steps."""
    c = case(d_model=48, intermediate=100, head_dim=16, qk_norm=True)
    x = c.input(batch, 4)
    block = c.block()
    whole = np.asarray(block.forward(x))
    state = block.allocate_state(batch, 4)
    assert same(by_steps(block.step, x, state), whole)
    for i in range(0, batch, 5):
        assert same(block.forward(x[i : i + 1])[0], whole[i])


@given(st.data())
def test_state_through_the_documented_buffers(data):
    """A state rebuilt from k_cache and v_cache, and one cut back, continue with the same bits."""
    c = data.draw(cases())
    length = data.draw(st.integers(2, 40))
    first = data.draw(st.integers(1, length - 1))
    x = c.input(2, length)
    block = c.block()
    whole = np.asarray(block.forward(x))
    state = block.allocate_state(2, length)
    block.forward(np.ascontiguousarray(x[:, :first]), state)
    copy = isobit.TransformerState(
        state.batch_size,
        state.n_kv_heads,
        state.head_dim,
        state.max_tokens,
        np.array(state.k_cache),
        np.array(state.v_cache),
        state.cached_tokens,
        state.window,
        state.numeric_profile,
    )
    rest = np.ascontiguousarray(x[:, first:])
    assert same(block.forward(rest, copy), whole[:, first:])
    assert same(block.forward(rest, state), whole[:, first:])
    if not c.options["window"]:
        state.cached_tokens = first
        assert same(block.forward(rest, state), whole[:, first:])


def test_addresses_and_strides():
    """Alignment and layout of the input in memory do not matter."""
    c = case(d_model=37)
    x = c.input(3, 19)
    whole = np.asarray(c.block().forward(x))
    for shift in range(1, 16, 3):
        memory = np.zeros(x.nbytes + 64, np.uint8)
        moved = memory[4 * shift : 4 * shift + x.nbytes].view(np.float32).reshape(x.shape)
        moved[:] = x
        assert same(c.block().forward(moved), whole)


def test_one_ulp_in_the_cache_is_noticed():
    """The tests above can fail: a key or value moved to its neighbour changes the bits of the next step."""
    c = case(window=0, seed=3)
    x = c.input(1, 12)
    block = c.block()
    whole = np.asarray(block.forward(x))
    for cache, element in (("k_cache", 9), ("v_cache", 5)):
        noticed = False
        for shift in range(8):  # a single ulp may be lost in rounding on the way
            state = block.allocate_state(1, 12)
            block.forward(np.ascontiguousarray(x[:, :11]), state)
            buffer = np.array(getattr(state, cache))
            index = element + 8 * shift
            buffer[index] = next_up(buffer[index])
            setattr(state, cache, buffer)
            noticed = noticed or not same(block.step(x[:, 11], state), whole[:, 11])
        assert noticed, cache


def test_one_ulp_in_an_input_or_weight_is_noticed():
    c = case(seed=4)
    x = c.input(1, 5)
    whole = np.asarray(c.block().forward(x))
    for token in range(5):
        moved = x.copy()
        moved[0, token] = next_up(moved[0, token])
        changed = np.asarray(c.block().forward(moved))
        assert same(changed[0, :token], whole[0, :token])
        assert not same(changed[0, token], whole[0, token])
    for name, values in c.weights().items():
        weights = c.weights()
        weights[name] = values.copy()
        weights[name][:4] = next_up(values[:4])
        assert not same(isobit.TransformerBlock(weights, **c.options).forward(x), whole), name

# SPDX-License-Identifier: Apache-2.0
"""Mamba blocks: against the recurrences in binary64, their states as users hold them, and what is refused."""

import copy
import pickle

import numpy as np
import pytest
from support import mamba_reference as reference

import isobit
from isobit import lowbit, mamba

D, HEADS, WIDTH, STATES = 24, 4, 10, 12
CHANNELS = HEADS * WIDTH


def draw(shape, scale=1.0, centre=0.0, seed=0):
    values = np.random.default_rng([seed, *shape]).uniform(-1, 1, shape)
    return (centre + scale * values).astype(np.float32)


def weights1(width=4, bias=True):
    w = {
        "norm.weight": draw((D,), 0.5, 1.0),
        "in_proj.weight": draw((2 * CHANNELS, D), 0.4),
        "conv1d.weight": draw((CHANNELS, 1, width)),
        "x_proj.weight": draw((6 + 2 * STATES, CHANNELS), 0.3),
        "dt_proj.weight": draw((CHANNELS, 6), 0.5),
        "dt_proj.bias": draw((CHANNELS,), 2.0, -2.0),
        "A_log": draw((CHANNELS, STATES), 1.5),
        "D": draw((CHANNELS,), seed=1),
        "out_proj.weight": draw((D, CHANNELS), 0.3),
    }
    if bias:
        w |= {"conv1d.bias": draw((CHANNELS,), 0.5), "in_proj.bias": draw((2 * CHANNELS,), 0.3)}
    return w


def weights2(groups=1, norm=True):
    conv = CHANNELS + 2 * groups * STATES
    w = {
        "block_norm.weight": draw((D,), 0.5, 1.0),
        "in_proj.weight": draw((CHANNELS + conv + HEADS, D), 0.4),
        "conv1d.weight": draw((conv, 4)),
        "conv1d.bias": draw((conv,), 0.5),
        "dt_bias": draw((HEADS,), 2.0, -2.0),
        "A_log": draw((HEADS,), 1.5),
        "D": draw((HEADS,), seed=1),
        "out_proj.weight": draw((D, CHANNELS), 0.3),
    }
    if norm:
        w["norm.weight"] = draw((CHANNELS,), 0.5, 1.0)
    return w


def weights3(rank=None, groups=1, fraction=0.5, norm=False):
    ranks, angles = rank or 1, int(STATES * fraction) // 2
    bias = (HEADS, STATES) if rank is None else (HEADS, rank, STATES)
    rows = 2 * CHANNELS + 2 * ranks * groups * STATES + 3 * HEADS + angles
    w = {
        "block_norm.weight": draw((D,), 0.5, 1.0),
        "in_proj.weight": draw((rows, D), 0.4),
        "dt_bias": draw((HEADS,), 2.0, -2.0),
        "B_norm.weight": draw((STATES,), 0.5, 1.0),
        "C_norm.weight": draw((STATES,), 0.5, 1.0, 1),
        "B_bias": draw(bias),
        "C_bias": draw(bias, seed=1),
        "D": draw((HEADS,), seed=1),
        "out_proj.weight": draw((D, CHANNELS), 0.3),
    }
    if norm:
        w["norm.weight"] = draw((CHANNELS,), 0.5, 1.0)
    if rank is not None:
        w |= {f"mimo_{part}": draw((HEADS, rank, WIDTH), seed=i) for i, part in enumerate("xzo")}
    return w


CASES = {
    "1": (1, weights1(), {}, {}),
    "1-plain": (1, weights1(3, bias=False), {}, {}),
    "1-inner": (1, weights1(), {"inner_norm": True}, {"inner_eps": 1e-6}),
    "2": (2, weights2(), {}, {}),
    "2-groups": (2, weights2(2), {"n_groups": 2}, {"groups": 2}),
    "2-whole": (2, weights2(2), {"n_groups": 2, "grouped_norm": False}, {"groups": 2, "grouped": False}),
    "2-limits": (2, weights2(), {"dt_limit": (0.05, 0.4)}, {"dt_limit": (0.05, 0.4)}),
    "2-before": (2, weights2(), {"norm_before_gate": True}, {"norm_before_gate": True}),
    "2-no-norm": (2, weights2(norm=False), {}, {}),
    "3": (3, weights3(), {}, {}),
    "3-softplus": (3, weights3(groups=2), {"a_function": "softplus"}, {"heavy_tail": False}),
    "3-full": (3, weights3(fraction=1.0, norm=True), {"rope_fraction": 1.0}, {"rope_fraction": 1.0}),
    "3-mimo": (3, weights3(rank=4), {}, {}),
    "3-mimo-norm": (3, weights3(rank=2, groups=2, norm=True), {}, {}),
}
CLASSES = {1: isobit.Mamba1Block, 2: isobit.Mamba2Block, 3: isobit.Mamba3Block}
ONE_EACH = ["1", "2", "3", "3-mimo"]


def make(case):
    version, weights, options, _ = CASES[case]
    return CLASSES[version](weights, **options)


@pytest.mark.parametrize("case", CASES)
def test_against_the_recurrence(case):
    version, weights, _, changes = CASES[case]
    x = draw((2, 70, D), 1.5)
    ours = np.asarray(make(case).forward(x))
    recurrence = (reference.mamba1, reference.mamba2, reference.mamba3)[version - 1]
    for row in range(2):
        expected = recurrence(weights, x[row], **changes)
        error = np.abs(ours[row] - expected).max() / np.abs(expected).max()
        assert error <= 1e-5, error


@pytest.mark.parametrize("case", ONE_EACH)
def test_ten_thousand_tokens_do_not_drift(case):
    block, x = make(case), draw((1, 10_000, D), 1.5)
    whole = np.asarray(block.forward(x))
    state = block.allocate_state(1)
    with block.decode_session(state) as session:
        steps = [np.asarray(session.step(x[:, t])) for t in range(10_000)]
    assert np.stack(steps, axis=1).tobytes() == whole.tobytes()


@pytest.mark.parametrize("case", ONE_EACH)
def test_state_buffers(case):
    block, x = make(case), draw((2, 9, D))
    state = block.allocate_state(2)
    block.forward(x[:, :5], state)
    names = ("theta", "h", "k", "v") if case.startswith("3") else ("conv_window", "h")
    parts = [np.asarray(getattr(state, name)).copy() for name in names]
    twins = [type(state)(*parts), pickle.loads(pickle.dumps(state)), copy.copy(state), copy.deepcopy(state)]
    expected = np.asarray(block.forward(x[:, 5:], state)).tobytes()
    for twin in twins:
        assert np.asarray(block.forward(x[:, 5:], twin)).tobytes() == expected
    # What is written into a buffer counts, and an array that is held is updated.
    fresh = block.allocate_state(2)
    held = [getattr(fresh, name) for name in names]
    for array, part in zip(held, parts, strict=True):
        np.asarray(array)[...] = part
    assert np.asarray(block.forward(x[:, 5:], fresh)).tobytes() == expected
    for array, name in zip(held, names, strict=True):
        assert np.asarray(array).tobytes() == np.asarray(getattr(state, name)).tobytes()
    assert state.tokens() == [9, 9] and state.batch_size == 2
    state.reset()
    assert not np.asarray(state.h).any() and state.tokens() == [0, 0]
    for name, part in zip(names, parts, strict=True):
        setattr(state, name, part)
    assert np.asarray(block.forward(x[:, 5:], state)).tobytes() == expected


@pytest.mark.parametrize("case", ONE_EACH)
def test_a_nonfinite_assignment_is_refused(case):
    block, x = make(case), draw((2, 5, D))
    state = block.allocate_state(2)
    block.forward(x, state)
    before = pickle.dumps(state)
    names = ("theta", "h", "k", "v") if case.startswith("3") else ("conv_window", "h")
    for name in names:
        for bad in (np.nan, np.inf):
            buffer = np.array(getattr(state, name))
            buffer.flat[-1] = bad
            with pytest.raises(ValueError, match=rf"\[Mamba.State\] {name}: expected finite values"):
                setattr(state, name, buffer)
            if len(names) == 4:
                parts = {part: getattr(state, part) for part in names} | {name: buffer}
                with pytest.raises(ValueError, match=rf"{name}: expected finite values"):
                    state.set_input_states(**parts)
    assert pickle.dumps(state) == before


def test_set_input_states_continues_bit_for_bit():
    block, x = make("3"), draw((1, 8, D))
    state = block.allocate_state(1)
    block.forward(x[:, :4], state)
    other = block.allocate_state(1)
    other.set_input_states(state.theta, state.h, state.k, state.v)
    assert (
        np.asarray(block.forward(x[:, 4:], other)).tobytes()
        == np.asarray(block.forward(x[:, 4:], state)).tobytes()
    )
    with pytest.raises(ValueError, match="shapes of this state"):
        block.allocate_state(2).set_input_states(state.theta, state.h, state.k, state.v)


def test_conv_window_is_the_last_inputs():
    w = weights1(bias=False)
    block, x = isobit.Mamba1Block(w), draw((1, 3, D))
    state = block.allocate_state(1)
    block.forward(x, state)
    inputs = (
        reference.rms_norm(x[0].astype(np.float64), w["norm.weight"], 1e-5) @ w["in_proj.weight"][:CHANNELS].T
    )
    window = np.asarray(state.conv_window)[0]
    assert not window[:, 0].any()
    np.testing.assert_allclose(window[:, 1:], inputs.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ONE_EACH)
def test_ragged_rows_with_a_state(case):
    block, x = make(case), draw((3, 6, D))
    state = block.allocate_state(3)
    out = np.asarray(block.forward(x, state, lengths=[6, 1, 4]))
    assert not out[1, 1:].any() and not out[2, 4:].any()
    assert state.tokens() == [6, 1, 4]
    after = np.asarray(block.step(x[:, 0], state))
    for row, n in enumerate([6, 1, 4]):
        alone = block.allocate_state(1)
        block.forward(x[row : row + 1, :n], alone)
        expected = np.asarray(block.step(x[row : row + 1, 0], alone))
        assert after[row].tobytes() == expected[0].tobytes()


@pytest.mark.parametrize("case", ONE_EACH)
def test_sessions(case):
    block, x = make(case), draw((1, 4, D))
    state = block.allocate_state(1)
    session = block.decode_session(state)
    assert isinstance(session, getattr(mamba, f"Mamba{case[0]}DecodeSession"))
    with pytest.raises(ValueError, match="open decode session"):
        block.step(x[:, 0], state)
    with pytest.raises(ValueError, match="without an open session"):
        block.decode_session(state)
    first = np.asarray(session.forward(x))
    session.close()
    session.close()
    assert not session.is_open and session.state is state
    with pytest.raises(ValueError, match="open session"):
        session.step(x[:, 0])
    assert first.tobytes() == np.asarray(block.forward(x)).tobytes()
    with pytest.raises(ValueError, match="sizes of the block"):
        make("1-plain").decode_session(make("1").allocate_state(1))


@pytest.mark.parametrize("case", CASES)
def test_params_and_pickles(case):
    block, x = make(case), draw((1, 3, D))
    expected = np.asarray(block.forward(x)).tobytes()
    twin = pickle.loads(pickle.dumps(block))
    assert type(twin) is type(block) and np.asarray(twin.forward(x)).tobytes() == expected
    params = block.get_params()
    assert (
        np.asarray(params["weights"]["out_proj.weight"]).tobytes()
        == CASES[case][1]["out_proj.weight"].tobytes()
    )
    inference = getattr(isobit, f"Mamba{case[0]}BlockInference")(**params)
    assert np.asarray(inference(x)).tobytes() == expected
    assert block.set_params(norm_eps=1e-2) is block and block.norm_eps == 1e-2
    assert np.asarray(block.forward(x)).tobytes() != expected
    with pytest.raises(ValueError, match="set_params"):
        block.set_params(nonsense=1)
    with pytest.raises(NotImplementedError, match="backward"):
        block.backward(x, x)


@pytest.mark.parametrize("fmt", ["bfloat16", "int8"])
@pytest.mark.parametrize("case", ONE_EACH)
def test_stored_weights(case, fmt):
    version, weights, options, _ = CASES[case]
    packed = lowbit.pack(weights, fmt)
    given = CLASSES[version](packed, **options)
    asked = CLASSES[version](weights, weight_format=fmt, **options)
    x = draw((2, 21, D), 1.5)
    for block, values in ((given, lowbit.unpack(packed)), (asked, asked.parameters())):
        wide = CLASSES[version](values, **options)
        assert (block.weight_format, wide.weight_format) == (fmt, "float32")
        whole = np.asarray(wide.forward(x))
        assert np.asarray(block.forward(x)).tobytes() == whole.tobytes()
        state = block.allocate_state(2)
        parts = [block.forward(x[:, :8], state), *(block.step(x[:, [t]], state) for t in range(8, 15))]
        with block.decode_session(state) as session:
            parts += [session.step(x[:, [t]]) for t in range(15, 21)]
        assert np.concatenate([np.asarray(p) for p in parts], axis=1).tobytes() == whole.tobytes()
        twin = pickle.loads(pickle.dumps(block))
        assert twin.weight_format == fmt and np.asarray(twin(x)).tobytes() == whole.tobytes()
    for name, value in asked.parameters().items():
        rounded = lowbit.unpack(packed)[name] if name.endswith("_proj.weight") else weights[name]
        assert np.asarray(value).tobytes() == np.asarray(rounded).tobytes(), name
    block = make(case)
    assert block.set_params(weights=packed).weight_format == fmt
    assert np.asarray(block(x)).tobytes() == np.asarray(given(x)).tobytes()


def test_stored_weights_that_are_refused():
    packed = lowbit.pack(weights2(), "int8")
    with pytest.raises(ValueError, match=r"\[Mamba2Block\] weight_format: expected None or 'int8'"):
        isobit.Mamba2Block(packed, weight_format="bfloat16")
    with pytest.raises(ValueError, match=r"\[Mamba2Block\] weight_format: expected one of float32"):
        isobit.Mamba2Block(weights2(), weight_format="int4")
    packed["in_proj.weight"] = lowbit.pack_one(weights2()["in_proj.weight"], "bfloat16")
    with pytest.raises(ValueError, match=r"'conv1d\.weight': expected bfloat16.*got int8"):
        isobit.Mamba2Block(packed)
    huge = weights2() | {"out_proj.weight": np.full((D, CHANNELS), 3.4e38, np.float32)}
    with pytest.raises(ValueError, match=r"\[Mamba2Block\] out_proj\.weight: .*bfloat16"):
        isobit.Mamba2Block(huge, weight_format="bfloat16")


def test_sizes_are_attributes():
    block = make("3-mimo")
    assert (block.d_model, block.d_inner, block.d_state, block.n_heads) == (D, CHANNELS, STATES, HEADS)
    assert (block.head_dim, block.mimo_rank, block.n_angles, block.rope_fraction) == (WIDTH, 4, 3, 0.5)
    assert block.numeric_mode_used() == "identical" and block.vendor_used() == "cpu"
    assert "mimo_rank=4" in repr(block) and "h=(1, 4, 10, 12)" in repr(block.allocate_state(1))


def test_refusals():
    block, x = make("2"), draw((1, 3, D))
    with pytest.raises(TypeError, match="x: expected dtype float32"):
        block.forward(x.astype(np.float64))
    with pytest.raises(ValueError, match="shape"):
        block.forward(x[0])
    with pytest.raises(ValueError, match="shape"):
        block.step(x, block.allocate_state(1))
    with pytest.raises(ValueError, match="finite"):
        block.forward(np.full_like(x, np.nan))
    with pytest.raises(TypeError, match="state"):
        block.forward(x, 3)
    with pytest.raises(ValueError, match="batch_size"):
        block.forward(x, block.allocate_state(2))
    with pytest.raises(ValueError, match="sizes of this block"):
        block.forward(x, make("1").allocate_state(1))
    with pytest.raises(ValueError, match="lengths"):
        block.forward(x, lengths=[4])
    with pytest.raises(ValueError, match="lengths"):
        block.forward(x, lengths=[1, 1])
    with pytest.raises(ValueError, match="dt_limit"):
        isobit.Mamba2Block(weights2(), dt_limit=(1.0, 0.5))
    with pytest.raises(ValueError, match="n_groups"):
        isobit.Mamba2Block(weights2(), n_groups=3)
    with pytest.raises(ValueError, match="a_function"):
        isobit.Mamba3Block(weights3(), a_function="relu")
    with pytest.raises(ValueError, match="mimo_z"):
        isobit.Mamba3Block({k: v for k, v in weights3(rank=2).items() if k != "mimo_z"})
    with pytest.raises(ValueError, match=r"conv1d\.weight"):
        isobit.Mamba1Block({k: v for k, v in weights1().items() if k != "conv1d.weight"})
    with pytest.raises(ValueError, match="h"):
        isobit.Mamba1State(np.zeros((1, 4, 3), np.float32), np.zeros((2, 4, 3), np.float32))
    with pytest.raises(ValueError, match="finite"):
        isobit.Mamba1State(np.zeros((1, 4, 3), np.float32), np.full((1, 4, 3), np.inf, np.float32))

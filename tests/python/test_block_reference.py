# SPDX-License-Identifier: Apache-2.0
"""The block against its float64 reference: each option by itself, and combinations that hypothesis draws.

The ways to call a block (continuation, steps, session, ragged) are compared with it too, and not only with
each other: test_bits_block.py would not see an error that all of them share.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.block_reference import forward
from support.blocks import LLAMA3, MLPS, case, cases, cuts

TOLERANCE = 2e-5  # of the largest output


def reference(case, x):
    weights = case.weights()
    return np.stack([forward(weights, case.options, row) for row in x])


def assert_close(ours, wanted):
    ours = np.asarray(ours)
    assert ours.dtype == np.float32 and ours.shape == wanted.shape
    assert np.abs(ours - wanted).max() <= TOLERANCE * np.abs(wanted).max()


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.2, 1.3],
    "long_factor": [1.0, 2.0, 4.0, 9.0],
    "original_max_position_embeddings": 64,
}
OPTIONS = {
    "defaults": {},
    "one key head": {"n_kv_heads": 1},
    "no grouping": {"n_kv_heads": 4},
    "heads wider than the model": {"head_dim": 34},
    "heads of two": {"head_dim": 2},
    "heads of 128": {"head_dim": 128},
    "window 1": {"window": 1},
    "window 7": {"window": 7},
    "window longer than the sequence": {"window": 500},
    "rope_theta": {"rope_theta": 3.0},
    "rope_dim": {"rope_dim": 4},
    "linear": {"rope_scaling": {"type": "linear", "factor": 3.0}},
    "llama3": {
        "rope_theta": 300.0,
        "rope_scaling": LLAMA3,
    },
    "yarn": {"rope_scaling": YARN},
    "yarn, attention_factor": {"rope_scaling": YARN | {"attention_factor": 1.3}},
    "yarn, mscale": {"rope_scaling": YARN | {"mscale": 0.5, "mscale_all_dim": 1.0, "truncate": False}},
    "longrope, short list": {"rope_scaling": LONGROPE, "max_positions": 64},
    "longrope, long list": {"rope_scaling": LONGROPE, "max_positions": 65},
    "longrope, factors": {"rope_scaling": LONGROPE | {"factor": 2.0, "attention_factor": 0.8}},
    "dynamic": {
        "rope_scaling": {
            "rope_type": "dynamic",
            "factor": 2.0,
            "original_max_position_embeddings": 1024,
        }
    },
    "qkv_bias": {"qkv_bias": True},
    "o_bias": {"o_bias": True},
    "mlp_bias": {"mlp_bias": True},
    "layernorm": {"norm": "layernorm"},
    "layernorm with bias": {"norm": "layernorm", "norm_bias": True},
    "rmsnorm_offset": {"norm": "rmsnorm_offset"},
    "norm_eps": {"norm_eps": 0.5},
    "qk_norm": {"qk_norm": True},
    "qk_norm with offset": {"qk_norm": True, "norm": "rmsnorm_offset", "norm_eps": 0.5},
    "softcap": {"attn_softcap": 0.5},
    "softcap and window": {"attn_softcap": 2.0, "window": 5},
} | {mlp: {"mlp": mlp, "mlp_bias": mlp.endswith("tanh")} for mlp in MLPS}


@pytest.mark.parametrize("name", OPTIONS)
def test_option(name):
    c = case(**OPTIONS[name])
    x = c.input(2, 40)
    assert_close(c.block().forward(x), reference(c, x))


# The others change shapes, or nothing.
VISIBLE = [
    name
    for name in OPTIONS
    if not name.startswith(
        ("defaults", "no grouping", "one key", "heads", "window longer", "dynamic", "swiglu")
    )
]


@pytest.mark.parametrize("name", VISIBLE)
def test_option_is_seen(name):
    """The reference tells the option from its absence, so the comparison above means something."""
    with_option, without = case(**OPTIONS[name]), case()
    x = without.input(1, 40)
    weights = random_superset(with_option, without)
    changed = forward(weights, with_option.options, x[0])
    plain = forward({k: v for k, v in weights.items() if k in without.weights()}, without.options, x[0])
    assert np.abs(changed - plain).max() > 100 * TOLERANCE * np.abs(plain).max()


def random_superset(*several):
    return {name: values for c in reversed(several) for name, values in c.weights().items()}


@pytest.mark.parametrize(("d_model", "intermediate"), [(1, 1), (3, 513), (257, 5), (300, 256)])
def test_widths_around_the_blocks(d_model, intermediate):
    c = case(d_model, intermediate, norm="layernorm", mlp="geglu")
    x = c.input(1, 9)
    assert_close(c.block().forward(x), reference(c, x))


@pytest.mark.parametrize("window", [0, 256, 300])
def test_longer_than_a_block_of_keys(window):
    c = case(window=window, attn_softcap=5.0)
    x = c.input(1, 530)
    assert_close(c.block().forward(x), reference(c, x))


@given(st.data())
def test_combinations(data):
    c = data.draw(cases())
    length = data.draw(st.integers(1, 40))
    x = c.input(data.draw(st.integers(1, 3)), length)
    wanted, block = reference(c, x), c.block()
    assert_close(block.forward(x), wanted)

    state, done = block.allocate_state(len(x), length), 0
    for n in data.draw(cuts(length)):
        assert_close(block.forward(x[:, done : done + n], state), wanted[:, done : done + n])
        done += n
    with block.decode_session(block.allocate_state(len(x), length)) as session:
        assert_close(np.stack([np.asarray(session.step(x[:, i])) for i in range(length)], axis=1), wanted)

    lengths = data.draw(st.lists(st.integers(1, length), min_size=len(x), max_size=len(x)))
    ragged = np.asarray(block.forward(x, lengths=lengths))
    for row, n, all_of_it in zip(ragged, lengths, wanted, strict=True):
        assert np.abs(row[:n] - all_of_it[:n]).max() <= TOLERANCE * np.abs(all_of_it).max()
        assert not row[n:].any()

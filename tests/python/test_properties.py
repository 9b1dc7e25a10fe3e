# SPDX-License-Identifier: Apache-2.0
"""Properties of the block that hold to the last bit, for the contract fixes every order and every zero."""

import ctypes
import platform

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bits import same
from support.blocks import GATED, case, cases

import isobit

NAMES = ("q_proj", "k_proj", "v_proj")


def output(weights, options, x):
    return np.asarray(isobit.TransformerBlock(weights, **options).forward(x))


def appended_rows(w, name, rows):
    w[name] = np.concatenate([w[name], rows.astype(np.float32)])


@given(cases(), st.integers(1, 300))
def test_zero_padding_of_the_mlp(c, extra):
    """Hidden units that are zero add zero products, whatever block they fall into."""
    x, w = c.input(2, 5), c.weights()
    whole = output(w, c.options, x)
    for name in ("up_proj", "gate_proj") if c.options["mlp"] in GATED else ("up_proj",):
        appended_rows(w, name + ".weight", np.zeros((extra, c.d_model)))
        if c.options["mlp_bias"]:
            appended_rows(w, name + ".bias", np.zeros(extra))
    w["down_proj.weight"] = np.pad(w["down_proj.weight"], ((0, 0), (0, extra)))
    assert same(output(w, c.options, x), whole)


@given(cases())
def test_heads_that_nobody_reads(c):
    """A further group of heads whose columns of o_proj are zero."""
    x, w, o = c.input(2, 5), c.weights(), c.options
    whole = output(w, o, x)
    group, head = o["n_heads"] // o["n_kv_heads"], o["head_dim"]
    rng = np.random.default_rng(1)
    for name, heads in zip(NAMES, (group, 1, 1), strict=True):
        appended_rows(w, name + ".weight", rng.standard_normal((heads * head, c.d_model)))
        if o["qkv_bias"]:
            appended_rows(w, name + ".bias", rng.standard_normal(heads * head))
    w["o_proj.weight"] = np.pad(w["o_proj.weight"], ((0, 0), (0, group * head)))
    wider = o | {"n_heads": o["n_heads"] + group, "n_kv_heads": o["n_kv_heads"] + 1}
    assert same(output(w, wider, x), whole)


@given(cases())
def test_grouped_heads_are_repeated_heads(c):
    x, w, o = c.input(2, 9), c.weights(), c.options
    whole = output(w, o, x)
    group, head = o["n_heads"] // o["n_kv_heads"], o["head_dim"]
    for name in ("k_proj.weight", "v_proj.weight", "k_proj.bias", "v_proj.bias"):
        if name in w:
            by_head = w[name].reshape(o["n_kv_heads"], head, -1)
            w[name] = np.repeat(by_head, group, axis=0).reshape(o["n_heads"] * head, *w[name].shape[1:])
    assert same(output(w, o | {"n_kv_heads": o["n_heads"]}, x), whole)


@given(cases(), st.integers(-20, 20))
def test_powers_of_two_move_through(c, exponent):
    """v and o, or up and down, scaled against each other by a power of two: no rounding changes."""
    factor = np.float32(2.0**exponent)
    x, w = c.input(1, 6), c.weights()
    whole = output(w, c.options, x)
    pairs = [("v_proj", "o_proj")] + ([("up_proj", "down_proj")] if c.options["mlp"] in GATED else [])
    for first, second in pairs:
        for name in (first + ".weight", first + ".bias"):
            if name in w:
                w[name] = w[name] * factor
        w[second + ".weight"] = w[second + ".weight"] / factor
    assert same(output(w, c.options, x), whole)


@given(cases(), st.integers(2, 20), st.data())
def test_causality(c, length, data):
    """A token changes itself and later ones, and with a window no more than the window reaches."""
    t = data.draw(st.integers(0, length - 1))
    x = c.input(1, length)
    block = c.block()
    whole = np.asarray(block.forward(x))
    x[0, t] += 1
    changed = np.asarray(block.forward(x))
    assert same(changed[0, :t], whole[0, :t])
    if window := c.options["window"]:
        assert same(changed[0, t + window :], whole[0, t + window :])


@given(cases(), st.integers(1, 20))
def test_a_window_as_long_as_the_sequence_is_none(c, length):
    x, w = c.input(2, length), c.weights()
    assert same(output(w, c.options | {"window": 0}, x), output(w, c.options | {"window": length}, x))


EQUAL_OPTIONS = {
    "rope_dim": ({}, {"rope_dim": 8}),
    "linear by 1": ({}, {"rope_scaling": {"type": "linear", "factor": 1.0}}),
    "longrope of ones": (
        {},
        {
            "rope_scaling": {
                "rope_type": "longrope",
                "short_factor": [1.0] * 4,
                "long_factor": [9.0] * 4,
                "original_max_position_embeddings": 1024,
            }
        },
    ),
    "dynamic in range": (
        {},
        {
            "rope_scaling": {
                "rope_type": "dynamic",
                "factor": 8.0,
                "original_max_position_embeddings": 1024,
            }
        },
    ),
    "max_positions": ({}, {"max_positions": 100000}),
    "options are float32": ({"norm_eps": 0.1, "attn_softcap": 0.7}, None),
}


@pytest.mark.parametrize("name", EQUAL_OPTIONS)
def test_options_that_say_the_same(name):
    one, other = EQUAL_OPTIONS[name]
    if other is None:
        other = {key: float(np.float32(value)) for key, value in one.items()}
    x = case().input(1, 12)
    assert same(case(**one).block().forward(x), case(**other).block().forward(x))


def test_offset_norm_is_a_norm_of_one_plus_the_weight():
    c = case(norm="rmsnorm_offset", qk_norm=True)
    x, w = c.input(1, 12), c.weights()
    shifted = {n: np.float32(1) + v if "norm" in n else v for n, v in w.items()}
    assert same(output(w, c.options, x), output(shifted, c.options | {"norm": "rmsnorm"}, x))


def test_a_constant_row_has_no_deviation():
    """LayerNorm of equal numbers is 0 exactly, so that only its bias is left."""
    c = case(norm="layernorm", norm_bias=True, d_model=23)
    x = np.full((1, 3, 23), 0.1, np.float32) * np.array([1, 3, 1e6], np.float32)[:, None]
    w = c.weights() | {"o_proj.weight": np.zeros((23, 32), np.float32)}
    rows = np.asarray(isobit.TransformerBlock(w, **c.options).forward(x))[0] - x[0]
    assert np.abs(rows[0]).max() > 0.01
    assert np.allclose(rows[0], rows[1], atol=1e-5)


UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}


@pytest.mark.skipif(platform.machine() not in UPWARD, reason="FE_UPWARD is not known here")
def test_rounding_mode_of_the_host():
    """A host that rounds upward gets the same bits, from old and new blocks, and its rounding mode back."""
    fenv = ctypes.CDLL("libm.so.6")
    scaling = {"rope_type": "yarn", "factor": 3.3, "original_max_position_embeddings": 64}
    c = case(norm_eps=0.1, attn_softcap=0.7, rope_theta=777.7, rope_scaling=scaling)
    x, weights = c.input(2, 30), c.weights()
    block = isobit.TransformerBlock(weights, **c.options)
    whole = np.asarray(block.forward(x))
    before = fenv.fegetround()
    try:
        assert fenv.fesetround(UPWARD[platform.machine()]) == 0
        upward = block.forward(x)
        built_upward = isobit.TransformerBlock(weights, **c.options).forward(x)
        mode = fenv.fegetround()
    finally:
        fenv.fesetround(before)
    assert mode == UPWARD[platform.machine()]
    assert same(upward, whole) and same(built_upward, whole)


def test_a_host_that_flushes_subnormals():
    torch = pytest.importorskip("torch")
    c = case(seed=9)
    x = c.input(1, 4) * np.float32(1e-39)
    block = c.block()
    whole = np.asarray(block.forward(x))
    assert (np.abs(whole) < np.finfo(np.float32).tiny).any() and whole.any()
    assert torch.set_flush_denormal(True)
    try:
        flushed = block.forward(x)
        still_set = float(torch.tensor([1e-39]) * 1) == 0
    finally:
        torch.set_flush_denormal(False)
    assert still_set and same(flushed, whole)

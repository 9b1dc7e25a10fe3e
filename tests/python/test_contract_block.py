# SPDX-License-Identifier: Apache-2.0
"""A block, and a model, from docs/contract.md and docs/functions.md alone (support/contract.py): equal bits.

It is written from those pages and shares no code with the library, so whoever follows them gets these bytes.
"""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import contract
from support.bits import bits, same
from support.blocks import MLPS, case, cases
from support.checkpoints import make_config, random_weights
from support.contract_functions import fma
from test_contract_rotary import llama3, periods, plain, scale_of, sincos, yarn

from isobit.models import CausalLM, plan_for

f32 = np.float32


def rotary_table(inv, factor, positions):
    pairs = [[sincos(float(f32(p) * x)) for x in inv] for p in range(positions)]
    cos = np.array([[f32(c) * factor for _, c in row] for row in pairs], f32)
    sin = np.array([[f32(s) * factor for s, _ in row] for row in pairs], f32)
    return cos, sin


def from_the_text(c, x, inv=None, factor=1):
    dim = c.options.get("rope_dim") or c.options["head_dim"]
    inv = plain(dim, c.options.get("rope_theta", 10000.0)) if inv is None else inv
    cos, sin = rotary_table(inv, f32(factor), x.shape[1])
    return np.stack([contract.forward(c.weights(), c.options, row, cos, sin) for row in x])


def rounded(exact):
    """A Fraction rounded to binary32, ties to even, by integers alone."""
    if exact == 0:
        return 0.0
    exponent = max(math.frexp(float(abs(exact)))[1] - 24, -149)
    return float(round(exact / Fraction(2) ** exponent)) * 2.0**exponent


def test_fma_is_exact():
    """Against rational arithmetic: all exponents, near cancellation, subnormal results, halfway cases."""
    rng = random.Random(1)

    def number(low=-60, high=60):
        digits = rng.choice([rng.getrandbits(24), 1 << 23, (1 << 24) - 1, 3])
        return f32(math.ldexp(digits * rng.choice([1, -1]), rng.randint(low, high) - 24))

    for _ in range(3000):
        a, b, z = number(), number(), number(-120, 120)
        if rng.random() < 0.5:  # about as large as the product
            z = f32(-(float(a) * float(b)) * (1 + rng.choice([0, 2.0**-24, -(2.0**-23), 2.0**-12])))
        if rng.random() < 0.2:
            a, z = f32(float(a) * 2.0**-90), f32(rng.choice([1, -1]) * 2.0**-149)
        wanted = rounded(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(z)))
        assert float(fma(a, b, z)) == wanted


def test_signed_zeros_of_fma():
    zero, minus = f32(0), f32(-0.0)
    assert bits(fma(zero, f32(-1), minus)) == bits(minus)
    assert bits(fma(zero, f32(1), minus)) == bits(zero)
    assert bits(fma(f32(1), f32(1), f32(-1))) == bits(zero)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 11])
def test_tree_as_a_stream(n):
    """The two descriptions of TREE in section 2 are one, with blocks missing on the left too."""
    for first in range(n):
        stack = []
        for b in range(first, n):
            node, level = str(b), 0
            while b >> level & 1:
                if stack and stack[-1][:2] == (level, (b >> level) - 1):
                    node = f"({stack.pop()[2]}+{node})"
                level += 1
            stack.append((level, b >> level, node))
        node = stack.pop()[2]
        while stack:
            node = f"({stack.pop()[2]}+{node})"
        assert contract.tree({b: str(b) for b in range(first, n)}, lambda a, b: f"({a}+{b})") == node


OPTIONS = {
    "defaults": {},
    "qkv_bias, o_bias, mlp_bias": {"qkv_bias": True, "o_bias": True, "mlp_bias": True},
    "layernorm": {"norm": "layernorm"},
    "layernorm with bias": {"norm": "layernorm", "norm_bias": True, "norm_eps": 1e-5},
    "rmsnorm_offset, qk_norm": {"norm": "rmsnorm_offset", "qk_norm": True},
    "qk_norm": {"qk_norm": True},
    "softcap": {"attn_softcap": 0.7},
    "softcap, large": {"attn_softcap": 30.0},
    "window": {"window": 2},
    "rope_dim": {"head_dim": 10, "rope_dim": 6},
    "rope_theta": {"rope_theta": 5e5},
} | {mlp: {"mlp": mlp} for mlp in MLPS}


@pytest.mark.parametrize("name", OPTIONS)
def test_option(name):
    c = case(d_model=9, intermediate=21, seed=2, **({"head_dim": 4} | OPTIONS[name]))
    x = c.input(2, 5)
    assert same(c.block().forward(x), from_the_text(c, x))


def test_scalings():
    original = {"original_max_position_embeddings": 64}
    scalings = [
        ({"rope_type": "linear", "factor": 3.0}, [x / f32(3) for x in plain(8, 1e4)], 1),
        (
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
            | original,
            [llama3(x, 8, 1, 4, 64) for x in plain(8, 1e4)],
            1,
        ),
        (
            {"rope_type": "yarn", "factor": 4.0} | original,
            yarn(periods(8, 1e4), 1e4, 4, 64, True),
            scale_of(4.0, 1.0),
        ),
    ]
    for scaling, inv, factor in scalings:
        c = case(d_model=8, intermediate=8, rope_scaling=scaling)
        x = c.input(1, 7)
        assert same(c.block().forward(x), from_the_text(c, x, inv, factor))


@pytest.mark.parametrize("window", [0, 20, 270])
def test_several_blocks_of_keys(window):
    """Four blocks of keys, so that the tree is no chain, and blocks that a window hides."""
    c = case(d_model=6, intermediate=5, n_heads=2, n_kv_heads=1, head_dim=4, window=window, seed=5)
    x = c.input(1, 790)
    assert same(c.block().forward(x), from_the_text(c, x))


@pytest.mark.parametrize("d_model", [255, 256, 257, 600])
def test_several_blocks_of_inputs(d_model):
    """Dot products and norms over more than one block."""
    c = case(d_model, 2 * d_model - 100, n_heads=1, n_kv_heads=1, head_dim=4, norm="layernorm")
    x = c.input(1, 2)
    assert same(c.block().forward(x), from_the_text(c, x))


def test_extreme_values():
    """Subnormal and huge numbers, a constant row, zeros of both signs."""
    c = case(d_model=17, intermediate=9, head_dim=4, norm="layernorm", mlp="gelu", seed=7)
    x = c.input(1, 6)
    x[0, 0] *= f32(1e-40)
    x[0, 1] *= f32(1e18)
    x[0, 2] = 3.25
    x[0, 3] = 0.0
    x[0, 4] = -0.0
    assert same(c.block().forward(x), from_the_text(c, x))


def has_plain_rotary(c):
    return c.options["rope_scaling"] is None


@settings(max_examples=max(4, settings.default.max_examples // 3))
@given(cases(max_width=20).filter(has_plain_rotary), st.integers(1, 5))
def test_combinations(c, length):
    x = c.input(1, length)
    assert same(c.block().forward(x), from_the_text(c, x))


FAMILIES = {
    "llama": make_config("llama", attention_bias=True, mlp_bias=True),
    "mistral": make_config("mistral", 4, head_dim=12, sliding_window=6),
    "qwen2": make_config("qwen2", use_sliding_window=True, sliding_window=5, max_window_layers=1),
    "qwen3": make_config("qwen3", head_dim=16, tie_word_embeddings=True),
    "phi3": make_config("phi3", head_dim=8, rope={"partial_rotary_factor": 0.75}, sliding_window=None),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_model(family):
    """Logits and greedy choices of a whole model."""
    config = FAMILIES[family]
    weights = random_weights(config)
    plan = plan_for(config)
    model = CausalLM(plan, weights)
    ids = np.asarray(model.generate([[5, 17, 80, 3, 3, 41, 9]], 5))[0]

    def block(i):
        options = plan.layer_kwargs(i)
        sources = plan.layer_weights(i)
        own = {key: weights[name] if rows is None else weights[name][rows] for key, name, rows in sources}
        cos, sin = rotary_table(plain(options["rope_dim"], options["rope_theta"]), f32(1), len(ids))
        return lambda x: contract.forward(own, options, x, cos[: len(x)], sin[: len(x)])

    logits = contract.model(config, weights, [block(i) for i in range(plan.n_layers)], ids)
    assert same(model.forward(ids[None]), logits[None])
    for i in range(7, 12):
        assert contract.choose(logits[i - 1]) == ids[i]

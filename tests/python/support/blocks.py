# SPDX-License-Identifier: Apache-2.0
"""Random decoder blocks: weights for given options, and hypothesis strategies over every option."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

import isobit

GATED = ("swiglu", "geglu", "geglu_tanh")
MLPS = (*GATED, "gelu", "gelu_tanh")
NORMS = ("rmsnorm", "layernorm", "rmsnorm_offset")
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@dataclass(frozen=True)
class Case:
    """A block to be: sizes, constructor options, and the seed of its weights."""

    d_model: int
    intermediate: int
    options: dict
    seed: int = 0

    def weights(self):
        return random_weights(self)

    def block(self):
        return isobit.TransformerBlock(self.weights(), **self.options)

    def input(self, batch, length):
        """Rows for [batch, length] tokens."""
        rng = np.random.default_rng(self.seed + 1)
        return rng.standard_normal((batch, length, self.d_model)).astype(np.float32)


def case(d_model=24, intermediate=40, seed=0, **options):
    options = {"n_heads": 4, "n_kv_heads": 2, "head_dim": 8, "max_positions": 1024} | options
    return Case(d_model, intermediate, options, seed)


def weight_shapes(case):
    o = case.options
    d, wide, head = case.d_model, case.intermediate, o["head_dim"]
    q, kv = o["n_heads"] * head, o["n_kv_heads"] * head
    gated = o.get("mlp", "swiglu") in GATED
    shapes = {
        "input_layernorm.weight": (d,),
        "post_attention_layernorm.weight": (d,),
        "q_proj.weight": (q, d),
        "k_proj.weight": (kv, d),
        "v_proj.weight": (kv, d),
        "o_proj.weight": (d, q),
        "up_proj.weight": (wide, d),
        "down_proj.weight": (d, wide),
    }
    if gated:
        shapes["gate_proj.weight"] = (wide, d)
    if o.get("qkv_bias"):
        shapes |= {"q_proj.bias": (q,), "k_proj.bias": (kv,), "v_proj.bias": (kv,)}
    if o.get("o_bias"):
        shapes["o_proj.bias"] = (d,)
    if o.get("norm_bias"):
        shapes |= {"input_layernorm.bias": (d,), "post_attention_layernorm.bias": (d,)}
    if o.get("mlp_bias"):
        shapes |= {"up_proj.bias": (wide,), "down_proj.bias": (d,)}
        if gated:
            shapes["gate_proj.bias"] = (wide,)
    if o.get("qk_norm"):
        shapes |= {"q_norm.weight": (head,), "k_norm.weight": (head,)}
    return shapes


def random_weights(case):
    rng = np.random.default_rng(case.seed)
    offset = case.options.get("norm") == "rmsnorm_offset"
    weights = {}
    for name, shape in weight_shapes(case).items():
        values = rng.standard_normal(shape)
        if "norm.weight" in name:
            values = 0.3 * values + (0.0 if offset else 1.0)
        elif name.endswith("bias"):
            values = 0.3 * values
        else:
            sharp = name in ("q_proj.weight", "k_proj.weight")
            values *= (1.6 if sharp else 1.1) / math.sqrt(shape[1])
        weights[name] = values.astype(np.float32)
    return weights


def rope_scalings(rope_dim, max_positions):
    """None or a dict of one of the types, as a Hugging Face config has it."""
    factor = st.floats(1.0, 40.0).map(lambda x: round(x, 3))
    original = st.sampled_from([16, 64, 4096])
    half = rope_dim // 2
    factors = st.lists(st.floats(0.5, 30.0).map(lambda x: round(x, 3)), min_size=half, max_size=half)
    yarn = {"rope_type": st.just("yarn"), "factor": factor, "original_max_position_embeddings": original}
    yarn_options = {
        "attention_factor": st.sampled_from([0.5, 1.2]),
        "beta_fast": st.sampled_from([8.0, 32.0, 64.0]),
        "beta_slow": st.sampled_from([0.5, 1.0]),
        "mscale": st.sampled_from([0.0, 0.707, 1.0]),
        "mscale_all_dim": st.sampled_from([0.0, 0.5, 1.0]),
        "truncate": st.booleans(),
    }
    longrope = {
        "rope_type": st.sampled_from(["longrope", "su"]),
        "short_factor": factors,
        "long_factor": factors,
        "original_max_position_embeddings": original,
    }
    longrope_options = {"factor": factor, "attention_factor": st.sampled_from([0.8, 1.4])}
    return st.one_of(
        st.none(),
        st.fixed_dictionaries({"type": st.just("linear"), "factor": factor}),
        st.fixed_dictionaries(
            {
                "rope_type": st.just("llama3"),
                "factor": factor,
                "low_freq_factor": st.just(1.0),
                "high_freq_factor": st.sampled_from([2.0, 4.0]),
                "original_max_position_embeddings": original,
            }
        ),
        st.fixed_dictionaries(yarn, optional=yarn_options),
        st.fixed_dictionaries(longrope, optional=longrope_options),
        st.fixed_dictionaries(
            {
                "rope_type": st.just("dynamic"),
                "factor": factor,
                "original_max_position_embeddings": st.just(max_positions),
            }
        ),
    )


@st.composite
def cases(draw, max_width=70):
    """Any valid combination of sizes and options."""
    n_kv_heads = draw(st.integers(1, 3))
    head_dim = draw(st.sampled_from([2, 4, 6, 8, 16, 18, 34]))
    rope_dim = draw(st.one_of(st.none(), st.integers(1, head_dim // 2).map(lambda half: 2 * half)))
    max_positions = draw(st.sampled_from([512, 4096]))
    norm = draw(st.sampled_from(NORMS))
    options = {
        "n_heads": n_kv_heads * draw(st.integers(1, 3)),
        "n_kv_heads": n_kv_heads,
        "head_dim": head_dim,
        "window": draw(st.one_of(st.just(0), st.integers(1, 24))),
        "rope_theta": draw(st.sampled_from([10.0, 10000.0, 5e5])),
        "rope_scaling": draw(rope_scalings(rope_dim or head_dim, max_positions)),
        "rope_dim": rope_dim,
        "max_positions": max_positions,
        "qkv_bias": draw(st.booleans()),
        "o_bias": draw(st.booleans()),
        "norm": norm,
        "norm_eps": draw(st.sampled_from([1e-6, 1e-5, 0.1])),
        "norm_bias": norm == "layernorm" and draw(st.booleans()),
        "mlp": draw(st.sampled_from(MLPS)),
        "mlp_bias": draw(st.booleans()),
        "qk_norm": norm != "layernorm" and draw(st.booleans()),
        "attn_softcap": draw(st.sampled_from([None, 0.7, 30.0])),
    }
    sizes = st.integers(1, max_width)
    return Case(draw(sizes), draw(sizes), options, draw(st.integers(0, 1000)))


@st.composite
def cuts(draw, length):
    """A sequence of `length` tokens cut into calls: their lengths, in order."""
    places = draw(st.lists(st.integers(1, length - 1), unique=True, max_size=5)) if length > 1 else []
    edges = [0, *sorted(places), length]
    return [after - before for before, after in itertools.pairwise(edges)]

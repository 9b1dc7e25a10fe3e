# SPDX-License-Identifier: Apache-2.0
"""Configs that hypothesis draws, of any family, against transformers."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.checkpoints import make_config, random_weights, write_checkpoint

oracle = pytest.importorskip("support.oracle", exc_type=ImportError)

LENGTH, ORIGINAL = 26, 16  # longrope: always past the original range, where both sides use the long list


def rounded(low, high):
    return st.floats(low, high).map(lambda x: round(x, 4))


def factor_lists(n):
    return st.lists(rounded(0.8, 20), min_size=n, max_size=n)


@st.composite
def ropes(draw, family, head_dim):
    """rope_parameters without rope_theta."""
    partial = {}
    rope_dim = head_dim
    if family == "phi3" and draw(st.booleans()):
        rope_dim = 2 * draw(st.integers(1, head_dim // 2))
        partial = {"partial_rotary_factor": rope_dim / head_dim}
    factor, original = draw(rounded(1, 16)), {"original_max_position_embeddings": ORIGINAL}
    kinds = ["default", "longrope"] + ["linear", "llama3", "yarn"] * (family != "phi3")
    if family != "phi3" and rope_dim > 2:  # where transformers would divide by zero
        kinds.append("dynamic")
    kind = draw(st.sampled_from(kinds))
    if kind == "llama3":
        high = draw(rounded(1.5, 8))
        partial |= original | {"factor": factor, "low_freq_factor": 1.0, "high_freq_factor": high}
    elif kind == "yarn":
        choices = {
            "attention_factor": rounded(0.5, 2),
            "beta_fast": rounded(4, 40),
            "beta_slow": rounded(0.2, 2),
            "mscale": st.sampled_from([0.5, 0.707, 1.0]),
            "mscale_all_dim": st.sampled_from([0.5, 1.0]),
            "truncate": st.booleans(),
        }
        partial |= original | {"factor": factor} | draw(st.fixed_dictionaries({}, optional=choices))
    elif kind == "longrope":
        lists = {"short_factor": factor_lists(rope_dim // 2), "long_factor": factor_lists(rope_dim // 2)}
        choices = {"factor": rounded(1, 16), "attention_factor": rounded(0.5, 2)}
        partial |= draw(st.fixed_dictionaries(lists, optional=choices))
    elif kind != "default":
        partial["factor"] = factor
    return partial | ({"rope_type": kind} if kind != "default" or partial else {})


@st.composite
def configs(draw):
    family = draw(st.sampled_from(["llama", "mistral", "qwen2", "qwen3", "phi3"]))
    kv_heads, head_dim = draw(st.integers(1, 3)), 2 * draw(st.integers(1, 12))
    rope, heads = draw(ropes(family, head_dim)), kv_heads * draw(st.integers(1, 3))
    fields = {
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "hidden_size": heads * draw(st.integers(2, 12)),  # transformers asks for a multiple
        "intermediate_size": draw(st.integers(1, 80)),
        "num_hidden_layers": draw(st.integers(1, 3)),
        "vocab_size": draw(st.integers(20, 120)),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-5, 1e-2])),
        "tie_word_embeddings": draw(st.booleans()),
    }
    if rope.get("rope_type") == "longrope":
        fields["original_max_position_embeddings"] = ORIGINAL
        if family == "phi3":  # transformers takes the length of the lists from the hidden size
            fields["hidden_size"] = heads * head_dim
    window = draw(st.one_of(st.none(), st.integers(1, 30)))
    if family in ("mistral", "phi3"):
        fields["sliding_window"] = window
    if family in ("qwen2", "qwen3") and window:
        fields |= {"use_sliding_window": True, "sliding_window": window}
        fields["max_window_layers"] = draw(st.integers(0, 3))
    if family in ("llama", "qwen3"):
        fields["attention_bias"] = draw(st.booleans())
    if family == "llama":
        fields["mlp_bias"] = draw(st.booleans())
    spelling, theta = draw(st.sampled_from([4, 5])), draw(st.sampled_from([100.0, 10000.0, 5e5]))
    return make_config(family, spelling, rope, theta, **fields)


@settings(max_examples=max(20, settings.default.max_examples // 2))
@given(configs(), st.integers(0, 100), st.sampled_from(["F32", "F16", "BF16"]), st.integers(1, 3))
def test_random_config(config, seed, dtype, shards):
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), config, random_weights(config, seed), dtype, shards)
        oracle.assert_parity(folder, length=LENGTH, batch=1)

# SPDX-License-Identifier: Apache-2.0
"""Each family against transformers at float32, on small random checkpoints: prefill and cached decode.

Every case is a config and how its folder is written; support/oracle.py says what "equal" means.
"""

import numpy as np
import pytest
from support.blocks import LLAMA3
from support.checkpoints import (
    make_config,
    random_weights,
    stored_inv_freq,
    without_prefix,
    write_checkpoint,
)

from isobit.models import CausalLM

oracle = pytest.importorskip("support.oracle", exc_type=ImportError)

FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "phi3"]
SHORT = [1.0, 1.02, 1.1, 1.3]
LONG = [1.0, 1.6, 3.5, 9.0]
LINEAR = {"rope_type": "linear", "factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LONGROPE = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}


def check(folder, config, seed=0, length=40, load=None, **write):
    write_checkpoint(folder, config, random_weights(config, seed), **write)
    return oracle.assert_parity(folder, length=length, **(load or {}))


@pytest.mark.parametrize("spelling", [4, 5])
@pytest.mark.parametrize("family", FAMILIES)
def test_family(tmp_path, family, spelling):
    model = check(tmp_path, make_config(family, spelling, sliding_window=None, head_dim=8))
    assert not model.tied and model.unused_names == []


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_heads_wider_than_the_model(tmp_path, family, tied):
    config = make_config(
        family, head_dim=12, num_key_value_heads=1, sliding_window=None, tie_word_embeddings=tied
    )
    assert check(tmp_path, config).tied is tied


def test_one_key_head_for_each_query_head(tmp_path):
    check(tmp_path, make_config("llama", 4, num_key_value_heads=4))


@pytest.mark.parametrize("biases", [{"attention_bias": True}, {"mlp_bias": True}], ids=str)
def test_llama_biases(tmp_path, biases):
    check(tmp_path, make_config("llama", **biases))


def test_qwen3_biases(tmp_path):
    check(tmp_path, make_config("qwen3", head_dim=16, attention_bias=True))


WINDOWS = {
    "mistral": ("mistral", {"sliding_window": 9}, [9, 9]),
    "phi3": ("phi3", {"sliding_window": 7}, [7, 7]),
    "qwen2 upper layers": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
        [0, 9],
    ),
    "qwen2 all": ("qwen2", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}, [5, 5]),
    "qwen2 switched off": ("qwen2", {"use_sliding_window": False, "sliding_window": 9}, [0, 0]),
    "qwen2 layer types": (
        "qwen2",
        {
            "use_sliding_window": True,
            "sliding_window": 9,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        [9, 0],
    ),
    "qwen3 layer types": (
        "qwen3",
        {
            "head_dim": 8,
            "use_sliding_window": True,
            "sliding_window": 1,
            "layer_types": ["full_attention", "sliding_attention"],
        },
        [0, 1],
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_window(tmp_path, name):
    """Prompts longer than the window, so the ring turns over several times."""
    family, fields, windows = WINDOWS[name]
    model = check(tmp_path, make_config(family, **fields))
    assert [model.plan.layer_kwargs(i)["window"] for i in range(model.n_layers)] == windows


def test_window_of_mistral_where_the_file_is_silent(tmp_path):
    model = check(tmp_path, make_config("mistral"))
    assert model.plan.layer_kwargs(0)["window"] == 4096


SCALINGS = {
    "linear": LINEAR,
    "llama3": LLAMA3,
    "yarn": YARN,
    "yarn, no factor": {"rope_type": "yarn", "original_max_position_embeddings": 32, "factor": None},
    "yarn, attention_factor": YARN | {"attention_factor": 1.25},
    "yarn, mscale": YARN | {"mscale": 0.707, "mscale_all_dim": 1.0},
    "yarn, one mscale": YARN | {"mscale": 0.707},
    "yarn, betas": YARN | {"beta_fast": 16, "beta_slow": 2},
    "yarn, not truncated": YARN | {"truncate": False},
    "dynamic": DYNAMIC,
    "longrope": LONGROPE | {"original_max_position_embeddings": 32},
    "longrope, factor": LONGROPE | {"original_max_position_embeddings": 32, "factor": 2.0},
    "longrope, attention_factor": LONGROPE
    | {"original_max_position_embeddings": 32, "attention_factor": 1.3},
}


@pytest.mark.parametrize("spelling", [4, 5])
@pytest.mark.parametrize("name", SCALINGS)
def test_rope_scaling(tmp_path, name, spelling):
    check(tmp_path, make_config("llama", spelling, SCALINGS[name], theta=500.0), length=48)


@pytest.mark.parametrize("family", ["mistral", "qwen2", "qwen3"])
def test_yarn_in_other_families(tmp_path, family):
    check(tmp_path, make_config(family, 4, YARN, head_dim=8, sliding_window=None), length=48)


@pytest.mark.parametrize("positions", [None, 32])
@pytest.mark.parametrize("spelling", [4, 5])
def test_phi3_longrope(tmp_path, spelling, positions):
    """Both lists. Where more positions than the original ones are allowed, the long one is always in use."""
    config = make_config("phi3", spelling, LONGROPE, original_max_position_embeddings=32)
    check(tmp_path, config, length=48 if positions is None else 32, load={"max_positions": positions})


@pytest.mark.parametrize("spelling", [4, 5])
@pytest.mark.parametrize("scaled", [False, True])
def test_phi3_partial_rotary(tmp_path, spelling, scaled):
    rope = {"partial_rotary_factor": 0.75}
    fields = {"head_dim": 8}
    if scaled:
        rope |= {"rope_type": "longrope", "short_factor": SHORT[:3], "long_factor": LONG[:3]}
        fields["original_max_position_embeddings"] = 32
    check(tmp_path, make_config("phi3", spelling, rope, **fields))


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_checkpoint(tmp_path, family, dtype):
    """Weights are widened exactly, whatever the config calls the dtype."""
    check(tmp_path, make_config(family, head_dim=8, sliding_window=None), dtype=dtype)


def test_shards(tmp_path):
    check(tmp_path, make_config("llama"), shards=3)
    assert len(list(tmp_path.glob("*.safetensors"))) == 3


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_names_without_prefix(tmp_path, family):
    config = make_config(family)
    write_checkpoint(tmp_path, config, without_prefix(random_weights(config)))
    oracle.assert_parity(tmp_path)


def test_stored_inv_freq_is_not_used(tmp_path):
    config = make_config("llama", 4)
    write_checkpoint(tmp_path, config, random_weights(config) | stored_inv_freq(config))
    model = oracle.assert_parity(tmp_path)
    assert model.unused_names == [
        f"model.layers.{i}.self_attn.rotary_emb.inv_freq" for i in range(model.n_layers)
    ]


@pytest.mark.parametrize("only", ["embed", "head"])
def test_tied_under_either_name(tmp_path, only):
    config = make_config("qwen2", tie_word_embeddings=True)
    weights = random_weights(config)
    if only == "head":
        weights["lm_head.weight"] = weights.pop("model.embed_tokens.weight")
    write_checkpoint(tmp_path, config, weights)
    assert oracle.assert_parity(tmp_path).tied


@pytest.mark.parametrize("equal", [True, False])
def test_tied_and_both_stored(tmp_path, equal):
    """Equal tensors are one; different ones are both used, whatever the config says."""
    config = make_config("llama", tie_word_embeddings=True)
    weights = random_weights(config)
    head = weights["model.embed_tokens.weight"].copy()
    if not equal:
        head += np.random.default_rng(5).standard_normal(head.shape).astype(np.float32)
    write_checkpoint(tmp_path, config, weights | {"lm_head.weight": head})
    assert oracle.assert_parity(tmp_path).tied is equal


@pytest.mark.parametrize("eps", [1e-6, 1e-5, 0.3])
def test_norm_eps_reaches_every_norm(tmp_path, eps):
    """On an embedding so small that every eps counts."""
    config = make_config("qwen3", head_dim=8, rms_norm_eps=eps)
    weights = random_weights(config)
    weights["model.embed_tokens.weight"] *= np.float32(0.01)
    write_checkpoint(tmp_path, config, weights)
    oracle.assert_parity(tmp_path)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_longer_than_a_block(tmp_path, family):
    """A few hundred positions: attention crosses the blocks of 256 keys, the MLP those of 256 inputs."""
    config = make_config(family, head_dim=8, intermediate_size=300, max_position_embeddings=600)
    check(tmp_path, config, length=270)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_continuation(tmp_path, family):
    """generate gives the ids that transformers' own greedy loop gives."""
    config = make_config(family, head_dim=8, sliding_window=None, eos_token_id=None)
    write_checkpoint(tmp_path, config, random_weights(config, seed=3))
    ids = np.random.default_rng(4).integers(0, config["vocab_size"], (2, 7))
    ours = CausalLM.load(tmp_path).generate(ids, 20)
    assert np.array_equal(ours, oracle.greedy(oracle.load_oracle(tmp_path), ids, 20))

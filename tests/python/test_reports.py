# SPDX-License-Identifier: Apache-2.0
"""Bugs that users of other libraries reported in public, each as a test that they cannot happen here."""

import numpy as np
import pytest
from support.bits import bits, same
from support.blocks import case
from support.checkpoints import make_config, random_weights, stored_inv_freq, write_checkpoint

import isobit
from isobit.models import CausalLM, UnsupportedModel, plan_for

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
LONGROPE = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2.0, 5.0, 9.0]}
IDS = np.random.default_rng(0).integers(0, 96, (1, 40))


def model_of(config, **load):
    return CausalLM(plan_for(config), random_weights(config), **load)


def test_rope_type_and_type_are_one_key():
    """OpenNMT/CTranslate2 1745: Llama 3.1 ran unscaled, for it says rope_type where older files say type."""
    new = make_config("llama", 4, LLAMA3 | {"rope_type": "llama3"})
    old = make_config("llama", 4, LLAMA3 | {"type": "llama3"})
    both = make_config("llama", 4, LLAMA3 | {"type": "llama3", "rope_type": "llama3"})
    scaled = np.asarray(model_of(new).forward(IDS))
    assert same(model_of(old).forward(IDS), scaled)
    assert same(model_of(both).forward(IDS), scaled)
    assert not same(model_of(make_config("llama", 4)).forward(IDS), scaled)
    assert plan_for(both).block_kwargs["rope_scaling"]["rope_type"] == "llama3"
    with pytest.raises(UnsupportedModel, match="what rope_type says"):
        plan_for(make_config("llama", 4, LLAMA3 | {"type": "linear", "rope_type": "llama3"}))


@pytest.mark.parametrize("name", ["su", "yarn"])
def test_old_names_of_longrope(name):
    """OpenNMT/CTranslate2 1685: Phi-3-128k was refused, for its first files call the type su, or yarn."""
    fields = {"original_max_position_embeddings": 32}
    old = model_of(make_config("phi3", 4, LONGROPE | {"type": name}, **fields))
    new = model_of(make_config("phi3", 5, LONGROPE | {"rope_type": "longrope"}, **fields))
    assert same(old.forward(IDS), new.forward(IDS))


def test_longrope_lists_are_never_mixed():
    """huggingface/transformers 33129: past the original range, new keys were scaled by the long list while
    those in the cache had the short one. Here a model has one list: the long one if it may ever go beyond."""
    config = make_config("phi3", 5, LONGROPE | {"rope_type": "longrope"}, original_max_position_embeddings=32)
    long = model_of(config)
    whole = np.asarray(long.forward(IDS))
    state = long.allocate_state(1, 40)
    steps = [np.asarray(long.step(IDS[:, i], state)) for i in range(40)]
    assert same(np.stack(steps, axis=1), whole)

    short = model_of(config, max_positions=32)
    assert not same(short.forward(IDS[:, :32]), whole[:, :32])
    state = short.allocate_state(1, 32)
    short.forward(IDS[:, :32], state)
    with pytest.raises(ValueError, match="32"):
        short.step(IDS[:, 32], state)
    with pytest.raises(ValueError, match="32"):
        short.allocate_state(1, 33)
    assert state.positions == 32


def test_exactly_the_original_length_is_short():
    """unslothai/unsloth 10681: the long list was used for exactly the original number of tokens already."""
    longrope = {
        "rope_type": "longrope",
        "short_factor": [2.0] * 4,
        "long_factor": [8.0] * 4,
        "attention_factor": 1.0,
        "original_max_position_embeddings": 64,
    }
    x = case().input(1, 64)

    def output(scaling, max_positions):
        return case(rope_scaling=scaling, max_positions=max_positions).block().forward(x)

    # Division by a power of two is exact, so that these lists are linear scaling to the last bit.
    for max_positions, factor in ((63, 2.0), (64, 2.0), (65, 8.0)):
        x = case().input(1, min(max_positions, 64))
        linear = output({"rope_type": "linear", "factor": factor}, max_positions)
        assert same(output(longrope, max_positions), linear)


def test_stored_head_of_a_tied_model(tmp_path):
    """vllm-project/vllm 6758: a file that stores lm_head.weight though the config ties it was refused."""
    config = make_config("qwen2", tie_word_embeddings=True)
    weights = random_weights(config)
    tied = CausalLM(plan_for(config), weights)
    stored = weights | {"lm_head.weight": weights["model.embed_tokens.weight"]}
    model = CausalLM.load(write_checkpoint(tmp_path, config, stored))
    assert model.tied and "lm_head.weight" not in model.parameters()
    assert same(model.forward(IDS), tied.forward(IDS))


def test_missing_shard(tmp_path):
    """sgl-project/sglang 32279: with a shard missing, its weights silently stayed random."""
    config = make_config("llama")
    write_checkpoint(tmp_path, config, random_weights(config), shards=3)
    CausalLM.load(tmp_path)
    shard = tmp_path / "model-00002-of-00003.safetensors"
    shard.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=shard.name):
        CausalLM.load(tmp_path)


def test_missing_tensor():
    """The same report: a tensor that no file has is an error that names it."""
    config = make_config("llama")
    weights = random_weights(config)
    del weights["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(isobit.models.UnsupportedModel, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        CausalLM(plan_for(config), weights)


@pytest.mark.parametrize("position", [2047, 8191, 131071, 1048575])
def test_angles_are_float32_at_any_position(position):
    """EleutherAI/gpt-neox 1003, huggingface/transformers 25681: angles from half-precision frequencies or
    positions were wrong from position 2048 on. Here a key is read back from the cache: it must be the token's
    projection, turned by the float32 angle."""
    c = case(head_dim=16, window=2, rope_theta=5e5, max_positions=1 << 20)
    block, x = c.block(), c.input(1, 1)[:, 0]
    ring = np.zeros(2 * 2 * 16, np.float32)
    at_zero = block.allocate_state(1, 1)
    block.step(x, at_zero)
    state = isobit.TransformerState(1, 2, 16, 1 << 20, ring, ring, position, 2)
    block.step(x, state)
    key = np.asarray(at_zero.keys(), float)[0, :, -1]
    turned = np.asarray(state.keys(), float)[0, :, -1]

    exponent = np.arange(0, 16, 2, np.float32) / np.float32(16)
    inv_freq = np.float32(1) / np.float32(5e5) ** exponent
    angle = (np.float32(position) * inv_freq).astype(float)
    u, v, cos, sin = key[:, :8], key[:, 8:], np.cos(angle), np.sin(angle)
    wanted = np.concatenate([u * cos - v * sin, v * cos + u * sin], axis=-1)
    # NumPy's power may be an ulp off, which at angle a is a * 2^-23.
    assert np.abs(turned - wanted).max() < 3e-6 + 4e-7 * angle[1]
    assert np.abs(turned[:, [0, 8]] - wanted[:, [0, 8]]).max() < 3e-6  # inv_freq[0] is exactly 1


@pytest.mark.parametrize("dtype", ["F32", "F16"])
def test_stored_inv_freq_is_ignored(tmp_path, dtype):
    """The same reports: old files carry the frequencies, at times in half precision; nobody reads them."""
    config = make_config("llama", 4)
    weights = random_weights(config)
    plain = CausalLM.load(write_checkpoint(tmp_path / "plain", config, weights, dtype))
    folder = write_checkpoint(tmp_path / "stored", config, weights | stored_inv_freq(config), dtype)
    model = CausalLM.load(folder)
    assert len(model.unused_names) == model.n_layers
    assert same(model.forward(IDS), plain.forward(IDS))


@pytest.mark.parametrize("family", ["mistral", "phi3"])
def test_window_0_is_no_window(family):
    """unslothai/unsloth 8253: sliding_window 0 hid every key."""
    none = model_of(make_config(family, sliding_window=None))
    zero = model_of(make_config(family, sliding_window=0))
    assert zero.plan.block_kwargs["window"] == 0
    assert same(zero.forward(IDS), none.forward(IDS))
    assert not np.isnan(np.asarray(zero.forward(IDS))).any()
    assert bits(zero.forward(IDS)).any()

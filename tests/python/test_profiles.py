# SPDX-License-Identifier: Apache-2.0
"""fixed15_v1 and int8x32_v1: the bits of the contract's text, however they are computed; copies and pickles
keep them; where a profile does not exist it is refused."""

import pickle

import numpy as np
import pytest
from support import contract
from support.bits import same
from support.blocks import Case, case
from support.checkpoints import make_config, random_weights, write_checkpoint
from support.refusals import refuses
from test_contract_block import from_the_text

import isobit
from isobit import _modes
from isobit.models import CausalLM
from isobit.transformer import TransformerBlock, TransformerBlockInference

PROFILES = ("fixed15_v1", "int8x32_v1")


@pytest.fixture(autouse=True)
def default_as_before():
    before = dict(_modes._chosen)
    yield
    _modes._chosen.clear()
    _modes._chosen.update(before)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("cls", [TransformerBlock, TransformerBlockInference])
def test_block(profile, cls):
    c = case(window=9)
    block = cls(c.weights(), **c.options, numeric_profile=profile)
    assert block.numeric_profile == profile
    x = c.input(2, 24)
    whole = np.asarray(block(x))
    plain = np.asarray(c.block()(x))
    assert not same(whole, plain)
    assert np.abs(whole - plain).max() < (2e-3 if profile == "fixed15_v1" else 0.1) * np.abs(plain).max()
    state = block.allocate_state(2, 24)
    parts = [np.asarray(block(x[:, :13], state))]
    parts += [np.asarray(block.step(x[:, i], state))[:, None] for i in range(13, 24)]
    assert same(np.concatenate(parts, axis=1), whole)
    assert same(np.asarray(block(x, lengths=[24, 7]))[1, :7], whole[1, :7])
    for other in (pickle.loads(pickle.dumps(block)), TransformerBlock(**block.get_params())):
        assert other.numeric_profile == profile and same(other(x), whole)
    changed = c.block()
    changed.set_params(numeric_profile=profile)
    assert changed.numeric_profile == profile and same(changed(x), whole)
    used = isobit.active_isa()
    for isa in isobit.available_isas():
        isobit.set_isa(isa)
        assert same(block(x), whole)
    isobit.set_isa(used)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("tied", [False, True])
def test_model_from_the_text(tmp_path, profile, tied):
    """The head by docs/contract.md alone, over the blocks of the model, tied and not."""
    config = make_config("llama", tie_word_embeddings=tied)
    weights = random_weights(config)
    folder = write_checkpoint(tmp_path / "model", config, weights)
    model = CausalLM.load(folder, numeric_profile=profile)
    ids = [5, 9, 70, 3]
    by_block = [lambda x, b=b: np.asarray(b(x[None]))[0] for b in model.blocks]
    expected = contract.model(config, weights, by_block, ids, profile)
    assert same(np.asarray(model.forward([ids]))[0], expected)
    assert model.numeric_profile == profile


CASES = [
    {},
    {"n_kv_heads": 4, "head_dim": 6, "qkv_bias": True, "o_bias": True, "window": 5},
    {"head_dim": 2, "mlp": "geglu", "mlp_bias": True, "attn_softcap": 1.5},
    {"head_dim": 34, "norm": "rmsnorm_offset", "qk_norm": True},
]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("options", CASES)
@pytest.mark.parametrize("width", [24, 296])
def test_block_from_the_text(profile, options, width):
    c = case(d_model=width, intermediate=40, numeric_profile=profile, **options)
    x = c.input(2, 11)
    assert same(c.block()(x), from_the_text(c, x))


class UnevenRows(Case):
    """Projections with a row and a block of zeros, a subnormal row, and rows of other magnitudes."""

    def weights(self):
        weights = super().weights()
        for name in (name for name, values in weights.items() if values.ndim == 2):
            weights[name] *= np.exp2(-np.arange(len(weights[name])) % 5).astype(np.float32)[:, None]
            weights[name][0], weights[name][1, :32] = 0, 0
            weights[name][2] *= np.float32(2**-138)
        return weights


@pytest.mark.parametrize("profile", PROFILES)
def test_uneven_rows_from_the_text(profile):
    c = case(d_model=72, intermediate=40, numeric_profile=profile)
    c = UnevenRows(c.d_model, c.intermediate, c.options)
    x = c.input(2, 7)
    x[0, 2] = 0
    x[1, 3] *= np.float32(2**-140)
    x[1, 5, :32] = 0
    assert same(c.block()(x), from_the_text(c, x))


def test_process_default():
    c = case()
    x = c.input(1, 5)
    plain = c.block()(x)
    for profile in PROFILES:
        isobit.set_numeric_profile(profile)
        block = TransformerBlock(c.weights(), **c.options)
        assert block.numeric_profile == profile
        assert same(block(x), TransformerBlock(c.weights(), **c.options, numeric_profile=profile)(x))
        assert same(TransformerBlock(c.weights(), **c.options, numeric_profile="fp32_v1")(x), plain)
        with refuses(NotImplementedError, "[Mamba2Block] numeric_profile", "fp32_v1", profile):
            isobit.Mamba2Block({})
    for cls in (isobit.Mamba1Block, isobit.Mamba3BlockInference):
        with refuses(NotImplementedError, f"[{cls.__name__}] numeric_profile", "fixed15_v1"):
            cls({}, numeric_profile="fixed15_v1")

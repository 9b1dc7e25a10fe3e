# SPDX-License-Identifier: Apache-2.0
"""Mamba models and hybrids against transformers at float32, on small random checkpoints: prefill, splits and
single steps."""

import json

import numpy as np
import pytest
from support.hybrids import HYBRIDS

from isobit.cli.info import describe
from isobit.models import CausalLM

oracle = pytest.importorskip("support.oracle", exc_type=ImportError)

COMMON = {
    "vocab_size": 96,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
MAMBA2 = {**COMMON, "num_heads": 8, "head_dim": 8, "state_size": 16, "n_groups": 1, "chunk_size": 16}
CASES = {
    "mamba": ("mamba", COMMON),
    "mamba-biases": ("mamba", {**COMMON, "use_bias": True, "use_conv_bias": False, "conv_kernel": 3}),
    "mamba-untied": ("mamba", {**COMMON, "tie_word_embeddings": False, "time_step_rank": 5, "state_size": 7}),
    "falcon_mamba": ("falcon_mamba", {**COMMON, "mixer_rms_eps": 1e-5}),
    "mamba2": ("mamba2", MAMBA2),
    "mamba2-groups": ("mamba2", {**MAMBA2, "n_groups": 4, "use_bias": True}),
    "mamba2-limits": ("mamba2", {**MAMBA2, "time_step_limit": [0.05, 0.6], "tie_word_embeddings": True}),
    **HYBRIDS,
}


def kept(model):
    """Bytes of the Mamba states of one sequence."""
    layers = model.allocate_state(1, 4).layers
    states = [part for layer in layers for part in (layer if isinstance(layer, tuple) else (layer,))]
    names = ("conv_window", "h", "theta", "k", "v")
    return sum(np.asarray(getattr(s, n)).nbytes for s in states for n in names if hasattr(s, n))


@pytest.mark.parametrize("case", CASES)
def test_logits(tmp_path, case):
    family, fields = CASES[case]
    oracle.random_model(tmp_path, family, fields)
    theirs = oracle.load_oracle(tmp_path)
    model = CausalLM.load(tmp_path)
    ids = np.random.default_rng(1).integers(0, fields["vocab_size"], (2, 40))
    expected = oracle.oracle_logits(theirs, ids)
    full, steps = oracle.our_logits(model, ids)
    oracle.assert_close(full, expected)
    assert full.tobytes() == steps.tobytes()
    state = model.allocate_state(2, 40)
    pieces = [np.asarray(model.forward(part, state)) for part in (ids[:, :3], ids[:, 3:17], ids[:, 17:])]
    assert np.concatenate(pieces, axis=1).tobytes() == full.tobytes()
    assert not model.unused_names


@pytest.mark.parametrize(
    "case", [case for case in CASES if case not in ("mamba-untied", "mamba2-limits", "granite-mamba")]
)
def test_greedy(tmp_path, case):
    family, fields = CASES[case]
    oracle.random_model(tmp_path, family, fields, seed=3)
    theirs = oracle.load_oracle(tmp_path)
    ids = np.random.default_rng(2).integers(3, fields["vocab_size"], (1, 9))
    ours = np.asarray(CausalLM.load(tmp_path).generate(ids, 12))
    assert ours.tolist() == oracle.greedy(theirs, ids, 12).tolist()


@pytest.mark.parametrize("case", CASES)
def test_stored_weights(tmp_path, case):
    family, fields = CASES[case]
    oracle.random_model(tmp_path, family, fields)
    ids = np.random.default_rng(3).integers(0, fields["vocab_size"], (2, 15))
    for fmt in ("bfloat16", "int8"):
        stored = CausalLM.load(tmp_path, weight_format=fmt)
        assert {block.weight_format for block in stored.blocks if block is not None} <= {fmt}
        wide = CausalLM(stored.plan, stored.parameters())
        full, steps = oracle.our_logits(stored, ids)
        assert full.tobytes() == steps.tobytes() == np.asarray(wide.forward(ids)).tobytes()
        size = 0
        for name, value in stored.parameters().items():
            projection = name.endswith(("_proj.weight", "linear.weight")) or "_adapter_" in name
            bytes_each = {"bfloat16": 2, "int8": 1}[fmt] if projection else 4
            size += bytes_each * value.size + (4 * value.shape[0] if bytes_each == 1 else 0)
        facts = describe(tmp_path, fmt)
        assert (facts["memory_bytes"], facts["state_bytes"]) == (size, kept(stored))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "case", ["mamba", "mamba2-groups", "granite", "falcon_h1-norm", "nemotron_h", "zamba2"]
)
def test_half_precision_files(tmp_path, case, dtype):
    family, fields = CASES[case]
    model = oracle.random_model(tmp_path, family, fields)
    model.to(getattr(oracle.torch, dtype)).save_pretrained(tmp_path)
    ids = np.random.default_rng(5).integers(0, fields["vocab_size"], (2, 12))
    full, steps = oracle.our_logits(CausalLM.load(tmp_path), ids)
    oracle.assert_close(full, oracle.oracle_logits(oracle.load_oracle(tmp_path), ids))
    assert full.tobytes() == steps.tobytes()


def test_parameters_and_blocks(tmp_path):
    oracle.random_model(tmp_path, *CASES["mamba2"])
    model = CausalLM.load(tmp_path)
    stored = dict(oracle.load_oracle(tmp_path).state_dict())
    ours = model.parameters()
    assert set(ours) == {
        name for name in stored if model.plan.tie_embeddings is False or "lm_head" not in name
    }
    for name, value in ours.items():
        assert np.asarray(value).tobytes() == stored[name].numpy().tobytes(), name
    block = model.blocks[1]
    x = np.random.default_rng(0).standard_normal((1, 5, 32), dtype=np.float32)
    state = block.allocate_state(1)
    assert np.asarray(block.forward(x)).tobytes() == np.asarray(block.forward(x, state)).tobytes()
    assert model.plan.kind == "mamba2" and model.plan.block_kwargs["n_groups"] == 1


def original_format(folder, family, fields, layer):
    """The same weights as the mamba_ssm package stores them; returns its config."""
    safetensors = pytest.importorskip("safetensors.torch")
    oracle.random_model(folder, family, fields)
    tensors = safetensors.load_file(folder / "model.safetensors")
    tensors["backbone.embedding.weight"] = tensors.pop("backbone.embeddings.weight")
    safetensors.save_file(tensors, folder / "model.safetensors")
    config = {
        "d_model": fields["hidden_size"],
        "n_layer": fields["num_hidden_layers"],
        "vocab_size": fields["vocab_size"] - 3,
        "ssm_cfg": layer,
        "rms_norm": True,
        "residual_in_fp32": True,
        "fused_add_norm": True,
        "pad_vocab_size_multiple": 8,
        "tie_embeddings": family == "mamba",
    }
    return config


@pytest.mark.parametrize(
    ("case", "layer"),
    [("mamba", {}), ("mamba2", {"layer": "Mamba2", "headdim": 8, "d_state": 16})],
)
def test_original_format(tmp_path, case, layer):
    family, fields = CASES[case]
    hf, own = tmp_path / "hf", tmp_path / "own"
    oracle.random_model(hf, family, fields)
    own.mkdir()
    config = original_format(own, family, fields, layer)
    (own / "config.json").write_text(json.dumps(config))
    ids = np.random.default_rng(1).integers(0, 90, (1, 20))
    assert (
        np.asarray(CausalLM.load(own).forward(ids)).tobytes()
        == np.asarray(CausalLM.load(hf).forward(ids)).tobytes()
    )


def test_pickled_weights_are_refused_by_name(tmp_path):
    (tmp_path / "config.json").write_text('{"d_model":32,"n_layer":1,"vocab_size":96,"ssm_cfg":{}}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02.")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin"):
        CausalLM.load(tmp_path)


def test_a_config_that_disagrees_with_the_weights(tmp_path):
    oracle.random_model(tmp_path, *CASES["mamba2"])
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "state_size": 8}))
    with pytest.raises(ValueError, match="sizes that the config names"):
        CausalLM.load(tmp_path)

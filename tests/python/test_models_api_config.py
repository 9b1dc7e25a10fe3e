# SPDX-License-Identifier: Apache-2.0
"""HFConfig, plan_for and ModelPlan: what Python sees and what is refused."""

from support.checkpoints import make_config
from support.refusals import refuses

from isobit.models import (
    HFConfig,
    UnsupportedModel,
    known_model_types,
    plan_for,
)


def test_config_is_a_mapping(folder):
    fields = make_config("llama")
    config = HFConfig(fields)
    assert config.model_type == "llama" and config["hidden_size"] == 32 and len(config) == len(fields)
    assert dict(config) == fields == config.to_dict() and "nonsense" not in config and config.get("x") is None
    assert config.path is None and "llama" in repr(config)
    config.to_dict()["hidden_size"] = 1
    assert config["hidden_size"] == 32
    for path in (folder, folder / "config.json", str(folder)):
        read = HFConfig.from_json(path)
        assert dict(read) == fields and read.path == folder / "config.json"


def test_refused_configs(tmp_path):
    for data in ({}, {"model_type": 3}, {"model_type": None}):
        with refuses(ValueError, "[HFConfig]", "model_type"):
            HFConfig(data)
    for data in ([1], "llama", None):
        with refuses(TypeError, "[HFConfig] data", type(data).__name__):
            HFConfig(data)
    with refuses(FileNotFoundError, "[HFConfig]", "nowhere"):
        HFConfig.from_json(tmp_path / "nowhere")
    with refuses(FileNotFoundError, "[HFConfig]"):
        HFConfig.from_json(tmp_path)
    for text in ("", "[1]", "{", '{"model_type": "llama"} x', "\xff"):
        (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
        with refuses(ValueError, "[HFConfig]"):
            HFConfig.from_json(tmp_path)


def test_plan():
    plan = plan_for(make_config("llama", attention_bias=True))
    assert (plan.model_type, plan.kind, plan.n_layers, plan.d_model, plan.vocab_size) == (
        "llama",
        "transformer",
        2,
        32,
        96,
    )
    assert (plan.n_heads, plan.n_kv_heads, plan.head_dim, plan.intermediate) == (4, 2, 8, 48)
    assert (plan.tie_embeddings, plan.norm_eps, plan.max_position_embeddings) == (False, 1e-5, 128)
    assert plan.embed_name == "model.embed_tokens.weight" and plan.norm_name == "model.norm.weight"
    assert plan.head_name == "lm_head.weight"
    assert plan_for(make_config("llama", tie_word_embeddings=True)).head_name is None
    assert plan.block_options["qkv_bias"] is True and "n_heads" not in plan.block_options
    assert plan.block_kwargs == plan.layer_kwargs(0) and plan.block_kwargs["n_kv_heads"] == 2
    weights = dict((key, (name, rows)) for key, name, rows in plan.layer_weights(1))
    assert weights["q_proj.bias"] == ("model.layers.1.self_attn.q_proj.bias", None)
    names = plan.checkpoint_names()
    assert len(names) == len(set(names)) and "model.layers.0.mlp.up_proj.weight" in names
    for i in (-1, 2):
        with refuses(IndexError, "layer", str(i)):
            plan.layer_weights(i)
    same_plan = plan_for(HFConfig(make_config("llama", attention_bias=True)))
    assert same_plan.checkpoint_names() == names


def test_fused_rows():
    rows = {key: (name, part) for key, name, part in plan_for(make_config("phi3")).layer_weights(0)}
    fused = "model.layers.0.self_attn.qkv_proj.weight"
    assert rows["q_proj.weight"] == (fused, slice(0, 32)) and rows["k_proj.weight"] == (fused, slice(32, 48))
    assert rows["v_proj.weight"] == (fused, slice(48, 64))
    assert rows["up_proj.weight"][1] == slice(48, 96)


def test_unsupported_models():
    assert issubclass(UnsupportedModel, ValueError) and {"llama", "qwen3", "phi3"} <= set(known_model_types())
    for family in ("gpt2", "mixtral", "gemma2", "jamba"):
        with refuses(UnsupportedModel, family, "llama", "qwen3"):
            plan_for({"model_type": family, "hidden_size": 8})
    refused = {
        "num_local_experts": 8,
        "hidden_act": "relu",
        "attention_dropout": 0.5,
        "num_key_value_heads": 3,
        "rope_parameters": {"rope_type": "cubic"},
    }
    for field, value in refused.items():
        with refuses(UnsupportedModel, field):
            plan_for(make_config("llama", **{field: value}))
    for field in ("hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size"):
        with refuses(UnsupportedModel, field):
            plan_for({k: v for k, v in make_config("llama").items() if k != field})
        for value in ("32", 3.5, -1, 0, True):
            with refuses(UnsupportedModel, field):
                plan_for(make_config("llama", **{field: value}))

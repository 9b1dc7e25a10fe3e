# SPDX-License-Identifier: Apache-2.0
"""Small random checkpoints of each family: config.json, weights, and how a folder of them is written."""

import json
import math

import numpy as np
from safetensors import TensorSpec, serialize_file

DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    # The default ids of some families lie outside this vocabulary.
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def make_config(family, spelling=5, rope=None, theta=10000.0, **fields):
    """A config.json as transformers 5 (rope_parameters) or 4 (rope_theta, rope_scaling) writes it.

    rope holds rope_type and what belongs to it, and partial_rotary_factor. A field given as None is null.
    """
    config = {"model_type": family, **SIZES}
    rope = dict(rope or {})
    if spelling == 5:
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": theta, **rope}
        config["dtype"] = "float32"
    else:
        config["rope_theta"] = theta
        if "partial_rotary_factor" in rope:
            config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
        config["rope_scaling"] = rope or None
        config["torch_dtype"] = "float32"
    return {**config, **fields}


def head_dim_of(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def tensor_shapes(config):
    """Checkpoint name -> shape, of an untied model."""
    family, d, wide = config["model_type"], config["hidden_size"], config["intermediate_size"]
    head = head_dim_of(config)
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    attention_bias = family == "qwen2" or config.get("attention_bias", False)
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], d), "model.norm.weight": (d,)}
    shapes["lm_head.weight"] = (config["vocab_size"], d)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        attention, mlp = layer + "self_attn.", layer + "mlp."
        matrices = {attention + "o_proj": (d, q), mlp + "down_proj": (d, wide)}
        if family == "phi3":
            matrices |= {attention + "qkv_proj": (q + 2 * kv, d), mlp + "gate_up_proj": (2 * wide, d)}
        else:
            matrices |= {attention + name: (kv, d) for name in ("k_proj", "v_proj")}
            matrices |= {mlp + name: (wide, d) for name in ("gate_proj", "up_proj")}
            matrices[attention + "q_proj"] = (q, d)
        for name, shape in matrices.items():
            shapes[name + ".weight"] = shape
            in_attention = name.startswith(attention)
            without = family == "qwen2" and name.endswith("o_proj")
            if (attention_bias and in_attention and not without) or (
                config.get("mlp_bias") and not in_attention
            ):
                shapes[name + ".bias"] = shape[:1]
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{layer}{name}.weight"] = (d,)
        if family == "qwen3":
            shapes |= {f"{attention}{name}_norm.weight": (head,) for name in ("q", "k")}
    return shapes


def random_weights(config, seed=0):
    """Weights that keep every layer awake: peaked attention, norms away from 1, biases away from 0."""
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in tensor_shapes(config).items():
        values = rng.standard_normal(shape)
        if "norm" in name:
            values = 1 + 0.2 * values
        elif name.endswith("bias"):
            values = 0.3 * values
        elif "embed" not in name:
            sharp = any(part in name for part in ("q_proj", "k_proj", "qkv_proj"))
            values *= (1.8 if sharp else 1.1) / math.sqrt(shape[1])
        weights[name] = values.astype(np.float32)
    if config["tie_word_embeddings"]:
        del weights["lm_head.weight"]
    return weights


def to_bfloat16(values):
    """The bits of float32 numbers rounded to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def stored(values, dtype):
    """An array whose bytes are the values as dtype."""
    if dtype == "BF16":
        return to_bfloat16(values)
    return np.ascontiguousarray(values, np.float16 if dtype == "F16" else np.float32)


def write_tensors(path, weights, dtype="F32"):
    kept = {name: stored(values, dtype) for name, values in weights.items()}
    specs = {
        name: TensorSpec(
            dtype=DTYPES[dtype], shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes
        )
        for name, array in kept.items()
    }
    serialize_file(specs, str(path), {"format": "pt"})


def write_checkpoint(folder, config, weights, dtype="F32", shards=1):
    """config.json with model.safetensors, or with an index and shards that take the tensors in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    if shards == 1:
        write_tensors(folder / "model.safetensors", weights, dtype)
        return folder
    names = sorted(weights)
    index = {"metadata": {"total_size": sum(array.nbytes for array in weights.values())}, "weight_map": {}}
    for k in range(shards):
        file = f"model-{k + 1:05}-of-{shards:05}.safetensors"
        write_tensors(folder / file, {name: weights[name] for name in names[k::shards]}, dtype)
        index["weight_map"] |= {name: file for name in names[k::shards]}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def without_prefix(weights):
    """The names in a checkpoint of the inner module alone, as its own save_pretrained writes them."""
    return {name.removeprefix("model."): array for name, array in weights.items()}


def stored_inv_freq(config, count=None):
    """The rotary buffers of old files, wrong on purpose: whoever used them would be seen."""
    half = head_dim_of(config) // 2
    layers = config["num_hidden_layers"] if count is None else count
    return {
        f"model.layers.{i}.self_attn.rotary_emb.inv_freq": np.full(half, 0.5, np.float32)
        for i in range(layers)
    }

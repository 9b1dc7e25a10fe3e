# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint of a known model's shapes with random weights: speed needs no training.

    python benchmarks/make_checkpoint.py qwen3-0.6b FOLDER [--tokenizer CHECKPOINT]
    python benchmarks/make_checkpoint.py mamba-130m FOLDER       (and mamba2-130m)

--tokenizer copies the tokenizer of another checkpoint: OpenVINO wants one, and never uses it here.
"""

import argparse
import json
import pathlib
import shutil

import numpy as np
from safetensors.numpy import save_file

MAMBA = {
    "hidden_size": 768,
    "num_hidden_layers": 24,
    "expand": 2,
    "conv_kernel": 4,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "bos_token_id": 0,
    "eos_token_id": 0,
}
CONFIGS = {
    "mamba-130m": {
        **MAMBA,
        "model_type": "mamba",
        "architectures": ["MambaForCausalLM"],
        "vocab_size": 50280,
        "state_size": 16,
        "time_step_rank": 48,
    },
    "mamba2-130m": {
        **MAMBA,
        "model_type": "mamba2",
        "architectures": ["Mamba2ForCausalLM"],
        "vocab_size": 50288,
        "state_size": 128,
        "num_heads": 24,
        "head_dim": 64,
        "n_groups": 1,
    },
    "qwen3-0.6b": {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "vocab_size": 151936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
}


def qwen3_shapes(config):
    """Checkpoint name -> shape."""
    d, wide, hd = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * hd, config["num_key_value_heads"] * hd
    layer = {
        "input_layernorm": (d,),
        "post_attention_layernorm": (d,),
        "self_attn.q_norm": (hd,),
        "self_attn.k_norm": (hd,),
        "self_attn.q_proj": (q, d),
        "self_attn.k_proj": (kv, d),
        "self_attn.v_proj": (kv, d),
        "self_attn.o_proj": (d, q),
        "mlp.gate_proj": (wide, d),
        "mlp.up_proj": (wide, d),
        "mlp.down_proj": (d, wide),
    }
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], d), "model.norm.weight": (d,)}
    for i in range(config["num_hidden_layers"]):
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return shapes


def mamba_shapes(config):
    """Of both versions."""
    d, wide, states = config["hidden_size"], config["hidden_size"] * config["expand"], config["state_size"]
    heads, rank = config.get("num_heads", 0), config.get("time_step_rank", 0)
    conv = wide + 2 * states * config.get("n_groups", 0)
    layer = {
        "norm.weight": (d,),
        "mixer.in_proj.weight": (wide + conv + heads if heads else 2 * wide, d),
        "mixer.conv1d.weight": (conv, 1, config["conv_kernel"]),
        "mixer.conv1d.bias": (conv,),
        "mixer.A_log": (heads,) if heads else (wide, states),
        "mixer.D": (heads or wide,),
        "mixer.out_proj.weight": (d, wide),
    }
    if heads:
        layer |= {"mixer.dt_bias": (heads,), "mixer.norm.weight": (wide,)}
    else:
        layer |= {
            "mixer.x_proj.weight": (rank + 2 * states, wide),
            "mixer.dt_proj.weight": (wide, rank),
            "mixer.dt_proj.bias": (wide,),
        }
    shapes = {"backbone.embeddings.weight": (config["vocab_size"], d), "backbone.norm_f.weight": (d,)}
    for i in range(config["num_hidden_layers"]):
        shapes |= {f"backbone.layers.{i}.{name}": shape for name, shape in layer.items()}
    return shapes


def weights(config):
    """Norms near one, matrices at a scale that keeps a signal's size: logits of a few units. Time steps below
    a tenth and A from -1 to -16, as trained models have them."""
    rng = np.random.default_rng(0)
    shapes = mamba_shapes(config) if "mamba" in config["model_type"] else qwen3_shapes(config)
    for name, shape in shapes.items():
        values = rng.standard_normal(shape, np.float32)
        if name.endswith("A_log"):
            yield name, np.log(rng.uniform(1, 16, shape)).astype(np.float32)
        elif name.endswith(("dt_bias", "dt_proj.bias")):
            yield name, rng.uniform(-6, -2, shape).astype(np.float32)
        elif name.endswith("conv1d.weight"):
            yield name, values / np.float32(2)
        elif len(shape) == 1:
            yield name, 1 + values / 10
        else:
            yield name, values / np.float32(shape[1] ** 0.5)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=CONFIGS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path)
    args = parser.parse_args()
    config = CONFIGS[args.model]
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json") if args.tokenizer else ():
        shutil.copy(args.tokenizer / name, args.folder)
    (args.folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(dict(weights(config)), args.folder / "model.safetensors", {"format": "pt"})


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint of the shape of mamba-130m or mamba2-130m with random weights: speed does not read them.

    python benchmarks/random_mamba.py mamba-130m OUT
"""

import argparse
import json
import math
import pathlib

import numpy as np

from isobit.models import HFConfig, plan_for, write_safetensors

COMMON = {
    "hidden_size": 768,
    "num_hidden_layers": 24,
    "expand": 2,
    "conv_kernel": 4,
    "layer_norm_epsilon": 1e-5,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
    "tie_word_embeddings": True,
}
SHAPES = {
    "mamba-130m": {
        **COMMON,
        "architectures": ["MambaForCausalLM"],
        "model_type": "mamba",
        "vocab_size": 50280,
        "state_size": 16,
        "time_step_rank": 48,
    },
    "mamba2-130m": {
        **COMMON,
        "architectures": ["Mamba2ForCausalLM"],
        "model_type": "mamba2",
        "vocab_size": 50288,
        "state_size": 128,
        "num_heads": 24,
        "head_dim": 64,
        "n_groups": 1,
        "chunk_size": 256,
    },
}


def shape_of(name, config):
    d, e, n = config["hidden_size"], config["hidden_size"] * config["expand"], config["state_size"]
    heads, conv = config.get("num_heads", 0), e + 2 * n * config.get("n_groups", 0)
    rank = config.get("time_step_rank", 0)
    is_2 = heads > 0
    part = name.split(".mixer.")[-1]
    return {
        "in_proj.weight": (e + conv + heads if is_2 else 2 * e, d),
        "conv1d.weight": (conv, 1, config["conv_kernel"]),
        "conv1d.bias": (conv,),
        "x_proj.weight": (rank + 2 * n, e),
        "dt_proj.weight": (e, rank),
        "dt_proj.bias": (e,),
        "dt_bias": (heads,),
        "A_log": (heads,) if is_2 else (e, n),
        "D": (heads if is_2 else e,),
        "norm.weight": (e,),
        "out_proj.weight": (d, e),
    }.get(part, (config["vocab_size"], d) if "embed" in name else (d,))


def values(name, shape, draw):
    """Sizes as trained models have them: steps below 0.1, A from -1 to -16, norms of 1."""
    if name.endswith(("norm.weight", "norm_f.weight", ".D")):
        return np.ones(shape, np.float32)
    if name.endswith("A_log"):
        return np.log(draw.uniform(1, 16, shape)).astype(np.float32)
    if name.endswith(("dt_bias", "dt_proj.bias")):
        return draw.uniform(-6, -2, shape).astype(np.float32)
    bound = 1 / math.sqrt(shape[-1])
    return draw.uniform(-bound, bound, shape).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    config = SHAPES[args.shape]
    draw = np.random.default_rng(0)
    names = [name for name in plan_for(HFConfig(config)).checkpoint_names() if name != "lm_head.weight"]
    args.out.mkdir(parents=True, exist_ok=True)
    tensors = {name: values(name, shape_of(name, config), draw) for name in names}
    write_safetensors(args.out / "model.safetensors", tensors)
    (args.out / "config.json").write_text(json.dumps(config, indent=1) + "\n")


if __name__ == "__main__":
    main()

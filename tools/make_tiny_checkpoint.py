#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a llama checkpoint directory of a few thousand random weights, the same bytes on every machine.

Usage: tools/make_tiny_checkpoint.py FOLDER
"""

import json
import math
import random
import struct
import sys
from pathlib import Path

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}


def tensor_shapes() -> dict[str, tuple[int, ...]]:
    """Checkpoint name -> shape."""
    d, wide = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    kv = d // CONFIG["num_attention_heads"] * CONFIG["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (CONFIG["vocab_size"], d), "model.norm.weight": (d,)}
    for layer in range(CONFIG["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": (d,),
            prefix + "post_attention_layernorm.weight": (d,),
            prefix + "self_attn.q_proj.weight": (d, d),
            prefix + "self_attn.k_proj.weight": (kv, d),
            prefix + "self_attn.v_proj.weight": (kv, d),
            prefix + "self_attn.o_proj.weight": (d, d),
            prefix + "mlp.gate_proj.weight": (wide, d),
            prefix + "mlp.up_proj.weight": (wide, d),
            prefix + "mlp.down_proj.weight": (d, wide),
        }
    return shapes


def write_checkpoint(folder: Path) -> None:
    """Every operation on the way to a weight is exact, so the bytes never differ."""
    rng = random.Random(1)
    header, data = {}, bytearray()
    for name, shape in sorted(tensor_shapes().items()):
        center = 1.0 if len(shape) == 1 else 0.0
        values = [center + (rng.random() - 0.5) for _ in range(math.prod(shape))]
        begin = len(data)
        data += struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": (begin, len(data))}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2))
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    write_checkpoint(Path(sys.argv[1]))

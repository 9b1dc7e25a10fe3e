# SPDX-License-Identifier: Apache-2.0
"""Writes a llama or qwen3 checkpoint as the float32 GGUF file that llama.cpp reads, without a vocabulary.

python benchmarks/to_gguf.py CHECKPOINT FILE
"""

import json
import pathlib
import sys

import gguf
import numpy as np
from safetensors import safe_open

MODEL = {"embed_tokens": "token_embd", "norm": "output_norm"}
LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    """model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight"""
    if name == "lm_head.weight":
        return "output.weight"
    stem, kind = name.removeprefix("model.").rsplit(".", 1)
    if stem in MODEL:
        return f"{MODEL[stem]}.{kind}"
    _, layer, part = stem.split(".", 2)
    return f"blk.{layer}.{LAYER[part]}.{kind}"


def interleaved(rows, heads):
    """llama.cpp rotates neighbours, a llama checkpoint halves: row (half, j) goes to (j, half)."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write_fields(writer, config):
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def main():
    checkpoint, out = pathlib.Path(sys.argv[1]), sys.argv[2]
    config = json.loads((checkpoint / "config.json").read_text())
    family = config["model_type"]
    if family not in ("llama", "qwen3") or config.get("rope_scaling") is not None:
        raise SystemExit(f"to_gguf: expected a llama or qwen3 model without rope_scaling, got {family}")
    writer = gguf.GGUFWriter(out, family)
    write_fields(writer, config)
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for shard in sorted(checkpoint.glob("*.safetensors")):
        with safe_open(shard, "np") as file:
            for name in file.keys():  # noqa: SIM118 - not a dict
                values = file.get_tensor(name).astype(np.float32)
                part = name.split(".")[-2]
                if family == "llama" and part in heads:
                    values = interleaved(values, heads[part])
                writer.add_tensor(gguf_name(name), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()

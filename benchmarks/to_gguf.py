# SPDX-License-Identifier: Apache-2.0
"""Writes a llama, qwen3, mamba or mamba2 checkpoint as the float32 GGUF file that llama.cpp reads, without a
vocabulary.

python benchmarks/to_gguf.py CHECKPOINT FILE
"""

import json
import pathlib
import sys

import gguf
import numpy as np
from safetensors import safe_open

MODEL = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "embeddings": "token_embd",
    "norm_f": "output_norm",
}
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
MIXER = {
    "norm.weight": "attn_norm.weight",
    "mixer.in_proj.weight": "ssm_in.weight",
    "mixer.conv1d.weight": "ssm_conv1d.weight",
    "mixer.conv1d.bias": "ssm_conv1d.bias",
    "mixer.x_proj.weight": "ssm_x.weight",
    "mixer.dt_proj.weight": "ssm_dt.weight",
    "mixer.dt_proj.bias": "ssm_dt.bias",
    "mixer.dt_bias": "ssm_dt.bias",
    "mixer.A_log": "ssm_a",
    "mixer.D": "ssm_d",
    "mixer.norm.weight": "ssm_norm.weight",
    "mixer.out_proj.weight": "ssm_out.weight",
}


def gguf_name(name):
    """model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight"""
    if name == "lm_head.weight":
        return "output.weight"
    if name.startswith("backbone.layers."):
        _, _, layer, part = name.split(".", 3)
        return f"blk.{layer}.{MIXER[part]}"
    stem, kind = name.removeprefix("model.").removeprefix("backbone.").rsplit(".", 1)
    if stem in MODEL:
        return f"{MODEL[stem]}.{kind}"
    _, layer, part = stem.split(".", 2)
    return f"blk.{layer}.{LAYER[part]}.{kind}"


def interleaved(rows, heads):
    """llama.cpp rotates neighbours, a llama checkpoint halves: row (half, j) goes to (j, half)."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def mixer_form(name, values, config):
    """A itself instead of its logarithm; numbers of a head and groups of the norm in two dimensions."""
    if name.endswith("A_log"):
        values = -np.exp(values)
    if name.endswith("conv1d.weight"):
        return values.squeeze(1)
    if config["model_type"] == "mamba2" and name.endswith(("A_log", ".D")):
        return values.reshape(-1, 1)
    if name.endswith("mixer.norm.weight"):
        return values.reshape(config["n_groups"], -1)
    return values


def write_mamba_fields(writer, config):
    inner = config["hidden_size"] * config["expand"]
    writer.add_context_length(1 << 20)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(config["conv_kernel"])
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(config["state_size"])
    writer.add_ssm_time_step_rank(config.get("num_heads") or config["time_step_rank"])
    if "n_groups" in config:
        writer.add_ssm_group_count(config["n_groups"])
    writer.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    write_vocabulary(writer, config)


def write_vocabulary(writer, config):
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


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
    write_vocabulary(writer, config)


def main():
    checkpoint, out = pathlib.Path(sys.argv[1]), sys.argv[2]
    config = json.loads((checkpoint / "config.json").read_text())
    family = config["model_type"]
    is_mamba = family in ("mamba", "mamba2")
    if not (is_mamba or family in ("llama", "qwen3")) or config.get("rope_scaling") is not None:
        raise SystemExit(f"to_gguf: expected a known model without rope_scaling, got {family}")
    writer = gguf.GGUFWriter(out, family)
    (write_mamba_fields if is_mamba else write_fields)(writer, config)
    heads = {"q_proj": config.get("num_attention_heads"), "k_proj": config.get("num_key_value_heads")}
    for shard in sorted(checkpoint.glob("*.safetensors")):
        with safe_open(shard, "np") as file:
            for name in file.keys():  # noqa: SIM118 - not a dict
                values = file.get_tensor(name).astype(np.float32)
                part = name.split(".")[-2]
                if family == "llama" and part in heads:
                    values = interleaved(values, heads[part])
                elif is_mamba:
                    values = mixer_form(name, values, config)
                writer.add_tensor(gguf_name(name), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()

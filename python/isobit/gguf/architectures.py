# SPDX-License-Identifier: Apache-2.0
"""What a GGUF file of a known architecture means in Hugging Face words: config.json and the source of every
tensor.

Only mappings that are certain are made. Anything that the target family cannot express is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from isobit.gguf.reader import GGUFFile
from isobit.gguf.rope import rope_scaling


@dataclass(frozen=True)
class Architecture:
    """How the tensors of one GGUF architecture are called and what its Hugging Face model class is."""

    model_class: str
    permuted: bool = False  # q and k rows are interleaved for the paired rotation of GGUF's "llama"
    qkv_bias: bool | None = None  # None: bias tensors decide, and then o_proj has one as well
    qk_norm: bool = False
    fused: bool = False  # attn_qkv and a two-part ffn_up, as phi3 has in both formats


ARCHITECTURES = {
    "llama": Architecture("LlamaForCausalLM", permuted=True),
    "qwen2": Architecture("Qwen2ForCausalLM", qkv_bias=True),
    "qwen3": Architecture("Qwen3ForCausalLM", qk_norm=True),
    "phi3": Architecture("Phi3ForCausalLM", qkv_bias=False, fused=True),
}

# Tensors that carry no weight of the model: rotary scaling, already in config.json.
_CONSUMED_ELSEWHERE = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}


@dataclass(frozen=True)
class TensorSource:
    """One tensor to write: which GGUF tensor, the shape it must have, and how its rows are ordered there.

    GGUF's llama stores row (head, i, half) of q and k where Hugging Face has (head, half, i); `paired_head`
    is then the size of a head, and 0 where both have the same order.
    """

    gguf_name: str
    shape: tuple[int, ...]
    paired_head: int = 0


@dataclass(frozen=True)
class Mapping:
    """config.json (without token ids) and the sources of the checkpoint's tensors, by Hugging Face name."""

    config: dict[str, Any]
    sources: dict[str, TensorSource]


def map_model(file: GGUFFile) -> Mapping:
    """Reads the sizes and options of the model and names every tensor.

    ValueError for what is unknown or inconsistent.
    """
    arch = file.get("general.architecture", "string")
    if arch not in ARCHITECTURES:
        raise ValueError(
            f"[convert] general.architecture: expected one of {', '.join(ARCHITECTURES)}, got {arch!r}"
        )
    if file.get("split.count", "integer", 1) > 1:
        raise ValueError(
            "[convert] split.count: expected one file, got a part of a split GGUF (merge the parts first)"
        )
    if file.get(f"{arch}.expert_count", "integer", 0) > 0:
        raise ValueError(f"[convert] {arch}.expert_count: expected a dense model, got a mixture of experts")
    config = _config(file, arch)
    sources = _sources(file, ARCHITECTURES[arch], config)
    for hf_name, source in sources.items():
        _check_source(file, hf_name, source)
    used = {source.gguf_name for source in sources.values()} | _CONSUMED_ELSEWHERE
    unused = sorted(set(file.tensors) - used)
    if unused:
        raise ValueError(
            f"[convert] tensors: expected only those of {arch}, got also {', '.join(unused[:5])}"
        )
    return Mapping(config, sources)


def _config(file: GGUFFile, arch: str) -> dict[str, Any]:
    def size(key: str, default: int | None = None) -> int:
        name = f"{arch}.{key}"
        if isinstance(file.metadata.get(name), list):  # one number a layer
            numbers = set(file.get(name, "list of integers"))
        else:
            numbers = {file.get(name, "integer") if default is None else file.get(name, "integer", default)}
        number = min(numbers, default=0)
        if len(numbers) != 1 or not 0 < number < 2**31:
            raise ValueError(
                f"[convert] {name}: expected one positive 32-bit integer, got {sorted(numbers)[:4]}"
            )
        return number

    what = ARCHITECTURES[arch]
    d_model, heads = size("embedding_length"), size("attention.head_count")
    kv_heads, positions = size("attention.head_count_kv", heads), size("context_length")
    head_dim = size("attention.key_length", max(d_model // heads, 1))
    if head_dim % 2:
        raise ValueError(f"[convert] {arch}.attention.key_length: expected an even head size, got {head_dim}")
    if size("attention.value_length", head_dim) != head_dim:
        raise ValueError(
            f"[convert] {arch}.attention.value_length: expected the key length {head_dim}, got another"
        )
    rotated = size("rope.dimension_count", head_dim)
    if rotated != head_dim and arch != "phi3":
        raise ValueError(
            f"[convert] {arch}.rope.dimension_count: expected the head size {head_dim}, got {rotated}"
        )
    theta = float(file.get(f"{arch}.rope.freq_base", "number", 10000.0))
    window = file.get(f"{arch}.attention.sliding_window", "integer", 0)
    embedding = _shape_of(file, "token_embd.weight")
    vocab = size("vocab_size", embedding[0])
    if embedding != (vocab, d_model):
        raise ValueError(
            f"[convert] token_embd.weight: expected shape {[vocab, d_model]}, got {list(embedding)}"
        )
    config: dict[str, Any] = {
        "architectures": [what.model_class],
        "model_type": arch,
        "vocab_size": vocab,
        "hidden_size": d_model,
        "intermediate_size": size("feed_forward_length"),
        "num_hidden_layers": size("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": positions,
        "rms_norm_eps": _short_float32(file.get(f"{arch}.attention.layer_norm_rms_epsilon", "number")),
        "rope_theta": _short_float32(theta),
        "rope_scaling": rope_scaling(file, arch, rotated, theta, positions),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "torch_dtype": _dtype(file),
    }
    config.update(_family_fields(file, arch, config, window, rotated))
    return config


def _family_fields(
    file: GGUFFile, arch: str, config: dict[str, Any], window: int, rotated: int
) -> dict[str, Any]:
    """The fields that only one family reads."""
    if arch == "phi3":
        fields: dict[str, Any] = {
            "sliding_window": window or None,
            "partial_rotary_factor": rotated / config["head_dim"],
        }
        original = file.get("phi3.rope.scaling.original_context_length", "integer", None)
        if original is not None:
            fields["original_max_position_embeddings"] = original
        return fields
    if arch in ("qwen2", "qwen3"):
        if window:
            raise ValueError(f"[convert] {arch}.attention.sliding_window: expected none, got {window}")
        fields = {"use_sliding_window": False, "sliding_window": None}
        return fields if arch == "qwen2" else fields | {"attention_bias": "blk.0.attn_q.bias" in file.tensors}
    if window:  # llama with a window is what Hugging Face calls mistral
        return {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": window}
    return {
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        "mlp_bias": "blk.0.ffn_up.bias" in file.tensors,
    }


def _sources(file: GGUFFile, what: Architecture, config: dict[str, Any]) -> dict[str, TensorSource]:
    d, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head_dim = config["head_dim"]
    q_width, kv_width = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    paired = head_dim if what.permuted else 0
    qkv_bias = config.get("attention_bias", False) if what.qkv_bias is None else what.qkv_bias
    o_bias = qkv_bias and what.qkv_bias is None
    mlp_bias = config.get("mlp_bias", False)
    # Hugging Face name, GGUF name, rows, columns, paired head, with a bias
    matrices = [
        ("self_attn.q_proj", "attn_q", q_width, d, paired, qkv_bias),
        ("self_attn.k_proj", "attn_k", kv_width, d, paired, qkv_bias),
        ("self_attn.v_proj", "attn_v", kv_width, d, 0, qkv_bias),
        ("self_attn.o_proj", "attn_output", d, q_width, 0, o_bias),
        ("mlp.gate_proj", "ffn_gate", inner, d, 0, mlp_bias),
        ("mlp.up_proj", "ffn_up", inner, d, 0, mlp_bias),
        ("mlp.down_proj", "ffn_down", d, inner, 0, mlp_bias),
    ]
    if what.fused:
        matrices = [
            ("self_attn.qkv_proj", "attn_qkv", q_width + 2 * kv_width, d, 0, False),
            ("self_attn.o_proj", "attn_output", d, q_width, 0, False),
            ("mlp.gate_up_proj", "ffn_up", 2 * inner, d, 0, False),
            ("mlp.down_proj", "ffn_down", d, inner, 0, False),
        ]
    vectors = [("input_layernorm", "attn_norm", d), ("post_attention_layernorm", "ffn_norm", d)]
    if what.qk_norm:
        vectors += [
            ("self_attn.q_norm", "attn_q_norm", head_dim),
            ("self_attn.k_norm", "attn_k_norm", head_dim),
        ]
    sources = {"model.embed_tokens.weight": TensorSource("token_embd.weight", (vocab, d))}
    for layer in range(config["num_hidden_layers"]):
        hf, gg = f"model.layers.{layer}.", f"blk.{layer}."
        if gg + "attn_norm.weight" not in file.tensors:  # before a hostile layer count costs memory
            raise ValueError(f"[convert] {gg}attn_norm.weight: expected this tensor, got a file without it")
        for hf_name, gguf_name, length in vectors:
            sources[f"{hf}{hf_name}.weight"] = TensorSource(f"{gg}{gguf_name}.weight", (length,))
        for hf_name, gguf_name, rows, columns, pairing, bias in matrices:
            sources[f"{hf}{hf_name}.weight"] = TensorSource(
                f"{gg}{gguf_name}.weight", (rows, columns), pairing
            )
            if bias:
                sources[f"{hf}{hf_name}.bias"] = TensorSource(f"{gg}{gguf_name}.bias", (rows,), pairing)
    sources["model.norm.weight"] = TensorSource("output_norm.weight", (d,))
    if not config["tie_word_embeddings"]:
        sources["lm_head.weight"] = TensorSource("output.weight", (vocab, d))
    return sources


def _check_source(file: GGUFFile, hf_name: str, source: TensorSource) -> None:
    shape = _shape_of(file, source.gguf_name)
    if shape != source.shape:
        expected = f"shape {list(source.shape)} for {hf_name}"
        raise ValueError(f"[convert] {source.gguf_name}: expected {expected}, got {list(shape)}")


def _shape_of(file: GGUFFile, name: str) -> tuple[int, ...]:
    if name not in file.tensors:
        raise ValueError(f"[convert] {name}: expected this tensor, got a file without it")
    return file.tensors[name].shape


def _short_float32(value: float) -> float:
    """The shortest decimal that reads back as the same float32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def _dtype(file: GGUFFile) -> str:
    """The type of the matrices as they will be written, where they all agree."""
    kinds = {tensor.quant.name for tensor in file.tensors.values() if len(tensor.shape) > 1}
    return {frozenset(["F16"]): "float16", frozenset(["BF16"]): "bfloat16"}.get(frozenset(kinds), "float32")

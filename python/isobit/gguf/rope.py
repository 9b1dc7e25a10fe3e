# SPDX-License-Identifier: Apache-2.0
"""Finds the Hugging Face spelling of a rotary scaling that a GGUF gives as keys or as a tensor of factors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isobit.gguf.reader import GGUFFile

# The published Llama 3.1, 3.2 and 3.3 models. A GGUF stores only the factors that come out of these numbers,
# so they are recognised rather than read.
_LLAMA3: list[dict[str, float]] = [
    {
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    for factor in (8.0, 16.0, 32.0)
]


def rope_scaling(
    file: GGUFFile, arch: str, head_dim: int, theta: float, positions: int
) -> dict[str, Any] | None:
    """The `rope_scaling` entry of config.json, or None.

    ValueError when it has no certain Hugging Face equivalent.
    """
    kind = file.get(f"{arch}.rope.scaling.type", "string", "none")
    original = file.get(f"{arch}.rope.scaling.original_context_length", "integer", None)
    if "rope_factors_long.weight" in file.tensors or "rope_factors_short.weight" in file.tensors:
        return _longrope(file, arch, original, positions)
    if "rope_freqs.weight" in file.tensors:
        if kind != "none":
            raise ValueError(
                f"[convert] {arch}.rope.scaling.type: expected none beside rope_freqs.weight, got {kind}"
            )
        return _llama3(_vector(file, "rope_freqs.weight"), head_dim, theta)
    if kind == "none":
        return None
    if kind in ("linear", "yarn"):
        factor = float(file.get(f"{arch}.rope.scaling.factor", "number"))
        return {"rope_type": kind, "factor": factor} | (_yarn(file, arch, original) if kind == "yarn" else {})
    raise ValueError(
        f"[convert] {arch}.rope.scaling.type: expected none, linear, yarn or longrope, got {kind}"
    )


def _yarn(file: GGUFFile, arch: str, original: int | None) -> dict[str, Any]:
    if original is None:
        raise ValueError(
            f"[convert] {arch}.rope.scaling.original_context_length: expected it with yarn, got nothing"
        )
    scaling: dict[str, Any] = {
        "original_max_position_embeddings": original,
    }
    for name, default in (("yarn_beta_fast", 32.0), ("yarn_beta_slow", 1.0)):
        scaling[name.removeprefix("yarn_")] = float(
            file.get(f"{arch}.rope.scaling.{name}", "number", default)
        )
    for name, neutral in (("attn_factor", 1.0), ("yarn_ext_factor", 1.0), ("yarn_attn_factor", 1.0)):
        value = file.get(f"{arch}.rope.scaling.{name}", "number", neutral)
        if value != neutral:
            raise ValueError(
                f"[convert] {arch}.rope.scaling.{name}: expected {neutral} with yarn, got {value}"
            )
    return scaling


def _longrope(file: GGUFFile, arch: str, original: int | None, positions: int) -> dict[str, Any]:
    if original is None:
        raise ValueError(
            f"[convert] {arch}.rope.scaling.original_context_length: expected it with longrope, got nothing"
        )
    scale = positions / original
    default = 1.0 if scale <= 1.0 else math.sqrt(1.0 + math.log(scale) / math.log(original))
    attention = file.get(f"{arch}.rope.scaling.attn_factor", "number", default)
    if not math.isclose(attention, default, rel_tol=1e-5):
        raise ValueError(f"[convert] {arch}.rope.scaling.attn_factor: expected {default}, got {attention}")
    return {
        "rope_type": "longrope",
        "short_factor": [float(v) for v in _vector(file, "rope_factors_short.weight")],
        "long_factor": [float(v) for v in _vector(file, "rope_factors_long.weight")],
    }


def _llama3(factors: np.ndarray, head_dim: int, theta: float) -> dict[str, Any]:
    for scaling in _LLAMA3:
        expected = _llama3_factors(head_dim, theta, scaling)
        if expected.shape == factors.shape and np.allclose(expected, factors, rtol=1e-4, atol=0.0):
            return {"rope_type": "llama3", **scaling}
    known = ", ".join(str(scaling["factor"]) for scaling in _LLAMA3)
    raise ValueError(
        f"[convert] rope_freqs.weight: expected the scaling of a Llama 3 with factor {known}, got another one"
    )


def _llama3_factors(head_dim: int, theta: float, scaling: dict[str, float]) -> np.ndarray:
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    wavelength = 2.0 * math.pi * theta ** (np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    turns = scaling["original_max_position_embeddings"] / wavelength
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return 1.0 / ((1.0 - smooth) / scaling["factor"] + smooth)


def _vector(file: GGUFFile, name: str) -> np.ndarray:
    tensor = file.tensors.get(name)
    if tensor is None or tensor.quant.name != "F32" or len(tensor.shape) != 1:
        raise ValueError(f"[convert] {name}: expected an F32 vector, got {tensor and tensor.quant.name}")
    return np.frombuffer(file.raw(tensor), dtype="<f4").astype(np.float64)

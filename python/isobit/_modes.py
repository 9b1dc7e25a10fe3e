# SPDX-License-Identifier: Apache-2.0
"""What a user may ask of the arithmetic: numeric_mode, numeric_profile, device and weight_format.

identical: the same bits on every machine. It is what the code always computes, so "deterministic" and "fast"
run the same code and promise less.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

from . import _core, lowbit
from ._errors import NumericProfileSpeedWarning

MODES = ("identical", "deterministic", "fast")
PROFILES = ("fp32_v1", "fixed15_v1", "int8x32_v1")
_REJECTED_PROFILES = {
    "int8_v1": "one 8-bit scale a row on both operands raises perplexity by 32.2 %; see int8x32_v1",
    "fixed15_int8_attention_v1": "8-bit attention raises perplexity by 28.9 %; see fixed15_v1",
}
_LATER_DEVICES = ("cuda", "opencl", "gpu")
# Instruction sets whose products of codes are plain multiplications, one at a time.
_WITHOUT_INTEGER_DOTS = ("scalar",)

_chosen: dict[str, str] = {}
_warned: set[str] = set()


def _check_mode(where: str, mode: object) -> str:
    if not isinstance(mode, str):
        raise TypeError(f"[{where}] numeric_mode: expected a string, got {type(mode).__name__}")
    if mode not in MODES:
        raise ValueError(f"[{where}] numeric_mode: expected one of {', '.join(MODES)}, got {mode!r}")
    return mode


def _check_profile(where: str, name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"[{where}] numeric_profile: expected a string, got {type(name).__name__}")
    if name in _REJECTED_PROFILES:
        raise NotImplementedError(
            f"[{where}] numeric_profile: {name} was rejected: {_REJECTED_PROFILES[name]}"
        )
    if name not in PROFILES:
        raise ValueError(f"[{where}] numeric_profile: expected one of {', '.join(PROFILES)}, got {name!r}")
    return name


def numeric_mode() -> str:
    """The mode of objects that name none.

    set_numeric_mode's, else that of the environment variable ISOBIT_NUMERIC_MODE, else "identical".
    ValueError when the environment names an unknown one.
    """
    if "mode" not in _chosen:
        _chosen["mode"] = _check_mode(
            "ISOBIT_NUMERIC_MODE", os.environ.get("ISOBIT_NUMERIC_MODE", "identical")
        )
    return _chosen["mode"]


def set_numeric_mode(mode: str) -> None:
    """Sets the process default: "identical", "deterministic" or "fast". ValueError for another name."""
    _chosen["mode"] = _check_mode("set_numeric_mode", mode)


def numeric_profiles() -> tuple[str, ...]:
    """The numeric profiles that can be chosen.

    fp32_v1: float32 throughout. fixed15_v1: projections, head and attention scores are exact sums of 15-bit
    codes with one exponent a row. int8x32_v1: projections and head are products of 8-bit codes with a scale
    for each 32. All else is float32 in each of them. The last two are for transformers and inference.
    """
    return PROFILES


def numeric_profile() -> str:
    """The profile of objects that name none.

    set_numeric_profile's, else that of the environment variable ISOBIT_NUMERIC_PROFILE, else "fp32_v1".
    ValueError when the environment names an unknown one, NotImplementedError for one that was rejected.
    """
    if "profile" not in _chosen:
        name = os.environ.get("ISOBIT_NUMERIC_PROFILE", "fp32_v1")
        _chosen["profile"] = _check_profile("ISOBIT_NUMERIC_PROFILE", name)
    return _chosen["profile"]


def set_numeric_profile(name: str) -> None:
    """Sets the process default. ValueError for an unknown name, NotImplementedError for a rejected one."""
    _chosen["profile"] = _check_profile("set_numeric_profile", name)


def resolve_mode(where: str, mode: str | None) -> str:
    return numeric_mode() if mode is None else _check_mode(where, mode)


def resolve_profile(where: str, name: str | None, available: tuple[str, ...] = PROFILES) -> str:
    """The profile asked for, else the process default; NotImplementedError where the class has no such."""
    profile = numeric_profile() if name is None else _check_profile(where, name)
    if profile not in available:
        raise NotImplementedError(
            f"[{where}] numeric_profile: expected {' or '.join(available)}, got {profile}, "
            "which is provided for transformer blocks and models of them"
        )
    return profile


def warn_if_slow(where: str, profile: str) -> None:
    """NumericProfileSpeedWarning, once a process for each profile, at the line that called the caller."""
    isa = _core.active_isa()
    if profile == "fp32_v1" or profile in _warned or isa not in _WITHOUT_INTEGER_DOTS:
        return
    _warned.add(profile)
    message = (
        f"[{where}] numeric_profile: {profile} is slow on the instruction set in use, {isa}, "
        "which has no integer dot products; the bits are the same"
    )
    warnings.warn(message, NumericProfileSpeedWarning, stacklevel=3)


def resolve_device(where: str, device: str) -> str:
    if device in _LATER_DEVICES:
        raise NotImplementedError(f"[{where}] device: {device} is not provided; available: auto, cpu")
    if device not in ("auto", "cpu"):
        raise ValueError(f"[{where}] device: expected 'auto' or 'cpu', got {device!r}")
    return "cpu"


def check_weight_format(where: str, weight_format: object) -> None:
    if weight_format not in lowbit.FORMATS:
        raise ValueError(
            f"[{where}] weight_format: expected one of {', '.join(lowbit.FORMATS)}, got {weight_format!r}"
        )


def stored_format(where: str, weights: Mapping[str, Any], asked: str | None) -> str:
    """The format to keep a block's matrices in: the one asked for, else the one that all of them come in."""
    given = lowbit.format_of(weights)
    if asked is None:
        for name, value in weights.items():
            if given != "float32" and name.endswith("proj.weight") and not lowbit.is_packed(value):
                raise ValueError(
                    f"[{where}] weights: expected {name!r} in {given} as the others are, or weight_format="
                    f"{given!r}, which rounds it, got an array"
                )
        return given
    check_weight_format(where, asked)
    if given not in ("float32", asked):
        raise ValueError(f"[{where}] weight_format: expected None or {given!r}, as packed, got {asked!r}")
    return asked


def with_params(where: str, current: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """A block's constructor arguments after set_params(**params). Packed weights bring their format."""
    for name in params:
        if name not in current:
            raise ValueError(f"[{where}] set_params: expected one of {', '.join(current)}, got {name!r}")
    packed = params.get("weights")
    if packed is not None and hasattr(packed, "items") and lowbit.format_of(packed) != "float32":
        current = {**current, "weight_format": None}
    return {**current, **params}

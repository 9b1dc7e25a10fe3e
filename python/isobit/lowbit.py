# SPDX-License-Identifier: Apache-2.0
"""Weights in fewer bits: packing dicts of arrays and widening them back, exactly.

A block built from packed weights computes, bit for bit, what the float32 block computes on the widened ones.
bfloat16: rounded to nearest even. int8: codes in -127..127 times one power of two a row, 2^(floor(log2
max|row|) - 6). Subnormals are kept. Values that are not finite are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _core
from .array import Array

__all__ = [
    "FORMATS",
    "BF16Weight",
    "Int8Weight",
    "format_of",
    "is_packed",
    "materialize",
    "materialize_one",
    "pack",
    "pack_one",
    "unpack",
    "widen_bf16",
]

FORMATS = ("float32", "bfloat16", "int8")


class BF16Weight:
    """A matrix as bfloat16 bits, uint16 (rows, k).

    TypeError for another dtype, ValueError for another rank.
    """

    format = "bfloat16"

    def __init__(self, bits: Any) -> None:
        self.bits = Array.from_buffer(bits)
        if self.bits.dtype != "u2":
            raise TypeError(f"[BF16Weight] bits: expected dtype uint16, got {self.bits.dtype}")
        if len(self.bits.shape) != 2:
            raise ValueError(f"[BF16Weight] bits: expected rank 2, got shape {self.bits.shape}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape

    def __repr__(self) -> str:
        return f"BF16Weight(shape={self.shape})"


class Int8Weight:
    """A matrix as int8 codes (rows, k) and an int32 exponent for each row: values are codes * 2^exponent.

    TypeError for other dtypes; ValueError for other shapes, a code of -128, or a value that is no float32.
    """

    format = "int8"

    def __init__(self, codes: Any, exponents: Any) -> None:
        _core.widen_int8(codes, exponents, "Int8Weight", "")
        self.codes = Array.from_buffer(codes)
        self.exponents = Array.from_buffer(exponents)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.codes.shape

    def __repr__(self) -> str:
        return f"Int8Weight(shape={self.shape})"


Packed = BF16Weight | Int8Weight


def _check_format(fmt: object) -> None:
    if fmt not in FORMATS:
        raise ValueError(f"[lowbit] fmt: expected one of {', '.join(FORMATS)}, got {fmt!r}")


def _check_dict(weights: object) -> None:
    if not isinstance(weights, Mapping):
        raise TypeError(f"[lowbit] weights: expected a dict of arrays, got {type(weights).__name__}")


def is_packed(value: object) -> bool:
    """Whether it is a BF16Weight or an Int8Weight."""
    return isinstance(value, (BF16Weight, Int8Weight))


def format_of(weights: Mapping[str, Any]) -> str:
    """The one format of the packed weights of a dict; "float32" where none is packed.

    ValueError for two formats in one dict.
    """
    if not hasattr(weights, "items"):
        _check_dict(weights)
    first: tuple[str, str] | None = None
    for name, value in weights.items():
        if not isinstance(value, (BF16Weight, Int8Weight)):
            continue
        if first is None:
            first = (name, value.format)
        elif value.format != first[1]:
            raise ValueError(
                f"[lowbit] {name!r}: expected {first[1]}, the format of {first[0]!r}, got {value.format}"
            )
    return "float32" if first is None else first[1]


def pack_one(value: Any, fmt: str, name: str = "value") -> Any:
    """A float32 matrix as a BF16Weight or an Int8Weight; "float32" returns it as an Array."""
    _check_format(fmt)
    array = value if isinstance(value, Array) else Array.from_buffer(value)
    if array.dtype != "f4":
        raise TypeError(f"[lowbit] {name!r}: expected dtype float32, got {array.dtype}")
    if fmt == "float32":
        return array
    if len(array.shape) != 2:
        raise ValueError(f"[lowbit] {name!r}: expected rank 2, got shape {array.shape}")
    if fmt == "bfloat16":
        return BF16Weight(_core.round_to_bf16(array, "lowbit", f"'{name}'"))
    return Int8Weight(*_core.quantize_int8(array, "lowbit", f"'{name}'"))


def pack(weights: Mapping[str, Any], fmt: str) -> dict[str, Any]:
    """A dict with every 2-D float32 array packed; others are passed on as Arrays. Non-float32 is refused."""
    _check_format(fmt)
    _check_dict(weights)
    packed: dict[str, Any] = {}
    for name, value in weights.items():
        if is_packed(value):
            raise TypeError(f"[lowbit] {name!r}: expected a float32 array, got {type(value).__name__}")
        array = pack_one(value, "float32", name)
        packed[name] = pack_one(array, fmt, name) if len(array.shape) == 2 else array
    return packed


def widen_bf16(bits: Any) -> Array:
    """bfloat16 bits (uint16, any shape) -> float32, exactly."""
    return _core.widen_bf16(bits, "lowbit")


def materialize_one(value: Any, name: str = "value") -> Any:
    """The float32 values of a packed weight; anything else as it is."""
    if isinstance(value, BF16Weight):
        return widen_bf16(value.bits)
    if isinstance(value, Int8Weight):
        return _core.widen_int8(value.codes, value.exponents, "lowbit", f"'{name}'")
    return value


def materialize(weights: Mapping[str, Any]) -> dict[str, Any]:
    """A dict with every packed weight widened; anything else as it is. ValueError for mixed formats."""
    format_of(weights)
    return {name: materialize_one(value, name) for name, value in weights.items()}


def unpack(weights: Mapping[str, Any]) -> dict[str, Array]:
    """A dict of float32 Arrays. Non-float32 is refused."""
    return {name: pack_one(value, "float32", name) for name, value in materialize(weights).items()}

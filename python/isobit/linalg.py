# SPDX-License-Identifier: Apache-2.0
"""Matrix products with the bits of the contract, and matrices in fewer bits."""

from __future__ import annotations

from typing import Any

from . import _core, lowbit
from .array import Array

__all__ = [
    "dequantize_int8",
    "dequantize_int15",
    "from_bf16",
    "matmul",
    "matmul_int15",
    "quantize_int8",
    "quantize_int15",
    "to_bf16",
]


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, *, out: Any = None) -> Any:
    """a @ b of two matrices, each transposed first where that is asked for: float32 (m, n).

    a, b: float32 arrays of rank 2, or a lowbit.BF16Weight or Int8Weight, whose widened values count. Every
    element is one DOT of the contract, so it does not depend on the other rows and columns. out: a writable
    row-major float32 array (m, n), which is filled and returned. TypeError for another dtype, ValueError for
    shapes that do not fit or a value, given or computed, that is not finite; out is then as it was.
    """
    return _core.matmul(
        lowbit.materialize_one(a, "a"),
        lowbit.materialize_one(b, "b"),
        bool(transpose_a),
        bool(transpose_b),
        out,
    )


def to_bf16(x: Any) -> Array:
    """float32 of any shape -> bfloat16 bits (uint16), rounded to nearest even; subnormals are kept.

    ValueError for a value that is not finite, or not in bfloat16.
    """
    return _core.round_to_bf16(x, "linalg.to_bf16", "x")


def from_bf16(bits: Any) -> Array:
    """bfloat16 bits (uint16) of any shape -> float32, exactly, NaN and infinities included."""
    return _core.widen_bf16(bits, "linalg.from_bf16")


def quantize_int8(x: Any) -> tuple[Array, Array]:
    """float32 (rows, k) -> codes (int8, rows, k) and exponents (int32, rows): x is about codes * 2^exponent.

    exponent = floor(log2 max|row|) - 6, or 0 for a row of zeros; codes are rounded to nearest even and
    limited to -127..127. ValueError for a value that is not finite.
    """
    return _core.quantize_int8(x, "linalg.quantize_int8", "x")


def dequantize_int8(codes: Any, exponents: Any) -> Array:
    """codes * 2^exponent of each row, float32, exactly. ValueError for codes or exponents that are none."""
    return _core.widen_int8(codes, exponents, "linalg.dequantize_int8", "")


def quantize_int15(x: Any) -> tuple[Array, Array, Array]:
    """float32 (rows, k) -> hi, lo (int8, rows, k) and exponents (int32, rows).

    x is about (128 * hi + lo) * 2^exponent with lo in 0..127: exponent = floor(log2 max|row|) - 13, or 0 for
    a row of zeros; codes are rounded to nearest even and limited to -16383..16383. ValueError for a value
    that is not finite.
    """
    return _core.quantize_int15(x)


def dequantize_int15(hi: Any, lo: Any, exponents: Any) -> Array:
    """(128 * hi + lo) * 2^exponent of each row, float32, exactly. ValueError for what is no such code."""
    return _core.dequantize_int15(hi, lo, exponents)


def matmul_int15(a: Any, b: Any, *, out: Any = None) -> Any:
    """a @ b.T by exact sums of 15-bit codes, as the profile fixed15_v1 multiplies: float32 (m, n).

    a (m, k), b (n, k): each a float32 matrix or the triple that quantize_int15 gives. Of every element the
    integer sum is rounded once to float32 and once more when the exponents are applied. out: a writable
    row-major float32 array (m, n), which is filled and returned. ValueError for k > 65536, shapes or codes
    that do not fit, or a value, given or computed, that is not finite; out is then as it was.
    """
    return _core.matmul_int15(a, b, out)

# SPDX-License-Identifier: Apache-2.0
"""isobit.Array, what isobit returns: shared with NumPy, PyTorch or memoryview without a copy."""

from __future__ import annotations

from typing import Any

from ._core import Array

__all__ = ["Array"]


def _rebuild(data: Any, dtype: str, shape: tuple[int, ...], order: str) -> Array:
    """Unpickles an Array; `data` holds the elements in memory order."""
    return Array.frombytes(data, dtype, shape, order)

# SPDX-License-Identifier: Apache-2.0
"""GGUF files as a source of checkpoints. Needs the `gguf` extra: `pip install 'isobit[gguf]'`."""

try:
    import gguf as _gguf  # noqa: F401
    import numpy as _numpy  # noqa: F401
except ImportError as error:
    raise ImportError(f"[convert] {error.name}: not installed (pip install 'isobit[gguf]')") from error

from isobit.gguf.conversion import convert

__all__ = ["convert"]

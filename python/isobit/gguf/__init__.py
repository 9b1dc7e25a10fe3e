# SPDX-License-Identifier: Apache-2.0
"""GGUF files as a source of checkpoints.

Needs the `gguf` extra (`pip install isobit[gguf]`), which brings NumPy.
"""

from isobit.gguf.convert import convert

__all__ = ["convert"]

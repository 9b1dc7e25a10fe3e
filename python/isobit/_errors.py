# SPDX-License-Identifier: Apache-2.0
"""The exceptions and warnings with a name of their own; the other exceptions are ValueError, TypeError,
FileNotFoundError, NotImplementedError and MemoryError."""

from __future__ import annotations


class UnsupportedModel(ValueError):  # noqa: N818 - the documented name
    """A checkpoint whose family or options are not implemented, or that lacks a tensor."""


class NonFiniteError(ValueError):
    """A non-finite value appeared inside a computation. The state of the call is as before the call.

    Names the smallest (position, layer, stage) of the sequence, however it was cut into calls.
    """

    def __init__(self, message: str, position: int, layer: int, stage: str) -> None:
        super().__init__(message, position, layer, stage)
        self.position = position  #: absolute position in the sequence
        self.layer = layer  #: layer index; the number of layers for the final norm and the head
        self.stage = stage  #: for example "attention scores"

    def __str__(self) -> str:
        return str(self.args[0])


class NotProvidedError(NotImplementedError, AttributeError):
    """A name of the interface that this version does not provide; for hasattr, one that is not there."""


class NumericProfileSpeedWarning(UserWarning):
    """A numeric profile is slow on the instruction set in use. The bits are the same."""

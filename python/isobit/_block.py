# SPDX-License-Identifier: Apache-2.0
"""What the classes that compute have in common in Python. All that they say of themselves is read only: the
compiled half computes with what it was given, whatever is written beside it."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from . import _modes

BlockT = TypeVar("BlockT", bound="Block")


class Computes:
    """Where and how an object computes."""

    _numeric_mode: str | None = None

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def numeric_mode(self) -> str | None:
        """The mode that was asked for; None for the process default."""
        return self._numeric_mode

    def numeric_mode_used(self) -> str:
        """The mode of the code that computes: "identical", whichever was asked for."""
        return "identical"

    def vendor_used(self) -> str:
        """Where it computes: "cpu"."""
        return "cpu"


def option(name: str) -> Any:
    """An attribute for a constructor argument, with its default filled in."""

    def read(block: Any) -> Any:
        return block._options()[name]

    return property(read)


class Block(Computes):
    """Beside a compiled block: its arguments, by name and as a whole."""

    def _check_choice(self, numeric_mode: str | None, device: str) -> None:
        name = type(self).__name__
        _modes.resolve_mode(name, numeric_mode)
        _modes.resolve_device(name, device)

    def backward(self, x: Any, grad_output: Any) -> NoReturn:
        """Not provided: NotImplementedError."""
        raise NotImplementedError(f"[{type(self).__name__}] backward: not provided")

    def get_params(self) -> dict[str, Any]:
        """Every constructor argument by name, with copies of the weights."""
        block: Any = self
        chosen = {
            "weight_format": block.weight_format,
            "numeric_profile": block.numeric_profile,
            "numeric_mode": block.numeric_mode,
            "device": block.device,
        }
        return {"weights": block.parameters(), **block._options(), **chosen}

    def set_params(self: BlockT, **params: Any) -> BlockT:
        """Replaces constructor arguments by name and returns self. The block is as before if one is refused.

        A session that is open keeps the weights it was opened with.
        """
        block: Any = self
        wanted = _modes.with_params(type(self).__name__, self.get_params(), params)
        # A subclass of the user's may take other arguments than the class of this package that it extends.
        ours = next(cls for cls in type(self).__mro__ if cls.__module__.startswith("isobit."))
        replacement: Any = ours(**wanted)
        block._replace(replacement)
        self._numeric_mode = replacement.numeric_mode
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.get_params())


def _rebuild(cls: type, params: dict[str, Any]) -> Any:
    """Unpickles a block."""
    return cls(**params)

# SPDX-License-Identifier: Apache-2.0
"""Mamba blocks of versions 1, 2 and 3, their states and their decode sessions.

A block computes out = x + mixer(norm(x)). All three are defined by their recurrence over single tokens, so
a prompt in one call, the same prompt cut anywhere, and one token at a time give the same bits.

weight_format: how the projections are kept, "float32", "bfloat16" or "int8" (see isobit.lowbit); None keeps
float32, or the format in which lowbit.pack left them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from . import _core, _modes, lowbit
from ._core import Mamba1State, Mamba2State, Mamba3State

__all__ = [
    "Mamba1Block",
    "Mamba1BlockInference",
    "Mamba1DecodeSession",
    "Mamba1State",
    "Mamba2Block",
    "Mamba2BlockInference",
    "Mamba2DecodeSession",
    "Mamba2State",
    "Mamba3Block",
    "Mamba3BlockInference",
    "Mamba3DecodeSession",
    "Mamba3State",
]


class Mamba1DecodeSession(_core.MambaDecodeSession):
    """A decode session of a Mamba1Block."""


class Mamba2DecodeSession(_core.MambaDecodeSession):
    """A decode session of a Mamba2Block."""


class Mamba3DecodeSession(_core.MambaDecodeSession):
    """A decode session of a Mamba3Block."""


_SESSIONS = {1: Mamba1DecodeSession, 2: Mamba2DecodeSession, 3: Mamba3DecodeSession}

Self = TypeVar("Self", bound="_MambaBlock")


class _MambaBlock(_core.MambaBlock):
    """What the three versions share."""

    def _build(
        self,
        weights: Mapping[str, Any],
        version: int,
        options: dict[str, Any],
        weight_format: str | None,
    ) -> None:
        if hasattr(weights, "items"):
            weight_format = _modes.stored_format(type(self).__name__, weights, weight_format)
            options = {**options, "weight_format": weight_format}
            weights = lowbit.materialize(weights)
        _core.MambaBlock.__init__(self, weights, version, options)
        self._read_back()

    def _choose(self, numeric_profile: str | None, numeric_mode: str | None, device: str) -> None:
        name = type(self).__name__
        profile = _modes.resolve_profile(name, numeric_profile, ("fp32_v1",))
        _modes.resolve_mode(name, numeric_mode)
        self.device = _modes.resolve_device(name, device)
        self.numeric_profile = profile
        self.numeric_mode = numeric_mode

    def _read_back(self) -> None:
        """Sets one attribute for each option and each size that the weights have."""
        for name, value in {**self._options(), **self._sizes()}.items():
            setattr(self, name, value)

    def decode_session(self, state: Any) -> _core.MambaDecodeSession:
        """Opens a session on a state, which belongs to it until it is closed."""
        return _SESSIONS[self._version](self, state)

    def backward(self, x: Any, grad_output: Any) -> NoReturn:
        """Not provided: NotImplementedError."""
        raise NotImplementedError(f"[{type(self).__name__}] backward: not provided")

    def get_params(self) -> dict[str, Any]:
        """Every constructor argument by name, with copies of the weights."""
        chosen = {
            "weight_format": self.weight_format,
            "numeric_profile": self.numeric_profile,
            "numeric_mode": self.numeric_mode,
            "device": self.device,
        }
        return {"weights": self.parameters(), **self._options(), **chosen}

    def set_params(self: Self, **params: Any) -> Self:
        """Replaces constructor arguments by name and returns self. The block is as before if one is refused.

        A session that is open keeps the weights it was opened with.
        """
        wanted = _modes.with_params(type(self).__name__, self.get_params(), params)
        replacement = type(self)(**wanted)
        self._replace(replacement)
        self._choose(replacement.numeric_profile, replacement.numeric_mode, replacement.device)
        self._read_back()
        return self

    def numeric_mode_used(self) -> str:
        """The mode of the code that computes: "identical", whichever was asked for."""
        return "identical"

    def vendor_used(self) -> str:
        """Where it computes: "cpu"."""
        return "cpu"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.get_params())

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self._sizes().items() if value)
        return f"{type(self).__name__}({sizes})"


class Mamba1Block(_MambaBlock):
    """A Mamba 1 block in float32. Sizes: D, E channels, N states, R of dt, K taps.

    weights: a mapping of float32 arrays, which are copied: norm.weight (D), in_proj.weight (2E, D),
    conv1d.weight (E, 1, K) or (E, K), x_proj.weight (R + 2N, E), dt_proj.weight (E, R), dt_proj.bias (E),
    A_log (E, N), D (E), out_proj.weight (D, E), and where the model has them conv1d.bias (E), in_proj.bias
    (2E), out_proj.bias (D).

    inner_norm: dt, B and C are divided by their root mean square behind x_proj, with inner_norm_eps, as in
    Falcon Mamba. ValueError or TypeError for weights and options that do not fit, naming them.
    """

    def __init__(
        self,
        weights: Mapping[str, Any],
        *,
        norm_eps: float = 1e-5,
        inner_norm: bool = False,
        inner_norm_eps: float = 1e-6,
        weight_format: str | None = None,
        numeric_profile: str | None = None,
        numeric_mode: str | None = None,
        device: str = "auto",
    ) -> None:
        self._choose(numeric_profile, numeric_mode, device)
        self._build(
            weights,
            1,
            {"norm_eps": norm_eps, "inner_norm": inner_norm, "inner_norm_eps": inner_norm_eps},
            weight_format,
        )


class Mamba2Block(_MambaBlock):
    """A Mamba 2 block in float32. Sizes: D, E channels, H heads, N states, K taps.

    weights: a mapping of float32 arrays, which are copied, with C = E + 2 * n_groups * N: block_norm.weight
    (D), in_proj.weight (E + C + H, D) with rows z, x, B, C, dt, conv1d.weight (C, 1, K) or (C, K), dt_bias
    (H), A_log (H), D (H), out_proj.weight (D, E), and where the model has them norm.weight (E) of the gated
    norm, conv1d.bias (C), in_proj.bias, out_proj.bias.

    dt_limit: the step is limited to this pair in prefill and decode alike (other engines limit it in prefill
    only). grouped_norm: the gated norm runs over each group's channels, as checkpoints were trained; False:
    over all at once, as transformers before 5.6 computed it. norm_before_gate: norm(y) * silu(z) instead of
    norm(y * silu(z)). ValueError or TypeError for weights and options that do not fit, naming them.
    """

    def __init__(
        self,
        weights: Mapping[str, Any],
        *,
        dt_limit: tuple[float, float] = (0.0, float("inf")),
        n_groups: int = 1,
        norm_eps: float = 1e-5,
        gated_norm_eps: float = 1e-5,
        norm_before_gate: bool = False,
        grouped_norm: bool = True,
        weight_format: str | None = None,
        numeric_profile: str | None = None,
        numeric_mode: str | None = None,
        device: str = "auto",
    ) -> None:
        self._choose(numeric_profile, numeric_mode, device)
        self._build(
            weights,
            2,
            {
                "dt_limit": dt_limit,
                "n_groups": n_groups,
                "norm_eps": norm_eps,
                "gated_norm_eps": gated_norm_eps,
                "norm_before_gate": norm_before_gate,
                "grouped_norm": grouped_norm,
            },
            weight_format,
        )


class Mamba3Block(_MambaBlock):
    """A Mamba 3 block in float32. Sizes: D, E channels, H heads, N states, S angles.

    weights: a mapping of float32 arrays, which are copied: block_norm.weight (D), in_proj.weight with rows
    z (E), x (E), B, C (rank * groups * N each), dt (H), A (H), trap (H), angles (S), dt_bias (H),
    B_norm.weight (N), C_norm.weight (N), B_bias and C_bias (H, N) or (H, rank, N), D (H), out_proj.weight
    (D, E). norm.weight (E) adds an output norm over each head before the gate. mimo_x, mimo_z and mimo_o
    (H, rank, E / H) make it MIMO; its rotated pairs are then (j, j + N/2) instead of (2j, 2j + 1).

    rope_fraction: the part of the states that turns, usually 0.5 or 1.0. a_function: "heavy_tail" (1 + x,
    or 1 / (1 - x) below 0; the mamba_ssm package since June 2026) or "softplus" (before): weights do not
    tell which they were trained with. a_floor: the smallest decay rate. ValueError or TypeError for weights
    and options that do not fit, naming them.
    """

    def __init__(
        self,
        weights: Mapping[str, Any],
        *,
        rope_fraction: float = 0.5,
        a_function: str = "heavy_tail",
        a_floor: float = 1e-4,
        norm_eps: float = 1e-5,
        weight_format: str | None = None,
        numeric_profile: str | None = None,
        numeric_mode: str | None = None,
        device: str = "auto",
    ) -> None:
        self._choose(numeric_profile, numeric_mode, device)
        self._build(
            weights,
            3,
            {
                "rope_fraction": rope_fraction,
                "a_function": a_function,
                "a_floor": a_floor,
                "norm_eps": norm_eps,
            },
            weight_format,
        )


class Mamba1BlockInference(Mamba1Block):
    """Mamba1Block on the CPU, forward only: the same constructor, methods and bits."""


class Mamba2BlockInference(Mamba2Block):
    """Mamba2Block on the CPU, forward only: the same constructor, methods and bits."""


class Mamba3BlockInference(Mamba3Block):
    """Mamba3Block on the CPU, forward only: the same constructor, methods and bits."""


_BLOCKS: dict[int, type[_MambaBlock]] = {1: Mamba1Block, 2: Mamba2Block, 3: Mamba3Block}


def _rebuild(cls: type[_MambaBlock], params: dict[str, Any]) -> _MambaBlock:
    """Unpickles a block."""
    return cls(**params)


def _from_compiled(compiled: _core.MambaBlock) -> _MambaBlock:
    """A block that shares the weights of a compiled one."""
    cls = _BLOCKS[compiled._version]
    block = cls.__new__(cls)
    _core.MambaBlock.__init__(block, compiled)
    block._choose(None, None, "cpu")
    block._read_back()
    return block

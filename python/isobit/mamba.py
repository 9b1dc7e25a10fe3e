# SPDX-License-Identifier: Apache-2.0
"""Mamba blocks of versions 1, 2 and 3, their states and their decode sessions.

A block computes out = x + mixer(norm(x)). All three are defined by their recurrence over single tokens, so
a prompt in one call, the same prompt cut anywhere, and one token at a time give the same bits.

weight_format: how the projections are kept, "float32", "bfloat16" or "int8" (see isobit.lowbit); None keeps
float32, or the format in which lowbit.pack left them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _core, _modes, lowbit
from ._block import Block, option
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


def _size(name: str) -> Any:
    """An attribute for a size that the weights have."""

    def read(block: Any) -> Any:
        return block._sizes()[name]

    return property(read)


class _MambaBlock(Block, _core.MambaBlock):
    """What the three versions share."""

    d_model: int = _size("d_model")
    d_inner: int = _size("d_inner")
    d_state: int = _size("d_state")
    d_conv: int = _size("d_conv")
    n_heads: int = _size("n_heads")
    head_dim: int = _size("head_dim")
    mimo_rank: int = _size("mimo_rank")
    n_angles: int = _size("n_angles")
    norm_eps: float = option("norm_eps")

    def _build(
        self,
        version: int,
        weights: Mapping[str, Any],
        options: dict[str, Any],
        weight_format: str | None,
        choice: tuple[str | None, str | None, str],
    ) -> None:
        name, (numeric_profile, numeric_mode, device) = type(self).__name__, choice
        _modes.resolve_profile(name, numeric_profile, ("fp32_v1",))
        self._check_choice(numeric_mode, device)
        if hasattr(weights, "items"):
            options = {**options, "weight_format": _modes.stored_format(name, weights, weight_format)}
            weights = lowbit.materialize(weights)
        _core.MambaBlock.__init__(self, weights, version, options)
        self._numeric_mode = numeric_mode

    @property
    def numeric_profile(self) -> str:
        """The arithmetic of the products."""
        return "fp32_v1"

    def decode_session(self, state: Any) -> _core.MambaDecodeSession:
        """Opens a session on a state, which belongs to it until it is closed."""
        return _SESSIONS[self._version](self, state)

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
        options = {"norm_eps": norm_eps, "inner_norm": inner_norm, "inner_norm_eps": inner_norm_eps}
        self._build(1, weights, options, weight_format, (numeric_profile, numeric_mode, device))

    inner_norm: bool = option("inner_norm")
    inner_norm_eps: float = option("inner_norm_eps")


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
        options = {
            "dt_limit": dt_limit,
            "n_groups": n_groups,
            "norm_eps": norm_eps,
            "gated_norm_eps": gated_norm_eps,
            "norm_before_gate": norm_before_gate,
            "grouped_norm": grouped_norm,
        }
        self._build(2, weights, options, weight_format, (numeric_profile, numeric_mode, device))

    dt_limit: tuple[float, float] = option("dt_limit")
    n_groups: int = option("n_groups")
    gated_norm_eps: float = option("gated_norm_eps")
    norm_before_gate: bool = option("norm_before_gate")
    grouped_norm: bool = option("grouped_norm")


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
        options = {
            "rope_fraction": rope_fraction,
            "a_function": a_function,
            "a_floor": a_floor,
            "norm_eps": norm_eps,
        }
        self._build(3, weights, options, weight_format, (numeric_profile, numeric_mode, device))

    rope_fraction: float = option("rope_fraction")
    a_function: str = option("a_function")
    a_floor: float = option("a_floor")


class Mamba1BlockInference(Mamba1Block):
    """Mamba1Block on the CPU, forward only: the same constructor, methods and bits."""


class Mamba2BlockInference(Mamba2Block):
    """Mamba2Block on the CPU, forward only: the same constructor, methods and bits."""


class Mamba3BlockInference(Mamba3Block):
    """Mamba3Block on the CPU, forward only: the same constructor, methods and bits."""


_BLOCKS: dict[int, type[_MambaBlock]] = {1: Mamba1Block, 2: Mamba2Block, 3: Mamba3Block}


def _from_compiled(compiled: _core.MambaBlock) -> _MambaBlock:
    """A block that shares the weights of a compiled one."""
    cls = _BLOCKS[compiled._version]
    block = cls.__new__(cls)
    _core.MambaBlock.__init__(block, compiled)
    return block

# SPDX-License-Identifier: Apache-2.0
"""The Samba stack: a list of Mamba 3 and attention blocks between an embedding and a head, forward only."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _core, _modes
from ._block import Computes
from ._samba_file import read_stream
from .array import Array

__all__ = ["SambaConfig", "SambaInference"]

_STATES, _HEAD_DIM, _ANGLES = 128, 64, 32


class SambaConfig:
    """What a Samba stack is made of.

    layers: a sequence of "mamba3" (d_model a multiple of 32) and "attention" (needs n_heads and intermediate;
    head_dim is d_model / n_heads, n_kv_heads by default n_heads). dropout counts in training only. Raises
    TypeError for a wrong kind of argument and ValueError for one that does not fit, naming it.
    """

    def __init__(  # noqa: PLR0917 - the documented signature
        self,
        vocab: int,
        d_model: int,
        layers: Sequence[str],
        n_heads: int | None = None,
        n_kv_heads: int | None = None,
        head_dim: int | None = None,
        intermediate: int | None = None,
        tie_embeddings: bool = True,
        norm_eps: float = 1e-5,
        dropout: float = 0.0,
    ) -> None:
        self.vocab = _integer("vocab", vocab, 2)
        self.d_model = _integer("d_model", d_model, 1)
        if isinstance(layers, str) or not isinstance(layers, Sequence):
            raise TypeError(
                f"[SambaConfig] layers: expected a sequence of names, got {type(layers).__name__}"
            )
        self.layers = tuple(layers)
        for kind in self.layers:
            if kind not in ("mamba3", "attention"):
                raise ValueError(f"[SambaConfig] layers: expected 'mamba3' or 'attention', got {kind!r}")
        if not self.layers:
            raise ValueError("[SambaConfig] layers: expected at least one layer, got none")
        if "mamba3" in self.layers and d_model % 32:
            raise ValueError(f"[SambaConfig] d_model: expected a multiple of 32 for mamba3, got {d_model}")
        self.n_heads: int | None = None
        self.n_kv_heads: int | None = None
        self.head_dim: int | None = None
        self.intermediate: int | None = None
        if "attention" in self.layers:
            self._read_attention(n_heads, n_kv_heads, head_dim, intermediate)
        if not isinstance(tie_embeddings, bool):
            raise TypeError(
                f"[SambaConfig] tie_embeddings: expected a bool, got {type(tie_embeddings).__name__}"
            )
        self.tie_embeddings = tie_embeddings
        self.norm_eps = _number("norm_eps", norm_eps)
        if not 0.0 < self.norm_eps < math.inf:
            raise ValueError(f"[SambaConfig] norm_eps: expected a finite number > 0, got {norm_eps}")
        self.dropout = _number("dropout", dropout)
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"[SambaConfig] dropout: expected a number in [0, 1), got {dropout}")

    def _read_attention(
        self, n_heads: int | None, n_kv_heads: int | None, head_dim: int | None, intermediate: int | None
    ) -> None:
        heads = _integer("n_heads", n_heads, 1)
        key_heads = heads if n_kv_heads is None else _integer("n_kv_heads", n_kv_heads, 1)
        width = self.d_model // heads if head_dim is None else _integer("head_dim", head_dim, 1)
        if heads * width != self.d_model:
            raise ValueError(
                f"[SambaConfig] head_dim: expected n_heads * head_dim = d_model = {self.d_model}, "
                f"got {heads} * {width}"
            )
        if heads % key_heads:
            raise ValueError(f"[SambaConfig] n_kv_heads: expected a divisor of {heads}, got {key_heads}")
        self.n_heads, self.n_kv_heads, self.head_dim = heads, key_heads, width
        self.intermediate = _integer("intermediate", intermediate, 1)

    def block_shapes(self, kind: str) -> list[tuple[str, tuple[int, ...]]]:
        """[(weight, shape)] of a block of this kind, in order."""
        d = self.d_model
        if kind == "mamba3" and d % 32 == 0:
            heads, inner = d // 32, 2 * d
            return [
                ("block_norm.weight", (d,)),
                ("in_proj.weight", (2 * inner + 2 * _STATES + 3 * heads + _ANGLES, d)),
                ("dt_bias", (heads,)),
                ("B_norm.weight", (_STATES,)),
                ("C_norm.weight", (_STATES,)),
                ("B_bias", (heads, _STATES)),
                ("C_bias", (heads, _STATES)),
                ("D", (heads,)),
                ("out_proj.weight", (d, inner)),
            ]
        if kind == "attention" and self.head_dim and self.n_kv_heads and self.intermediate:
            keys, wide = self.n_kv_heads * self.head_dim, self.intermediate
            return [
                ("input_layernorm.weight", (d,)),
                ("post_attention_layernorm.weight", (d,)),
                ("q_proj.weight", (d, d)),
                ("k_proj.weight", (keys, d)),
                ("v_proj.weight", (keys, d)),
                ("o_proj.weight", (d, d)),
                ("gate_proj.weight", (wide, d)),
                ("up_proj.weight", (wide, d)),
                ("down_proj.weight", (d, wide)),
            ]
        raise ValueError(f"[SambaConfig] kind: expected one of this config's kinds, got {kind!r}")

    def registry(self) -> list[tuple[str, tuple[int, ...]]]:
        """[(name, shape)] of every parameter, in the order in which files and sums have them."""
        table: tuple[str, tuple[int, ...]] = ("embed.weight", (self.vocab, self.d_model))
        blocks = [
            (f"layers.{i}.{name}", shape)
            for i, kind in enumerate(self.layers)
            for name, shape in self.block_shapes(kind)
        ]
        head = [] if self.tie_embeddings else [("lm_head.weight", (self.vocab, self.d_model))]
        return [table, *blocks, ("norm_f.weight", (self.d_model,)), *head]

    def to_dict(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON can hold them."""
        return {**vars(self), "layers": list(self.layers)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SambaConfig:
        """The inverse of to_dict. ValueError for a missing or unknown field."""
        if not isinstance(data, Mapping):
            raise TypeError(f"[SambaConfig] data: expected a mapping, got {type(data).__name__}")
        try:
            return cls(**data)
        except TypeError as error:
            if "argument" in str(error):
                raise ValueError(f"[SambaConfig] data: expected the fields of to_dict(): {error}") from None
            raise

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SambaConfig) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"SambaConfig({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"


class SambaInference(Computes):
    """A Samba stack, forward only: token ids in, logits out.

    weights: arrays by the names of config.registry(), which are copied. ValueError for a missing or unknown
    name, a wrong shape or a non-finite value, TypeError for another dtype than float32.
    """

    def __init__(
        self, config: SambaConfig, weights: Mapping[str, Any], *, numeric_mode: str | None = None
    ) -> None:
        if not isinstance(config, SambaConfig):
            raise TypeError(f"[SambaInference] config: expected a SambaConfig, got {type(config).__name__}")
        _modes.resolve_mode("SambaInference", numeric_mode)
        self._config = config
        self._numeric_mode = numeric_mode
        arrays = {name: Array.from_buffer(value) for name, value in dict(weights).items()}
        expected = dict(config.registry())
        for name in arrays:
            if name not in expected:
                raise ValueError(f"[SambaInference] weights: expected the names of registry(), got {name!r}")
        for name, shape in expected.items():
            if name not in arrays:
                raise ValueError(f"[SambaInference] weights: expected {name!r}, which is missing")
            if arrays[name].dtype != "f4":
                raise TypeError(f"[SambaInference] {name}: expected float32, got {arrays[name].dtype}")
            if arrays[name].shape != shape:
                raise ValueError(f"[SambaInference] {name}: expected shape {shape}, got {arrays[name].shape}")
        fields = {
            **{name: value for name, value in config.to_dict().items() if value is not None},
            "model_type": "samba",
            "n_layers": len(config.layers),
        }
        profile = _modes.resolve_profile("SambaInference", None, ("fp32_v1",))
        self._model = _core.CausalLM(_plan(fields), arrays, None, None, "float32", "float32", profile)

    @property
    def config(self) -> SambaConfig:
        return self._config

    @classmethod
    def from_checkpoint(
        cls, path: str | os.PathLike[str], *, numeric_mode: str | None = None
    ) -> SambaInference:
        """Reads a streamed checkpoint of a Samba stack; optimizer and random state are checked and dropped.

        FileNotFoundError for a missing file, ValueError for one that is not, byte for byte, what its config
        and its digests say.
        """
        config, weights = read_stream(path, SambaConfig)
        return cls(config, weights, numeric_mode=numeric_mode)

    def forward(self, inputs: Any, state: _core.CausalLMState | None = None, *, lengths: Any = None) -> Array:
        """Integer ids (B, L) -> float32 logits (B, L, vocab). With a state the ids continue it."""
        return self._model.forward(inputs, state, lengths=lengths)

    __call__ = forward

    def step(self, ids: Any, state: _core.CausalLMState) -> Array:
        """One token a row: ids (B,) or (B, 1) -> logits (B, vocab); the bits that forward gives."""
        return self._model.step(ids, state)

    def allocate_state(self, batch_size: int, max_tokens: int) -> _core.CausalLMState:
        """An empty state for up to max_tokens positions; its `layers` are the blocks' states."""
        return self._model.allocate_state(batch_size, max_tokens)

    def parameters(self) -> dict[str, Array]:
        """Copies of the weights by name, in registry order."""
        stored = self._model.parameters()
        return {name: stored[name] for name, _ in self.config.registry()}

    def __repr__(self) -> str:
        return f"SambaInference({self.config!r})"


def _plan(fields: dict[str, Any]) -> _core.ModelPlan:
    return _core.plan_for(_core.HFConfig.from_text(json.dumps(fields), None))


def _integer(name: str, value: Any, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"[SambaConfig] {name}: expected an integer, got {type(value).__name__}")
    if not low <= value < 2**28:
        raise ValueError(f"[SambaConfig] {name}: expected an integer in {low}..2^28 - 1, got {value}")
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"[SambaConfig] {name}: expected a number, got {type(value).__name__}")
    return float(value)

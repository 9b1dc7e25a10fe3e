# SPDX-License-Identifier: Apache-2.0
"""One decoder block, its cache and its decode session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from . import _core, _modes, lowbit
from ._core import TransformerDecodeSession, TransformerState

__all__ = ["TransformerBlock", "TransformerBlockInference", "TransformerDecodeSession", "TransformerState"]


class TransformerBlock(_core.TransformerBlock):
    """One pre-norm decoder block: h = x + Attention(norm(x)); out = h + MLP(norm(h)). float32 in and out.

    weights: a mapping of float32 arrays (buffer protocol, DLPack or __array_interface__), which are copied.
    With QW = n_heads * head_dim, KW = n_kv_heads * head_dim and IT the intermediate size:
    input_layernorm.weight (D), post_attention_layernorm.weight (D), q_proj.weight (QW, D), k_proj.weight
    (KW, D), v_proj.weight (KW, D), o_proj.weight (D, QW), gate_proj.weight (IT, D; gated MLPs only),
    up_proj.weight (IT, D), down_proj.weight (D, IT). With qkv_bias: {q,k,v}_proj.bias; o_bias: o_proj.bias;
    norm_bias: {input,post_attention}_layernorm.bias; mlp_bias: {gate,up,down}_proj.bias; qk_norm:
    {q,k}_norm.weight (head_dim).

    n_kv_heads: default n_heads. head_dim: even, default d_model / n_heads. window: 0 lets a token see all
    earlier ones. rope_scaling: None or a dict with "rope_type" (or "type") linear, llama3, yarn, longrope
    or dynamic and that type's keys as in a Hugging Face config. rope_dim: rotary columns, default head_dim.
    norm: rmsnorm, layernorm, rmsnorm_offset. mlp: swiglu, gelu, gelu_tanh, geglu, geglu_tanh. attn_softcap:
    s = cap * tanh(s / cap). weight_format: how the matrices are kept, "float32", "bfloat16" or "int8" (see
    isobit.lowbit); None keeps float32, or the format in which lowbit.pack left them. numeric_profile: the
    arithmetic of the products, one of isobit.numeric_profiles(); another than "fp32_v1" keeps codes of the
    matrices, and parameters() then gives values with the same codes. device: "auto" or "cpu".
    numeric_profile and numeric_mode: None takes the process default.

    Raises TypeError for a wrong kind of argument or a dtype other than float32, ValueError for a missing,
    unexpected, wrongly shaped or non-finite weight or an option that does not fit, NotImplementedError for
    a named feature that is not provided; messages name the class, the argument, what was expected and what
    came. Warns with NumericProfileSpeedWarning, once a process, of a profile for which the instruction set
    in use has no integer dot products.
    """

    def __init__(
        self,
        weights: Mapping[str, Any],
        *,
        n_heads: int,
        n_kv_heads: int | None = None,
        head_dim: int | None = None,
        window: int = 0,
        rope_theta: float = 10000.0,
        rope_scaling: dict[str, Any] | None = None,
        rope_dim: int | None = None,
        max_positions: int = 8192,
        qkv_bias: bool = False,
        o_bias: bool = False,
        norm: str = "rmsnorm",
        norm_eps: float = 1e-6,
        norm_bias: bool = False,
        mlp: str = "swiglu",
        mlp_bias: bool = False,
        qk_norm: bool = False,
        attn_softcap: float | None = None,
        weight_format: str | None = None,
        numeric_profile: str | None = None,
        numeric_mode: str | None = None,
        device: str = "auto",
    ) -> None:
        options: dict[str, Any] = {
            "n_heads": n_heads,
            "n_kv_heads": n_kv_heads,
            "head_dim": head_dim,
            "window": window,
            "rope_theta": rope_theta,
            "rope_scaling": rope_scaling,
            "rope_dim": rope_dim,
            "max_positions": max_positions,
            "qkv_bias": qkv_bias,
            "o_bias": o_bias,
            "norm": norm,
            "norm_eps": norm_eps,
            "norm_bias": norm_bias,
            "mlp": mlp,
            "mlp_bias": mlp_bias,
            "qk_norm": qk_norm,
            "attn_softcap": attn_softcap,
        }
        self._choose(numeric_mode, device)
        profile = _modes.resolve_profile(type(self).__name__, numeric_profile)
        options["numeric_profile"] = profile
        if hasattr(weights, "items"):
            options["weight_format"] = _modes.stored_format(type(self).__name__, weights, weight_format)
            weights = lowbit.materialize(weights)
        super().__init__(weights, options)
        self._read_back()
        _modes.warn_if_slow(type(self).__name__, profile)

    def _choose(self, numeric_mode: str | None, device: str) -> None:
        name = type(self).__name__
        _modes.resolve_mode(name, numeric_mode)
        self.device = _modes.resolve_device(name, device)
        self.numeric_mode = numeric_mode

    def _read_back(self) -> None:
        """Sets one attribute for each option, with the defaults filled in."""
        options = self._options()
        self.n_heads: int = options["n_heads"]
        self.n_kv_heads: int = options["n_kv_heads"]
        self.head_dim: int = options["head_dim"]
        self.window: int = options["window"]
        self.rope_theta: float = options["rope_theta"]
        self.rope_scaling: dict[str, Any] | None = options["rope_scaling"]
        self.rope_dim: int = options["rope_dim"]
        self.max_positions: int = options["max_positions"]
        self.qkv_bias: bool = options["qkv_bias"]
        self.o_bias: bool = options["o_bias"]
        self.norm: str = options["norm"]
        self.norm_eps: float = options["norm_eps"]
        self.norm_bias: bool = options["norm_bias"]
        self.mlp: str = options["mlp"]
        self.mlp_bias: bool = options["mlp_bias"]
        self.qk_norm: bool = options["qk_norm"]
        self.attn_softcap: float | None = options["attn_softcap"]

    def decode_session(self, state: TransformerState) -> TransformerDecodeSession:
        """Opens a session on a state, which belongs to it until it is closed."""
        return TransformerDecodeSession(self, state)

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

    def set_params(self, **params: Any) -> TransformerBlock:
        """Replaces constructor arguments by name and returns self. The block is as before if one is refused.

        A session that is open keeps the weights it was opened with.
        """
        wanted = _modes.with_params(type(self).__name__, self.get_params(), params)
        replacement = TransformerBlock(**wanted)
        self._replace(replacement)
        self._choose(replacement.numeric_mode, replacement.device)
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
        return (
            f"{type(self).__name__}(d_model={self.d_model}, n_heads={self.n_heads}, "
            f"n_kv_heads={self.n_kv_heads}, head_dim={self.head_dim}, intermediate={self.intermediate}, "
            f"window={self.window})"
        )


class TransformerBlockInference(TransformerBlock):
    """TransformerBlock on the CPU, forward only: the same constructor, methods and bits."""


def _rebuild(cls: type[TransformerBlock], params: dict[str, Any]) -> TransformerBlock:
    """Unpickles a block."""
    return cls(**params)


def _from_compiled(compiled: _core.TransformerBlock) -> TransformerBlock:
    """A block that shares the weights of a compiled one."""
    block = TransformerBlock.__new__(TransformerBlock)
    _core.TransformerBlock.__init__(block, compiled)
    block._choose(None, "cpu")
    block._read_back()
    return block

# SPDX-License-Identifier: Apache-2.0
"""One decoder block, its cache and its decode session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _core, _modes, lowbit
from ._block import Block, option
from ._core import TransformerDecodeSession, TransformerState

__all__ = ["TransformerBlock", "TransformerBlockInference", "TransformerDecodeSession", "TransformerState"]


class TransformerBlock(Block, _core.TransformerBlock):
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
        self._check_choice(numeric_mode, device)
        profile = _modes.resolve_profile(type(self).__name__, numeric_profile)
        options["numeric_profile"] = profile
        if hasattr(weights, "items"):
            options["weight_format"] = _modes.stored_format(type(self).__name__, weights, weight_format)
            weights = lowbit.materialize(weights)
        _core.TransformerBlock.__init__(self, weights, options)
        self._numeric_mode = numeric_mode
        _modes.warn_if_slow(type(self).__name__, profile)

    n_heads: int = option("n_heads")
    n_kv_heads: int = option("n_kv_heads")
    head_dim: int = option("head_dim")
    window: int = option("window")
    rope_theta: float = option("rope_theta")
    rope_scaling: dict[str, Any] | None = option("rope_scaling")
    rope_dim: int = option("rope_dim")
    max_positions: int = option("max_positions")
    qkv_bias: bool = option("qkv_bias")
    o_bias: bool = option("o_bias")
    norm: str = option("norm")
    norm_eps: float = option("norm_eps")
    norm_bias: bool = option("norm_bias")
    mlp: str = option("mlp")
    mlp_bias: bool = option("mlp_bias")
    qk_norm: bool = option("qk_norm")
    attn_softcap: float | None = option("attn_softcap")

    def decode_session(self, state: TransformerState) -> TransformerDecodeSession:
        """Opens a session on a state, which belongs to it until it is closed."""
        return TransformerDecodeSession(self, state)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(d_model={self.d_model}, n_heads={self.n_heads}, "
            f"n_kv_heads={self.n_kv_heads}, head_dim={self.head_dim}, intermediate={self.intermediate}, "
            f"window={self.window})"
        )


class TransformerBlockInference(TransformerBlock):
    """TransformerBlock on the CPU, forward only: the same constructor, methods and bits."""


def _from_compiled(compiled: _core.TransformerBlock) -> TransformerBlock:
    """A block that shares the weights of a compiled one."""
    block = TransformerBlock.__new__(TransformerBlock)
    _core.TransformerBlock.__init__(block, compiled)
    return block

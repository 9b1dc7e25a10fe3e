# SPDX-License-Identifier: Apache-2.0
"""Whole models from Hugging Face checkpoint directories, and the parts of loading one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _core, _modes, _torch_file, lowbit
from ._block import Computes
from ._core import (
    CausalLMState,
    Checkpoint,
    ModelPlan,
    SafetensorsFile,
    TensorInfo,
    known_model_types,
    write_safetensors,
)
from ._errors import NotProvidedError, UnsupportedModel
from .array import Array
from .mamba import _from_compiled as _mamba_from_compiled
from .transformer import _from_compiled

if TYPE_CHECKING:
    from .text import Tokenizer

__all__ = [
    "CausalLM",
    "CausalLMState",
    "Checkpoint",
    "HFConfig",
    "ModelPlan",
    "SafetensorsFile",
    "TensorInfo",
    "Tokenizer",
    "UnsupportedModel",
    "known_model_types",
    "plan_for",
    "write_safetensors",
]

Progress = Callable[[int, int], object]


def __getattr__(name: str) -> Any:
    # The text extra is imported only by those who use it.
    if name == "Tokenizer":
        from .text import Tokenizer  # noqa: PLC0415

        return Tokenizer
    if name == "ParallelCausalLM":
        raise NotProvidedError("[isobit.models] ParallelCausalLM: not provided")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class HFConfig(Mapping[str, Any]):
    """A parsed config.json: a read-only mapping of its fields.

    ValueError when it is not a JSON object with a string "model_type".
    """

    def __init__(self, data: Mapping[str, Any], path: str | os.PathLike[str] | None = None) -> None:
        if not isinstance(data, Mapping):
            raise TypeError(f"[HFConfig] data: expected a mapping, got {type(data).__name__}")
        try:
            text = json.dumps(dict(data))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"[HFConfig] data: expected values that JSON has, got {error}") from None
        self._adopt(_core.HFConfig.from_text(text, path))

    def _adopt(self, compiled: _core.HFConfig) -> None:
        self._compiled = compiled
        self._fields: dict[str, Any] = json.loads(compiled.text())

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> HFConfig:
        """Reads a file, or config.json in a directory. FileNotFoundError when there is none."""
        config = cls.__new__(cls)
        config._adopt(_core.HFConfig.from_json(path))
        return config

    @property
    def model_type(self) -> str:
        return self._compiled.model_type

    @property
    def path(self) -> Path | None:
        """The file it was read from."""
        return self._compiled.path

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict of its own."""
        copy: dict[str, Any] = json.loads(self._compiled.text())
        return copy

    def __getitem__(self, key: str) -> Any:
        return self._fields[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"HFConfig(model_type={self.model_type!r}, {len(self)} fields)"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._fields, self.path)


def plan_for(config: HFConfig | Mapping[str, Any]) -> ModelPlan:
    """What a config means: block options, sizes and tensor names.

    UnsupportedModel names the field, its value and what is known.
    """
    parsed = config if isinstance(config, HFConfig) else HFConfig(config)
    return _core.plan_for(parsed._compiled)


class CausalLM(Computes, _core.CausalLM):
    """A decoder language model on token ids: load -> forward -> step -> generate.

    weights: arrays by checkpoint name (plan.checkpoint_names()), or {"embed", "norm", "head" unless tied,
    "layers": [{block key: array}]}; packed ones of isobit.lowbit count as what they widen to. weight_format:
    as in load(); None keeps the projections in float32, or in the format in which lowbit.pack left the
    weights. Raises UnsupportedModel for a missing tensor or one that nothing reads,
    TypeError for a dtype other than float32, float16 or bfloat16, ValueError for a wrong shape or a
    non-finite value.
    """

    _config: HFConfig | None = None

    def __init__(
        self,
        plan: ModelPlan,
        weights: Mapping[str, Any],
        *,
        weight_format: str | None = None,
        embed_format: str | None = None,
        max_positions: int | None = None,
        device: str = "auto",
        numeric_profile: str | None = None,
        numeric_mode: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        if not isinstance(plan, ModelPlan):
            raise TypeError(f"[CausalLM] plan: expected a ModelPlan, got {type(plan).__name__}")
        if not isinstance(weights, Mapping):
            raise TypeError(f"[CausalLM] weights: expected a dict of arrays, got {type(weights).__name__}")
        named = _by_checkpoint_name(plan, weights) if "layers" in weights else dict(weights)
        stored = _modes.stored_format("CausalLM", named, weight_format)
        kept = self._chosen(stored, embed_format, device, numeric_profile, numeric_mode)
        named = lowbit.materialize(named)
        _core.CausalLM.__init__(self, plan, named, max_positions, progress, *kept)
        self._numeric_mode = numeric_mode
        _modes.warn_if_slow("CausalLM", self.numeric_profile)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        weight_format: str = "float32",
        embed_format: str | None = None,
        max_positions: int | None = None,
        device: str = "auto",
        numeric_profile: str | None = None,
        numeric_mode: str | None = None,
        progress: Progress | None = None,
    ) -> CausalLM:
        """Loads a checkpoint directory: config.json and safetensors, or without those a pytorch_model.bin or
        its index and shards (only tensors are read; what a pickle could call is refused).

        weight_format: how the projections are kept, "float32" (bfloat16 safetensors in their own two bytes),
        "bfloat16" or "int8" (see isobit.lowbit); norms and biases are float32. embed_format: how embedding
        and head are kept, None (float32) or "bfloat16". The results are those of float32 on the stored
        values. numeric_profile: the arithmetic of projections, head and scores, one of
        isobit.numeric_profiles(); another than "fp32_v1" is for transformers (else NotImplementedError) and
        keeps codes of the matrices; where the instruction set in use makes it slow, that is a
        NumericProfileSpeedWarning, once a process. max_positions: default and upper bound are the config's.
        progress(tensors done, tensors in all) is called while loading. Weights that are used as the file has
        them are read there once more, in the first pass, and packed in the second: a file that is written
        until then (not one that is replaced) is a ValueError of that pass. FileNotFoundError for a missing
        directory, file or shard; UnsupportedModel for a family, option or tensor that is not known;
        ValueError for malformed files or non-finite weights.
        """
        model = cls.__new__(cls)
        kept = cls._chosen(weight_format, embed_format, device, numeric_profile, numeric_mode)
        pickled = _torch_file.find(Path(path)) if _names_something(path) else None
        if pickled is None:
            _core.CausalLM.__init__(model, path, max_positions, progress, *kept)
        else:
            plan = plan_for(HFConfig.from_json(path))
            _core.CausalLM.__init__(model, plan, _torch_file.read(pickled), max_positions, progress, *kept)
        model._config = HFConfig.from_json(path)
        model._numeric_mode = numeric_mode
        _modes.warn_if_slow("CausalLM", model.numeric_profile)
        return model

    @staticmethod
    def _chosen(
        weight_format: str,
        embed_format: str | None,
        device: str,
        numeric_profile: str | None,
        numeric_mode: str | None,
    ) -> tuple[str, str, str]:
        _modes.check_weight_format("CausalLM", weight_format)
        if embed_format not in (None, "float32", "bfloat16"):
            raise ValueError(
                f"[CausalLM] embed_format: expected None, 'float32' or 'bfloat16', got {embed_format!r}"
            )
        _modes.resolve_device("CausalLM", device)
        profile = _modes.resolve_profile("CausalLM", numeric_profile)
        _modes.resolve_mode("CausalLM", numeric_mode)
        return weight_format, embed_format or "float32", profile

    def generate(self, ids: Any, max_new_tokens: int, *, greedy: bool = True) -> Array:
        """ids (B, L) -> int32 (B, L + max_new_tokens): the largest logit wins, among equals the lowest id.

        Does not stop at any id. TypeError for bool or float ids; ValueError for ids out of range or more than
        max_positions positions; NotImplementedError for greedy=False.
        """
        if greedy is not True:
            raise NotImplementedError("[CausalLM] greedy: sampling is not provided; greedy=True is")
        return self._generate_stream(ids, max_new_tokens, None)

    @property
    def config(self) -> HFConfig | None:
        """Of a model that was loaded from a directory."""
        return self._config

    @property
    def blocks(self) -> list[Any]:
        """The layers as blocks, which share the model's weights; None for one that no block class describes
        (an MLP alone, attention beside or in front of a Mamba mixer)."""
        compiled = [self._block(i) for i in range(self.n_layers)]
        return [None if block is None else self._as_block(block) for block in compiled]

    @staticmethod
    def _as_block(block: Any) -> Any:
        return _mamba_from_compiled(block) if isinstance(block, _core.MambaBlock) else _from_compiled(block)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("[CausalLM] pickle: not provided; load the model from its directory again")

    def __repr__(self) -> str:
        plan = self.plan
        return (
            f"CausalLM(model_type={plan.model_type!r}, n_layers={plan.n_layers}, d_model={plan.d_model}, "
            f"vocab_size={plan.vocab_size}, max_positions={self.max_positions})"
        )


def _names_something(path: Any) -> bool:
    """Whether a path can be looked at; the extension refuses the others with their names."""
    return isinstance(path, (str, os.PathLike)) and os.fspath(path) != "" and "\0" not in str(path)


def _by_checkpoint_name(plan: ModelPlan, weights: Mapping[str, Any]) -> dict[str, Any]:
    """{"embed", "norm", "head", "layers"} -> arrays by checkpoint name; rows of a fused tensor are joined."""
    for key in ("embed", "norm", "layers") if plan.head_name is None else ("embed", "norm", "head", "layers"):
        if key not in weights:
            raise UnsupportedModel(
                f"[CausalLM] weights: expected a key {key!r}, got {', '.join(map(str, weights))}"
            )
    if not isinstance(weights["layers"], (list, tuple)) or not all(
        isinstance(layer, Mapping) for layer in weights["layers"]
    ):
        raise TypeError(
            f"[CausalLM] layers: expected a list of dicts of arrays, got {type(weights['layers']).__name__}"
        )
    named: dict[str, Any] = {plan.embed_name: weights["embed"], plan.norm_name: weights["norm"]}
    if plan.head_name is not None:
        named[plan.head_name] = weights["head"]
    if len(weights["layers"]) != plan.n_layers:
        raise ValueError(f"[CausalLM] layers: expected {plan.n_layers}, got {len(weights['layers'])}")
    for i, layer in enumerate(weights["layers"]):
        fused: dict[str, list[tuple[int, str, Any]]] = {}
        for key, name, rows in plan.layer_weights(i):
            if key not in layer:
                raise UnsupportedModel(
                    f"[CausalLM] layers[{i}]: expected {key!r}, got {', '.join(sorted(layer)) or '{}'}"
                )
            if rows is None:
                named[name] = layer[key]
            else:
                fused.setdefault(name, []).append((rows.start, key, layer[key]))
        for name, parts in fused.items():
            named[name] = _joined(name, {key: part for _, key, part in sorted(parts, key=lambda p: p[0])})
    return named


def _joined(name: str, parts: dict[str, Any]) -> Any:
    """The rows of the parts below each other, packed as they are."""
    fmt = lowbit.format_of(parts)
    arrays = [Array.from_buffer(part) for part in lowbit.materialize(parts).values()]
    shape = (sum(array.shape[0] for array in arrays), *arrays[0].shape[1:])
    whole = Array.frombytes(b"".join(array.tobytes() for array in arrays), arrays[0].dtype, shape)
    return whole if fmt == "float32" else lowbit.pack_one(whole, fmt, name)

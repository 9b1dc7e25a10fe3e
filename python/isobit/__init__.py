# SPDX-License-Identifier: Apache-2.0
"""isobit: decoder language models with the same bits on every machine."""

from __future__ import annotations

from typing import NoReturn

from . import lowbit, models, transformer
from ._core import (
    active_isa,
    available_isas,
    contract_version,
    measure,
    num_threads,
    self_test,
    set_isa,
    set_num_threads,
    version,
)
from ._errors import NonFiniteError
from ._modes import numeric_mode, numeric_profile, numeric_profiles, set_numeric_mode, set_numeric_profile
from .array import Array
from .transformer import TransformerBlock, TransformerBlockInference, TransformerState

__version__ = version()

__all__ = [
    "Array",
    "NonFiniteError",
    "TransformerBlock",
    "TransformerBlockInference",
    "TransformerState",
    "active_isa",
    "available_isas",
    "contract_version",
    "lowbit",
    "measure",
    "models",
    "num_threads",
    "numeric_mode",
    "numeric_profile",
    "numeric_profiles",
    "self_test",
    "set_isa",
    "set_num_threads",
    "set_numeric_mode",
    "set_numeric_profile",
    "transformer",
    "version",
]

# Names of the interface that this version does not provide.
_NOT_PROVIDED = {"SambaConfig", "SambaInference", "SambaStack", "mamba", "training"}.union(
    f"Mamba{n}{part}" for n in (1, 2, 3) for part in ("Block", "BlockInference", "State")
)


def __getattr__(name: str) -> NoReturn:
    if name in _NOT_PROVIDED:
        raise NotImplementedError(f"[isobit] {name}: not provided by version {__version__}")
    raise AttributeError(f"module 'isobit' has no attribute {name!r}")


# Users meet the compiled classes under the names of the package, and so do pickles.
for _module, _classes in {
    "isobit": (Array, NonFiniteError, TransformerState),
    "isobit.transformer": (transformer.TransformerDecodeSession,),
    "isobit.models": (
        models.CausalLMState,
        models.Checkpoint,
        models.ModelPlan,
        models.SafetensorsFile,
        models.TensorInfo,
        models.UnsupportedModel,
    ),
}.items():
    for _class in _classes:
        _class.__module__ = _module
del _module, _classes, _class

# SPDX-License-Identifier: Apache-2.0
"""isobit: decoder language models with the same bits on every machine."""

from __future__ import annotations

from typing import NoReturn

from . import linalg, lowbit, mamba, models, transformer
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
from ._errors import NonFiniteError, NotProvidedError, NumericProfileSpeedWarning
from ._modes import numeric_mode, numeric_profile, numeric_profiles, set_numeric_mode, set_numeric_profile
from .array import Array
from .mamba import (
    Mamba1Block,
    Mamba1BlockInference,
    Mamba1State,
    Mamba2Block,
    Mamba2BlockInference,
    Mamba2State,
    Mamba3Block,
    Mamba3BlockInference,
    Mamba3State,
)
from .samba import SambaConfig, SambaInference
from .transformer import TransformerBlock, TransformerBlockInference, TransformerState

__version__ = version()

__all__ = [
    "Array",
    "Mamba1Block",
    "Mamba1BlockInference",
    "Mamba1State",
    "Mamba2Block",
    "Mamba2BlockInference",
    "Mamba2State",
    "Mamba3Block",
    "Mamba3BlockInference",
    "Mamba3State",
    "NonFiniteError",
    "NumericProfileSpeedWarning",
    "SambaConfig",
    "SambaInference",
    "TransformerBlock",
    "TransformerBlockInference",
    "TransformerState",
    "active_isa",
    "available_isas",
    "contract_version",
    "linalg",
    "lowbit",
    "mamba",
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
_NOT_PROVIDED = {"SambaStack", "training"}


def __getattr__(name: str) -> NoReturn:
    if name in _NOT_PROVIDED:
        raise NotProvidedError(f"[isobit] {name}: not provided by version {__version__}")
    raise AttributeError(f"module 'isobit' has no attribute {name!r}")


# Users meet the compiled classes under the names of the package, and so do pickles.
for _module, _classes in {
    "isobit": (Array, NonFiniteError, NumericProfileSpeedWarning, TransformerState),
    "isobit.mamba": (mamba.Mamba1State, mamba.Mamba2State, mamba.Mamba3State),
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

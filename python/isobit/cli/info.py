# SPDX-License-Identifier: Apache-2.0
"""Says what a checkpoint directory holds and whether it can be run, without reading any weights."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from isobit import _torch_file
from isobit.cli import common
from isobit.models import CausalLM, Checkpoint, HFConfig, ModelPlan, UnsupportedModel, plan_for

NAME = "info"
HELP = "describe a checkpoint directory"

_READ_DTYPES = ("F32", "F16", "BF16")
_BLOCK_BYTES = {"Q8_0": 34, "Q4_0": 18, "Q4_1": 20}  # of 32 numbers
_SIZES = (
    "n_layers",
    "d_model",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "intermediate",
    "vocab_size",
    "max_position_embeddings",
    "tie_embeddings",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="checkpoint directory")
    common.add_format_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    facts = describe(arguments.directory, **common.formats(arguments))
    print(common.to_json(facts, indent=2) if arguments.json else _as_text(facts))
    return 0 if not facts["problems"] else 1


def describe(
    directory: str | Path, weight_format: str = "float32", embed_format: str = "float32"
) -> dict[str, Any]:
    """Everything `isobit info` says. `problems` lists why the model cannot be run; empty when it can.

    Of weights that are pickled, `not_described`, only loading says whether they fit.
    """
    config = HFConfig.from_json(directory)
    facts: dict[str, Any] = {"model_type": config.model_type, "problems": []}
    plan = None
    try:
        plan = plan_for(config)
        facts |= _plan_facts(plan)
    except UnsupportedModel as error:
        facts["problems"].append(str(error))
    if (pickled := _torch_file.find(Path(directory))) is not None:
        return facts | {"not_described": pickled.name}
    try:
        checkpoint = Checkpoint.open(directory)
    except FileNotFoundError as error:
        facts["problems"].append(str(error))
        return facts
    facts |= _checkpoint_facts(checkpoint)
    if plan is not None:
        facts |= {
            "weight_format": weight_format,
            "embed_format": embed_format,
            "memory_bytes": _memory_bytes(plan, checkpoint, weight_format, embed_format),
        }
    kinds = {name: _kind(checkpoint, name)[0] for name in checkpoint.names()}
    unread = [name for name, dtype in kinds.items() if dtype not in (*_READ_DTYPES, *_BLOCK_BYTES)]
    for name in unread[:5]:
        dtype = kinds[name]
        facts["problems"].append(f"{name}: expected one of {', '.join(_READ_DTYPES)}, got {dtype}")
    if not facts["problems"]:
        try:
            facts["not_read"] = CausalLM.check(directory)
        except ValueError as error:
            facts["problems"].append(str(error))
    return facts


def _plan_facts(plan: ModelPlan) -> dict[str, Any]:
    layers = [plan.layer_kwargs(i) for i in range(plan.n_layers)]
    groups: list[dict[str, Any]] = []
    for i, options in enumerate(layers):
        if groups and groups[-1]["options"] == options:
            groups[-1]["last"] = i
        else:
            groups.append({"first": i, "last": i, "options": options})
    attends = {"k_proj.weight", "linear.weight"}  # the latter: of a layer that uses a shared block
    attending = sum(any(key in attends for key, _, _ in plan.layer_weights(i)) for i in range(plan.n_layers))
    cache = 2 * 4 * plan.n_kv_heads * plan.head_dim * attending
    return {
        "kind": plan.kind,
        "sizes": {name: getattr(plan, name) for name in _SIZES},
        "layer_groups": groups,
        "cache_bytes_per_token": cache,
        "state_bytes": 4 * common.mamba_layers(plan) * common.mamba_state_numbers(plan),
    }


def _kind(checkpoint: Checkpoint, name: str) -> tuple[str, int]:
    """The dtype of a tensor, or the type of its blocks, and how many numbers it holds."""
    info, blocks = checkpoint.info(name), checkpoint.block_type(name)
    if blocks is None:
        return info.dtype, info.size
    return blocks, info.nbytes // _BLOCK_BYTES[blocks] * 32


def _checkpoint_facts(checkpoint: Checkpoint) -> dict[str, Any]:
    dtypes: dict[str, dict[str, int]] = {}
    for name in checkpoint.names():
        info = checkpoint.info(name)
        dtype, size = _kind(checkpoint, name)
        entry = dtypes.setdefault(dtype, {"tensors": 0, "parameters": 0, "bytes": 0})
        entry["tensors"] += 1
        entry["parameters"] += size
        entry["bytes"] += info.nbytes
    totals = {key: sum(entry[key] for entry in dtypes.values()) for key in ("tensors", "parameters", "bytes")}
    return {**totals, "dtypes": dtypes}


def _memory_bytes(plan: ModelPlan, checkpoint: Checkpoint, weight_format: str, embed_format: str) -> int:
    """Of the weights: projections, embedding and head in their formats, where bfloat16 tensors need no more
    than two bytes a number, all else float32."""

    def bare(name: str) -> str:
        return name.removeprefix("model.").removeprefix("backbone.")

    sources = [source for i in range(plan.n_layers) for source in plan.layer_weights(i)]
    ends = ("_proj.weight", "linear.weight", ".down", ".up")  # the last ones: of a shared block
    projections = {bare(name) for key, name, _ in sources if key.endswith(ends)}
    tables = {bare(name) for name in (plan.embed_name, plan.head_name) if name is not None}
    total = 0
    for info in map(checkpoint.info, checkpoint.names()):
        name, fmt = bare(info.name), "float32"
        if name in projections:
            fmt = weight_format
        elif name in tables:
            fmt = embed_format
        if fmt == "float32" and name in projections | tables and info.dtype == "BF16":
            fmt = "bfloat16"
        scales = 4 * sum(info.shape[:1]) if fmt == "int8" else 0
        size = _kind(checkpoint, info.name)[1]
        total += {"float32": 4, "bfloat16": 2, "int8": 1}[fmt] * size + scales
    return total


def _formats(facts: dict[str, Any]) -> str:
    table = "" if facts["embed_format"] == "float32" else f", embedding {facts['embed_format']}"
    return f"{facts['weight_format']}{table}"


def _as_text(facts: dict[str, Any]) -> str:
    lines = [f"family      {facts['model_type']}"]
    if "parameters" in facts:
        mix = ", ".join(f"{entry['tensors']} {dtype}" for dtype, entry in sorted(facts["dtypes"].items()))
        lines.append(f"parameters  {facts['parameters']:,} in {facts['tensors']} tensors ({mix})")
        lines.append(f"on disk     {facts['bytes'] / 2**20:,.1f} MiB")
    if "sizes" in facts:
        if "memory_bytes" in facts:
            lines.append(f"in memory   {facts['memory_bytes'] / 2**20:,.1f} MiB as {_formats(facts)}")
        if facts["cache_bytes_per_token"]:
            lines.append(f"cache       {facts['cache_bytes_per_token'] / 2**10:,.1f} KiB a token")
        if facts["state_bytes"]:
            lines.append(f"state       {facts['state_bytes'] / 2**10:,.1f} KiB a sequence")
        absent = [name for name in ("n_heads", "n_kv_heads", "head_dim") if not facts["sizes"][name]]
        lines += [f"{name:<24}{value}" for name, value in facts["sizes"].items() if name not in absent]
        for group in facts["layer_groups"]:
            lines.append(f"layers {group['first']} to {group['last']}")
            lines += [f"{'':<12}{key} {value}" for key, value in group["options"].items()]
    if facts.get("not_read"):
        lines.append(f"not read    {', '.join(facts['not_read'][:5])}")
    lines += [f"problem     {problem}" for problem in facts["problems"]]
    fits = f" if {facts['not_described']} fits" if "not_described" in facts else ""
    lines.append("cannot be run" if facts["problems"] else f"can be run{fits}")
    return "\n".join(map(common.visible, lines))  # names and types are the file's own

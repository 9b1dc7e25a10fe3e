# SPDX-License-Identifier: Apache-2.0
"""Measures a model on this machine: prompts and decoding, beside what the machine can do at most."""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import isobit
from isobit import _core
from isobit.cli import common
from isobit.models import CausalLM

NAME = "bench"
HELP = "measure prompt and decode speed of a model"

_PROMPTS = (16, 128, 512)
_DEPTHS = (32, 1024)
_TOKENS = 32
_REPEATS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="checkpoint directory")
    parser.add_argument(
        "--prompts",
        type=int,
        nargs="*",
        default=_PROMPTS,
        metavar="N",
        help="lengths of the prompts to read, as far as the model has positions",
    )
    parser.add_argument(
        "--depths", type=int, nargs="*", default=_DEPTHS, metavar="N", help="tokens before those to decode"
    )
    parser.add_argument("--profile", action="store_true", help="also say where the time goes, by operation")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    common.add_format_arguments(parser)
    common.add_profile_argument(parser)
    common.add_runtime_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    common.apply_runtime_arguments(arguments)
    model = common.load_model(
        arguments.directory, numeric_profile=arguments.numeric_profile, **common.formats(arguments)
    )
    work = _work(model, arguments.prompts, arguments.depths)
    facts: dict[str, Any] = {
        "isa": isobit.active_isa(),
        "threads": isobit.num_threads(),
        "weight_format": model.weight_format,
        "embed_format": model.embed_format,
        "numeric_profile": model.numeric_profile,
        **isobit.measure(),
        "rows": [row(model, kind, length, arguments.profile) for kind, length in work],
    }
    print(json.dumps(facts, indent=2) if arguments.json else _as_text(facts))
    return 0


def _work(model: CausalLM, prompts: Sequence[int], depths: Sequence[int]) -> list[tuple[str, int]]:
    """The rows for which the model has positions enough."""
    for n in (*prompts, *depths):
        if n < 1:
            raise ValueError(f"[bench] length: expected at least 1, got {n}")
    room = model.max_positions
    rows = [("prefill", n) for n in prompts if n < room]
    return rows + [("decode", n) for n in depths if n + _TOKENS <= room]


def row(model: CausalLM, kind: str, length: int, profile: bool) -> dict[str, Any]:
    """One line: tokens per second, floating-point operations and bytes of memory read per second."""
    if profile:
        _core.set_profiling(True)
    seconds = _prefill(model, length) if kind == "prefill" else _decode(model, length)
    stages = _core.profile() if profile else []
    if profile:
        _core.set_profiling(False)
    tokens = length if kind == "prefill" else 1
    flop, read = counts(model, kind, length)
    return {
        "work": kind,
        "length": length,
        "tokens_per_second": tokens / seconds,
        "gflop_per_second": flop / seconds / 1e9,
        "bandwidth_gb_per_second": read / seconds / 1e9,
        "profile": [
            {"stage": stage, "seconds": t, "calls": calls, "flop": work} for stage, t, calls, work in stages
        ],
    }


def counts(model: CausalLM, kind: str, length: int, batch: int = 1) -> tuple[int, int]:
    """Floating-point operations of a prompt of `length` or a step after it, and bytes of memory it reads."""
    tokens = length if kind == "prefill" else 1
    keys = length // 2 if kind == "prefill" else length  # that a token sees on average
    plan = model.plan
    head = plan.vocab_size * plan.d_model
    layers, kinds = model.projection_elements, plan.layer_kinds
    per_key = 2 * plan.head_dim * sum(kind in ("attention", "both") for kind in kinds)
    scans = common.mamba_layers(plan)
    flop = 2 * head + tokens * (2 * layers + 2 * per_key * plan.n_heads * keys + scans * _scan_flop(plan))
    read = model.step_bytes
    read += 4 * (per_key * plan.n_kv_heads * keys + scans * common.mamba_state_numbers(plan)) * batch
    return flop * batch, read


def _scan_flop(plan: Any) -> int:
    """Operations of a Mamba layer's convolution and recurrence for one token."""
    shape = plan.mamba_shape
    if shape is None:
        return 0
    # Each cell: the decay (in version 1 a product and exp, counted as one), a product or two, two
    # multiply-adds; version 3 has three for each rank.
    per_cell: int = {1: 8, 2: 5, 3: 1 + 6 * shape["rank"]}[shape["version"]]
    conv: int = shape["conv_channels"] * shape["conv_width"]
    cells: int = shape["channels"] * shape["states"]
    return cells * per_cell + 2 * conv


def _ids(model: CausalLM, length: int) -> list[list[int]]:
    return [[(7919 * i + 13) % model.vocab_size for i in range(length)]]


def _prefill(model: CausalLM, length: int) -> float:
    def once() -> float:
        begin = time.perf_counter()
        model.generate(_ids(model, length), 1)
        return time.perf_counter() - begin

    once()  # reads weights where the file has them
    once()  # packs them
    return statistics.median(once() for _ in range(_REPEATS))


def _decode(model: CausalLM, length: int) -> float:
    """The median step of a few dozen, after a prompt of `length` tokens."""
    times: list[float] = []

    def on_token(step: int, ids: Any, logits: Any) -> bool:
        times.append(time.perf_counter())
        return True

    model._generate_stream(_ids(model, length), _TOKENS, on_token)
    return statistics.median(b - a for a, b in itertools.pairwise(times))


def _as_text(facts: dict[str, Any]) -> str:
    peak, bandwidth = facts["gflop_per_second"], facts["bandwidth_gb_per_second"]
    lines = [
        f"{facts['isa']}, {facts['threads']} threads, {facts['weight_format']} weights, "
        f"{facts['embed_format']} head, {facts['numeric_profile']}: {peak:.0f} GFLOP/s of "
        f"float32 multiply-adds and {bandwidth:.1f} GB/s of memory reads at most",
        f"{'work':<20}{'tokens/s':>10}{'GFLOP/s':>10}{'of peak':>9}{'GB/s':>8}{'of peak':>9}",
    ]
    for r in facts["rows"]:
        work = f"{r['work']} {'of' if r['work'] == 'prefill' else 'after'} {r['length']}"
        flop, read = r["gflop_per_second"], r["bandwidth_gb_per_second"]
        lines.append(
            f"{work:<20}{r['tokens_per_second']:>10.1f}{flop:>10.1f}{flop / peak:>9.0%}{read:>8.1f}"
            f"{read / bandwidth:>9.0%}"
        )
        stages = [(s["stage"], s["seconds"], s["calls"], s["flop"]) for s in r["profile"]]
        lines += _core.profile_table(stages).splitlines()
    return "\n".join(lines)

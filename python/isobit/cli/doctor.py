# SPDX-License-Identifier: Apache-2.0
"""Says what this machine offers and whether it computes the bits that every machine must compute."""

from __future__ import annotations

import argparse
import json
from typing import Any

import isobit
from isobit.cli import common

NAME = "doctor"
HELP = "check this machine: instruction sets, speed, golden digests"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    common.add_runtime_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    common.apply_runtime_arguments(arguments)
    facts = examine()
    print(json.dumps(facts, indent=2) if arguments.json else _as_text(facts))
    return 0 if facts["first_difference"] is None else 1


def examine() -> dict[str, Any]:
    """Everything `isobit doctor` says; `first_difference` is the first stage that differs, or None."""
    chosen = isobit.active_isa()
    differing = None
    for isa in isobit.available_isas():
        isobit.set_isa(isa)
        for stage, expected, got in isobit.self_test():
            if expected != got and differing is None:
                differing = {"isa": isa, "stage": stage, "expected": expected, "got": got}
    isobit.set_isa(chosen)
    return {
        "version": isobit.version(),
        "contract_version": isobit.contract_version(),
        "isas": isobit.available_isas(),
        "isa": chosen,
        "threads": isobit.num_threads(),
        **isobit.measure(),
        "first_difference": differing,
    }


def _as_text(facts: dict[str, Any]) -> str:
    lines = [
        f"version           {facts['version']}, arithmetic contract {facts['contract_version']}",
        f"instruction sets  {', '.join(facts['isas'])} (in use: {facts['isa']})",
        f"threads           {facts['threads']}",
        f"memory reads      {facts['bandwidth_gb_per_second']:.1f} GB/s",
        f"multiply-adds     {facts['gflop_per_second']:.1f} GFLOP/s",
    ]
    differing = facts["first_difference"]
    if differing is None:
        return "\n".join([*lines, "self-test         OK"])
    lines.append(f"self-test         DIFFERS first in {differing['stage']} with {differing['isa']}")
    return "\n".join([*lines, f"                  expected {differing['expected']}, got {differing['got']}"])

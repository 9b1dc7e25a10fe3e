# SPDX-License-Identifier: Apache-2.0
"""What several commands share: threads and instruction set, loading with a progress bar, stop ids, digest."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import isobit
from isobit._modes import PROFILES
from isobit.lowbit import FORMATS
from isobit.models import CausalLM, ModelPlan

_BAR_WIDTH = 30
# C0, DEL, C1, which a terminal obeys, and lone surrogates, which it cannot be sent.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROLS_OF_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline


def add_runtime_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, metavar="N", help="threads to use (cannot change a bit)")
    parser.add_argument("--isa", metavar="NAME", help="instruction set to use (cannot change a bit)")


def add_format_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--weight-format",
        choices=FORMATS,
        default="float32",
        help="how projections are kept in memory; default: float32",
    )
    parser.add_argument(
        "--embed-format",
        choices=("float32", "bfloat16"),
        default="float32",
        help="how embedding and head are kept in memory; default: float32",
    )


def add_profile_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--numeric-profile",
        choices=PROFILES,
        help="arithmetic of the matrix products; default: ISOBIT_NUMERIC_PROFILE, else fp32_v1",
    )


def mamba_state_numbers(plan: ModelPlan) -> int:
    """What a sequence keeps in one Mamba layer, whatever its length: the recurrent state and, in versions 1
    and 2, the window of the convolution, in version 3 the angles and the last token's key and input."""
    shape = plan.mamba_shape
    if shape is None:
        return 0
    numbers = shape["channels"] * shape["states"]
    if shape["version"] < 3:
        return numbers + shape["conv_channels"] * shape["conv_width"]
    return numbers + shape["heads"] * (shape["angles"] + shape["rank"] * shape["states"] + shape["head_dim"])


def mamba_layers(plan: ModelPlan) -> int:
    return sum(kind in ("mamba", "both") for kind in plan.layer_kinds)


def apply_runtime_arguments(arguments: argparse.Namespace) -> None:
    if arguments.threads is not None:
        isobit.set_num_threads(arguments.threads)
    if arguments.isa is not None:
        isobit.set_isa(arguments.isa)


class ProgressBar:
    """A bar on stderr: only on a terminal, at most ten times a second, wiped when the work ends."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._enabled = sys.stderr is not None and sys.stderr.isatty()
        self._next = 0.0

    def __enter__(self) -> Callable[[int, int], None]:
        return self.update

    def __exit__(self, *_: object) -> None:
        if self._enabled:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def update(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._enabled or (now < self._next and done < total):
            return
        self._next = now + 0.1
        part = done / total if total else 1.0
        bar = ("#" * int(part * _BAR_WIDTH)).ljust(_BAR_WIDTH)
        sys.stderr.write(f"\r{self._label} [{bar}] {part:4.0%}")
        sys.stderr.flush()


def visible(text: str) -> str:
    """`text`, which may come from a file, with control characters as Python would write them."""
    return _CONTROLS.sub(lambda match: match.group().encode("unicode_escape", "surrogatepass").decode(), text)


def to_json(value: Any, **options: Any) -> str:
    """JSON without a control character, whichever `ensure_ascii` says."""
    text = json.dumps(value, **options)
    escaped = "[\x7f-\x9f\ud800-\udfff]"
    return re.sub(escaped, lambda match: f"\\u{ord(match.group()):04x}", text)


def print_now(text: str) -> None:
    """Generated text. A terminal gets U+FFFD for the control characters that a model can write."""
    sys.stdout.write(_CONTROLS_OF_TEXT.sub("\ufffd", text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def load_model(directory: str | Path, **options: Any) -> CausalLM:
    """With a progress bar; warnings are lines on stderr."""
    with warnings.catch_warnings(record=True) as caught, ProgressBar("loading") as progress:
        model = CausalLM.load(directory, progress=progress, **options)
    for warning in caught:
        if sys.stderr is not None:
            print(f"isobit: warning: {warning.message}", file=sys.stderr)
    return model


def formats(arguments: argparse.Namespace) -> dict[str, str]:
    """The keywords of CausalLM.load that add_format_arguments asks for."""
    return {"weight_format": arguments.weight_format, "embed_format": arguments.embed_format}


def stored_as(model: CausalLM) -> str:
    """What a digest depends on besides the checkpoint: " with int8 weights"; nothing for float32."""
    formats = {"weights": model.weight_format, "embedding": model.embed_format}
    parts = [f"{fmt} {what}" for what, fmt in formats.items() if fmt != "float32"]
    parts += [] if model.numeric_profile == "fp32_v1" else [model.numeric_profile]
    return f" with {' and '.join(parts)}" if parts else ""


def stop_ids(directory: str | Path, tokenizer_eos: int | None) -> set[int]:
    """The ids that end an answer: those of generation_config.json, of config.json and the tokenizer's."""
    ids = set() if tokenizer_eos is None else {tokenizer_eos}
    for name in ("generation_config.json", "config.json"):
        path = Path(directory) / name
        if not path.is_file():
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"[generate] {name}: expected JSON, got: {error}") from None
        value = content.get("eos_token_id") if isinstance(content, dict) else None
        candidates = value if isinstance(value, list) else [value]
        ids.update(i for i in candidates if isinstance(i, int) and not isinstance(i, bool))
    return ids


def digest(ids: Sequence[int], last_logits: Any) -> str:
    """SHA-256 over the ids as little-endian int32 and the last logits as little-endian float32."""
    sha = hashlib.sha256()
    sha.update(b"".join(int(i).to_bytes(4, "little", signed=True) for i in ids))
    sha.update(last_logits.tobytes())
    return sha.hexdigest()

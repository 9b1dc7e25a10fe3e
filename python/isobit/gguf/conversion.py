# SPDX-License-Identifier: Apache-2.0
"""Turns a GGUF file into a Hugging Face checkpoint directory: config, weights, tokenizer, generation
settings.

The directory appears complete or not at all: it is built beside its final place and renamed.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isobit.gguf.architectures import map_model
from isobit.gguf.reader import GGUFFile
from isobit.gguf.tokenizer import map_tokenizer
from isobit.gguf.writer import check_types, write_tensors

# All that a converted directory holds.
_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)


def convert(
    gguf_path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    force: bool = False,
    keep_quantized: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Writes the checkpoint directory `out` and returns it.

    Quantised tensors are decoded to float32; F32, F16 and BF16 keep their type. With keep_quantized the
    matrices of Q8_0, Q4_0 and Q4_1 keep their blocks, which only isobit reads: numeric_profile="int8x32_v1"
    multiplies by them as they are, any other loads what they decode to. An existing `out` is refused
    unless `force`, which replaces it only once the new directory is complete. ValueError names what a file
    lacks or what is not supported. `progress` is called with (bytes written, bytes in all).
    """
    target = Path(os.path.abspath(out))
    _check_target(target, force)
    with GGUFFile(gguf_path) as file:
        mapping = map_model(file)
        check_types(file, mapping.sources)
        config = mapping.config
        tokens = map_tokenizer(file, config["vocab_size"], config["max_position_embeddings"])
        ids: dict[str, Any] = {
            "bos_token_id": tokens.bos_id,
            "eos_token_id": tokens.eos_ids[0] if len(tokens.eos_ids) == 1 else tokens.eos_ids or None,
            "pad_token_id": tokens.pad_id,
        }
        target.parent.mkdir(parents=True, exist_ok=True)
        building = target.parent / f".{target.name}.{secrets.token_hex(6)}.partial"
        building.mkdir()
        try:
            write_tensors(
                building / "model.safetensors", file, mapping.sources, progress, keep_quantized=keep_quantized
            )
            _write_json(building / "config.json", config | ids)
            _write_json(building / "generation_config.json", {"do_sample": False} | ids)
            _write_json(building / "tokenizer.json", tokens.tokenizer)
            _write_json(building / "tokenizer_config.json", tokens.config)
            _sync_directory(building)
            _put_in_place(building, target, force)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return target


def _check_target(target: Path, force: bool) -> None:
    if not os.path.lexists(target):
        return
    if not force:
        raise FileExistsError(f"[convert] OUT: expected a path that does not exist, or --force, got {target}")
    # --force replaces an earlier result, never some other directory that happens to have the name.
    if not target.is_dir() or target.is_symlink():
        raise ValueError(f"[convert] OUT: expected a directory to replace, got {target}")
    others = sorted(path.name for path in target.iterdir() if path.name not in _FILES)
    if others:
        raise ValueError(
            f"[convert] OUT: expected a converted directory to replace, got one with {others[0]}"
        )


def _put_in_place(building: Path, target: Path, force: bool) -> None:
    """Renames; with `force` the old directory makes room first and comes back if the second rename fails."""
    old = None
    if force and target.exists():
        old = building.with_suffix(".old")
        target.rename(old)
    try:
        building.rename(target)
    except OSError:
        if old is not None:
            old.rename(target)
        raise
    _sync_directory(target.parent)
    if old is not None:
        shutil.rmtree(old)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with open(path, "w", encoding="utf-8") as out:
        json.dump(content, out, ensure_ascii=False, indent=2)
        out.write("\n")
        out.flush()
        os.fsync(out.fileno())


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

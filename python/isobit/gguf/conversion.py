# SPDX-License-Identifier: Apache-2.0
"""Turns a GGUF file into a Hugging Face checkpoint directory: config, weights, tokenizer, generation
settings.

The directory appears complete or not at all: it is built beside its final place and renamed. What a killed
conversion leaves there, `.OUT.<12 hex digits>.partial` or `.old`, is taken away by the next one to the same
place; an `.old` without its successor is the earlier result and comes back.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
    unless `force`, which replaces it only once the new directory is complete and keeps its mode. A symbolic
    link is followed. ValueError names what a file
    lacks or what is not supported. `progress` is called with (bytes written, bytes in all).
    """
    target = Path(os.path.realpath(out))
    _clean(target)
    _check_target(target, force)
    try:
        _convert(gguf_path, target, force, keep_quantized, progress)
    except OSError as error:  # a write to a full disk does not say where
        error.filename = error.filename or str(target)
        raise
    return Path(os.path.abspath(out))


def _convert(
    gguf_path: str | os.PathLike[str],
    target: Path,
    force: bool,
    keep_quantized: bool,
    progress: Callable[[int, int], None],
) -> None:
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
        with _parents(target), _building(target) as building:
            write_tensors(
                building / "model.safetensors", file, mapping.sources, progress, keep_quantized=keep_quantized
            )
            _write_json(building / "config.json", config | ids)
            _write_json(building / "generation_config.json", {"do_sample": False} | ids)
            _write_json(building / "tokenizer.json", tokens.tokenizer)
            _write_json(building / "tokenizer_config.json", tokens.config)
            _sync_directory(building)
            _put_in_place(building, target, force)


@contextmanager
def _parents(target: Path) -> Iterator[None]:
    """Makes the folders above `target`, and removes those again when the work fails."""
    missing = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
        for folder in missing:
            _sync_directory(folder.parent)
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


def _clean(target: Path) -> None:
    """Takes away what killed processes left beside `target`. A folder that one works on is locked."""
    left_behind = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{12}\.(partial|old)")
    for path in list(target.parent.iterdir()) if target.parent.is_dir() else []:
        match = left_behind.fullmatch(path.name)
        if match is None or not path.is_dir() or path.is_symlink():
            continue
        with suppress(FileNotFoundError), _locked(path) as is_ours:
            if not is_ours or (match[1] == "old" and _others(path)):
                continue
            if match[1] == "old" and not os.path.lexists(target):
                path.rename(target)
            else:
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _building(target: Path) -> Iterator[Path]:
    """A folder beside `target` for the time of the work."""
    building = target.parent / f".{target.name}.{secrets.token_hex(6)}.partial"
    building.mkdir()
    try:
        with _locked(building):
            yield building
    finally:
        shutil.rmtree(building, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether nobody else holds the folder. The lock ends with the block or the process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = True
        except OSError:  # held, or a file system without locks: then nothing is known
            is_ours = False
        yield is_ours
    finally:
        os.close(handle)


def _others(folder: Path) -> list[str]:
    """What a folder holds beside a converted model."""
    return sorted(path.name for path in folder.iterdir() if path.name not in _FILES)


def _check_target(target: Path, force: bool) -> None:
    if not os.path.lexists(target):
        return
    if not force:
        raise FileExistsError(f"[convert] OUT: expected a path that does not exist, or --force, got {target}")
    # --force replaces an earlier result, never some other directory that happens to have the name.
    if not target.is_dir():
        raise ValueError(f"[convert] OUT: expected a directory to replace, got {target}")
    if others := _others(target):
        raise ValueError(
            f"[convert] OUT: expected a converted directory to replace, got one with {others[0]}"
        )


def _put_in_place(building: Path, target: Path, force: bool) -> None:
    """Renames; with `force` the old directory makes room first and comes back if the second rename fails."""
    if not force or not target.exists():
        building.rename(target)
        _sync_directory(target.parent)
        return
    old = building.with_suffix(".old")
    shutil.copymode(target, building)
    with _locked(target):
        target.rename(old)
        try:
            building.rename(target)
        except OSError:
            old.rename(target)
            raise
        _sync_directory(target.parent)
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

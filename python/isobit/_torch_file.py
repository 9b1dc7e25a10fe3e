# SPDX-License-Identifier: Apache-2.0
"""Tensors of a pytorch_model.bin, a zip archive with a pickle that names the parts of the other entries, or
of an index file and several of them.

A pickle is a program, so it runs here with few instructions and nothing to call: the only names it can look
up are OrderedDict, the dtypes of storages, and a function that notes which part of which storage a tensor is.
Everything else, and every number that does not fit the archive, is a ValueError. Not read: archives from
before torch 1.6, compressed entries, tensors that are not contiguous.
"""

from __future__ import annotations

import collections
import io
import json
import math
import pickle
import zipfile
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn

from .array import Array

NAME = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"
_DTYPES = {"FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16"}
_SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}
_MAX_PICKLE = 1 << 26  # bytes: some hundred for each tensor
_MAX_INDEX = 100_000_000
# What torch writes for a dict of tensors: numbers, texts, tuples, dicts, references. No instruction allocates
# by a number in the file, changes an object's attributes, or makes an object of a class.
_INSTRUCTIONS = (
    pickle.PROTO, pickle.STOP, pickle.MARK, pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE,
    pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.BINUNICODE, pickle.SHORT_BINUNICODE,
    pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3,
    pickle.EMPTY_DICT, pickle.SETITEM, pickle.SETITEMS,
    pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE, pickle.BINGET, pickle.LONG_BINGET,
    pickle.GLOBAL, pickle.BINPERSID, pickle.REDUCE, pickle.BUILD,
)  # fmt: skip


class _Storage(NamedTuple):
    dtype: str
    key: str
    size: int


class _Part(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]


class _Dtype(NamedTuple):
    name: str


class _Rebuild:
    """Stands for torch._utils._rebuild_tensor_v2."""

    def __call__(self, storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> _Part:
        numbers = (offset, *shape, *stride) if isinstance(shape, tuple) and isinstance(stride, tuple) else ()
        plain = all(type(n) is int and 0 <= n < 1 << 48 for n in numbers)
        if not isinstance(storage, _Storage) or not numbers or not plain or len(shape) != len(stride):
            raise ValueError("expected a tensor's storage, offset, shape and stride")
        expected = 1
        for extent, step in zip(reversed(shape), reversed(stride), strict=True):
            if extent > 1 and step != expected:
                raise ValueError(f"expected contiguous tensors, got strides {stride} of shape {shape}")
            expected *= extent
        if offset + math.prod(shape) > storage.size:
            raise ValueError(f"expected a tensor inside its storage of {storage.size}, got shape {shape}")
        return _Part(storage, offset, shape)


class _Reader(pickle._Unpickler):
    """Finds only what a state dict of tensors is made of."""

    stack: list[Any]

    def load_build(self) -> None:
        """The attributes of a state dict say nothing about its tensors."""
        self.stack.pop()

    dispatch: ClassVar[dict[int, Any]] = {
        code[0]: pickle._Unpickler.dispatch[code[0]] for code in _INSTRUCTIONS
    }
    dispatch[pickle.BUILD[0]] = load_build

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _Rebuild()
        if module == "torch" and name in _DTYPES:
            return _Dtype(_DTYPES[name])
        raise ValueError(f"expected tensors of float32, float16 or bfloat16 alone, got {module}.{name}")

    def persistent_load(self, pid: Any) -> _Storage:
        if isinstance(pid, tuple) and len(pid) == 5:
            kind, dtype, key, _, size = pid
            known = kind == "storage" and isinstance(dtype, _Dtype) and isinstance(key, str)
            if known and type(size) is int and size >= 0:
                return _Storage(dtype.name, key, size)
        raise ValueError("expected references to storages")


def find(directory: Path) -> Path | None:
    """The index or the archive of a directory that holds no safetensors."""
    if any(directory.glob("*.safetensors")) or (directory / "model.safetensors.index.json").exists():
        return None
    paths = (directory / INDEX, directory / NAME)
    return next((path for path in paths if path.is_file()), None)


def read(path: Path) -> dict[str, Array]:
    """The tensors by name. ValueError names a file that does not fit, FileNotFoundError missing shards."""
    return _read_shards(path) if path.name == INDEX else _read_archive(path)


def _read_shards(index: Path) -> dict[str, Array]:
    """The index is authoritative: a copy of a tensor in another shard than the named one is not taken. What
    it does not mention is offered too, so that a reader can refuse it."""
    weight_map = _weight_map(index)
    shards = sorted(set(weight_map.values()))
    missing = [shard for shard in shards if not (index.parent / shard).is_file()]
    if missing:
        raise FileNotFoundError(
            f"[CausalLM] {index}: expected every shard beside it, missing are {missing[:5]}"
        )
    tensors: dict[str, Array] = {}
    for shard in shards:
        for name, tensor in _read_archive(index.parent / shard).items():
            if weight_map.get(name, shard) != shard:
                continue
            if name in tensors:
                raise ValueError(
                    f"[CausalLM] {index}: expected one shard for {name!r}, got two and no choice"
                )
            tensors[name] = tensor
    absent = [name for name in weight_map if name not in tensors]
    if absent:
        raise ValueError(f"[CausalLM] {index}: expected every tensor in its shard, absent are {absent[:5]}")
    return tensors


def _weight_map(index: Path) -> dict[str, str]:
    """Tensor -> shard. The index decides what is read, so it must not reach outside its directory."""
    try:
        if index.stat().st_size > _MAX_INDEX:
            raise ValueError(f"expected at most {_MAX_INDEX} bytes")
        content = json.loads(index.read_bytes())
        weight_map = content["weight_map"] if isinstance(content, dict) and "weight_map" in content else None
        if not isinstance(weight_map, dict):
            raise ValueError('expected an object with an object "weight_map"')
        for name, shard in weight_map.items():
            if not isinstance(shard, str) or shard in ("", ".", "..") or set(shard) & set("/\\\0"):
                raise ValueError(f"expected a plain file name for {name!r}, got {shard!r}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"[CausalLM] {index}: {error}") from None
    return weight_map


def _read_archive(path: Path) -> dict[str, Array]:
    def refuse(reason: object) -> NoReturn:
        raise ValueError(f"[CausalLM] {path}: {reason}; files of safetensors are read without a pickle")

    try:
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            if len(entries) != len(archive.infolist()):
                raise ValueError("expected entries of different names")
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries.values()):
                raise ValueError("expected entries that are not compressed")
            (program,) = [name for name in entries if name.endswith("/data.pkl")] or [""]
            if not program or entries[program].file_size > _MAX_PICKLE:
                raise ValueError(f"expected one data.pkl of at most {_MAX_PICKLE} bytes")
            parts = _Reader(io.BytesIO(archive.read(program))).load()
            return _tensors(archive, entries, program.removesuffix("data.pkl"), parts)
    except zipfile.BadZipFile:
        refuse("expected a zip archive, as torch writes them since 1.6")
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:  # whatever a pickle can be made to raise
        refuse(error)


def _tensors(
    archive: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo], prefix: str, parts: Any
) -> dict[str, Array]:
    if not isinstance(parts, dict) or not all(
        isinstance(name, str) and isinstance(part, _Part) for name, part in parts.items()
    ):
        raise ValueError("expected a dict of tensors by name")
    tensors: dict[str, Array] = {}
    stored = sum(entry.file_size for entry in entries.values())
    if sum(math.prod(part.shape) * _SIZES[part.storage.dtype] for part in parts.values()) > 2 * stored:
        raise ValueError("expected tensors of at most twice the archive's size")
    for name, part in parts.items():
        storage = part.storage
        item = _SIZES[storage.dtype]
        entry = entries.get(f"{prefix}data/{storage.key}")
        if entry is None or entry.file_size != storage.size * item:
            raise ValueError(f"expected {storage.size * item} bytes in data/{storage.key} for {name!r}")
        begin = part.offset * item
        values = archive.read(entry)[begin : begin + math.prod(part.shape) * item]
        if storage.dtype == "bfloat16":
            tensors[name] = Array.frombytes(_widened(values), "float32", part.shape)
        else:
            tensors[name] = Array.frombytes(values, storage.dtype, part.shape)
    return tensors


def _widened(bits: bytes) -> bytes:
    """bfloat16 as float32: the same bits above 16 zeros."""
    wide = bytearray(2 * len(bits))
    wide[2::4], wide[3::4] = bits[::2], bits[1::2]
    return bytes(wide)

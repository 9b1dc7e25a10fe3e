# SPDX-License-Identifier: Apache-2.0
"""Reads the structure of a GGUF file: its metadata, and where each tensor lies.

Every count, length and offset is checked against the size of the file before it is used, so that a truncated
or hostile file gives one ValueError and never a long loop. What the tensors' bytes mean is not decided here.
"""

from __future__ import annotations

import math
import mmap
import os
import stat
import struct
from dataclasses import dataclass
from typing import Any

import gguf

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_KINDS: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "boolean": (bool,),
    "list of strings": (str,),
    "list of integers": (int,),
    "list of numbers": (int, float),
}
_REQUIRED = object()
_MAX_DIMS = 4


@dataclass(frozen=True)
class GGUFTensor:
    """One tensor: `shape` is outermost first, `begin` counts from the start of the file."""

    name: str
    quant: gguf.GGMLQuantizationType
    shape: tuple[int, ...]
    begin: int
    nbytes: int


class _Cursor:
    """Takes little-endian values from a mapping and refuses to run past its end."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.pos = 0

    def take(self, count: int, what: str) -> int:
        """Moves past `count` bytes and returns where they begin."""
        begin = self.pos
        if count > len(self.data) - begin:
            raise ValueError(
                f"[GGUFFile] {what}: expected {count} bytes at offset {begin}, got the end of the file after "
                f"{len(self.data) - begin}"
            )
        self.pos += count
        return begin

    def scalars(self, code: str, count: int, what: str) -> tuple[Any, ...]:
        form = f"<{count}{code}"
        begin = self.take(struct.calcsize(form), what)
        return struct.unpack_from(form, self.data, begin)

    def scalar(self, code: str, what: str) -> Any:
        return self.scalars(code, 1, what)[0]

    def string(self, what: str) -> str:
        length = self.scalar("Q", what)
        begin = self.take(length, what)
        try:
            return self.data[begin : begin + length].decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(
                f"[GGUFFile] {what}: expected UTF-8 text, got other bytes at offset {begin}"
            ) from None

    def value(self, code: int, what: str) -> Any:
        if code == _STRING:
            return self.string(what)
        if code in _SCALARS:
            return self.scalar(_SCALARS[code], what)
        if code != _ARRAY:
            raise ValueError(f"[GGUFFile] {what}: expected a value type 0..12, got {code}")
        item, count = self.scalar("I", what), self.scalar("Q", what)
        if item == _STRING:
            return [self.string(what) for _ in range(count)]
        if item in _SCALARS:
            # The width is checked first: a count of 2**60 must not become a format string that struct
            # measures.
            width = struct.calcsize("<" + _SCALARS[item])
            if count * width > len(self.data) - self.pos:
                raise ValueError(f"[GGUFFile] {what}: expected {count} elements, got the end of the file")
            return list(self.scalars(_SCALARS[item], count, what))
        raise ValueError(
            f"[GGUFFile] {what}: expected an array of scalars or strings, got element type {item}"
        )


class GGUFFile:
    """An open GGUF file (version 2 or 3, little-endian): `metadata`, `tensors` and their raw bytes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # Before it is opened: opening a pipe waits for somebody to write to it.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError(f"[GGUFFile] path: expected a regular file, got {os.fspath(path)}")
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < 24:
                raise ValueError(
                    f"[GGUFFile] {os.fspath(path)}: expected a GGUF file, got fewer than 24 bytes"
                )
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, GGUFTensor] = {}
        try:
            self._parse(_Cursor(self._data))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._data.close()

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def raw(self, tensor: GGUFTensor) -> bytes:
        """The bytes of one tensor, copied out of the mapping."""
        return self._data[tensor.begin : tensor.begin + tensor.nbytes]

    def get(self, key: str, kind: str, default: Any = _REQUIRED) -> Any:
        """The value of `key`, which must be of `kind` (a name in this module's table), or ValueError."""
        if key not in self.metadata:
            if default is _REQUIRED:
                raise ValueError(f"[GGUFFile] {key}: expected {kind}, got a file without this key")
            return default
        value = self.metadata[key]
        is_list = kind.startswith("list")
        items = value if isinstance(value, list) else [value]
        accepted = _KINDS[kind]
        right = isinstance(value, list) == is_list and all(
            isinstance(v, accepted) and (bool in accepted or not isinstance(v, bool)) for v in items
        )
        if not right:
            raise ValueError(f"[GGUFFile] {key}: expected {kind}, got {_describe(value)}")
        if float in accepted and not all(math.isfinite(v) for v in items):
            raise ValueError(f"[GGUFFile] {key}: expected finite numbers, got {_describe(value)}")
        return value

    def _parse(self, cursor: _Cursor) -> None:
        magic = self._data[cursor.take(4, "magic") : 4]
        if magic != b"GGUF":
            raise ValueError(f"[GGUFFile] magic: expected b'GGUF', got {magic!r}")
        version = cursor.scalar("I", "version")
        if version not in (2, 3):
            hint = " (a big-endian file)" if version & 0xFFFF == 0 else ""
            raise ValueError(f"[GGUFFile] version: expected 2 or 3, got {version}{hint}")
        tensor_count, key_count = cursor.scalars("Q", 2, "counts")
        for index in range(key_count):
            key = cursor.string(f"key {index} of {key_count}")
            if key in self.metadata:
                raise ValueError(f"[GGUFFile] {key}: expected one value, got a duplicate key")
            self.metadata[key] = cursor.value(cursor.scalar("I", key), key)
        alignment = self.get("general.alignment", "integer", 32)
        if alignment <= 0 or alignment & (alignment - 1):
            raise ValueError(f"[GGUFFile] general.alignment: expected a power of two, got {alignment}")
        headers = [self._tensor_header(cursor, f"tensor {i} of {tensor_count}") for i in range(tensor_count)]
        data_begin = -(-cursor.pos // alignment) * alignment
        end = data_begin
        for name, shape, quant, offset in sorted(headers, key=lambda header: header[3]):
            tensor = self._place(name, shape, quant, data_begin, offset)
            if offset % alignment:
                raise ValueError(f"[GGUFFile] {name}: expected an offset of n * {alignment}, got {offset}")
            if name in self.tensors or tensor.begin < end:
                raise ValueError(
                    f"[GGUFFile] {name}: expected a place of its own, got a duplicate or an overlap"
                )
            end = tensor.begin + tensor.nbytes
            self.tensors[name] = tensor

    @staticmethod
    def _tensor_header(cursor: _Cursor, what: str) -> tuple[str, tuple[int, ...], int, int]:
        name = cursor.string(what)
        n_dims = cursor.scalar("I", name)
        if not 1 <= n_dims <= _MAX_DIMS:
            raise ValueError(f"[GGUFFile] {name}: expected 1 to {_MAX_DIMS} dimensions, got {n_dims}")
        shape = tuple(reversed(cursor.scalars("Q", n_dims, name)))
        return name, shape, cursor.scalar("I", name), cursor.scalar("Q", name)

    def _place(
        self, name: str, shape: tuple[int, ...], quant: int, data_begin: int, offset: int
    ) -> GGUFTensor:
        try:
            kind = gguf.GGMLQuantizationType(quant)
        except ValueError:
            raise ValueError(f"[GGUFFile] {name}: expected a known tensor type, got number {quant}") from None
        block, width = gguf.GGML_QUANT_SIZES[kind]
        elements = math.prod(shape)
        if elements == 0 or shape[-1] % block:
            raise ValueError(
                f"[GGUFFile] {name}: expected rows of a positive multiple of {block} for {kind.name}, "
                f"got shape {list(shape)}"
            )
        nbytes = elements // block * width
        if data_begin + offset + nbytes > len(self._data):
            raise ValueError(
                f"[GGUFFile] {name}: expected {nbytes} bytes at offset {offset}, got a file of "
                f"{max(len(self._data) - data_begin, 0)} data bytes"
            )
        return GGUFTensor(name, kind, shape, data_begin + offset, nbytes)


def _describe(value: Any) -> str:
    text = repr(value if not isinstance(value, list) else value[:4])
    return f"{type(value).__name__} {text[:80]}"

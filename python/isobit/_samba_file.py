# SPDX-License-Identifier: Apache-2.0
"""The streamed checkpoint of a Samba stack.

Layout, little-endian, nothing between or behind the parts:
  14 bytes  b"ISOBIT-SAMBA" 0x01 0x0A
   8 bytes  length of the header, at most 1 MiB
             the header: canonical ASCII JSON (sorted keys, no spaces)
  32 bytes  SHA-256 of the header
             parameters, exp_avg, exp_avg_sq: float32, all tensors in registry order, row-major
             buf_initialized: one int32 for each tensor
The header is {"arrays": {part: {"dtype", "nbytes", "sha256"}}, "schema": "isobit.samba-stream.v1",
"state": {...}}; state holds schema "isobit.samba-stack-state.v1", profile "isobit.samba-stack.fp32.v1",
numeric_mode, config, registry ([name, shape, offset, size] in floats), t, optimizer, schedule and rng. Every
length is derived from the config; what the header says must agree.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from typing import IO, Any

from .array import Array

MAGIC = b"ISOBIT-SAMBA\x01\n"
SCHEMA = "isobit.samba-stream.v1"
STATE_SCHEMA = "isobit.samba-stack-state.v1"
PROFILE = "isobit.samba-stack.fp32.v1"
MAX_HEADER = 1 << 20
PARTS = (("parameters", "f4"), ("exp_avg", "f4"), ("exp_avg_sq", "f4"), ("buf_initialized", "i4"))
_STATE_KEYS = frozenset(
    ("schema", "profile", "numeric_mode", "config", "registry", "t", "optimizer", "schedule", "rng")
)
_CHUNK = 1 << 20


def _refused(path: Any, expected: str, got: str) -> ValueError:
    """A file that is not what it says."""
    return ValueError(f"[SambaInference] {os.fspath(path)}: expected {expected}, got {got}")


def read_stream(path: str | os.PathLike[str], config_class: Any) -> tuple[Any, dict[str, Array]]:
    """The config and the parameters by name. Everything in the file is checked."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"[SambaInference] path: expected a file, got {os.fspath(path)!r}")
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        header, header_bytes = _read_header(file, path)
        config, registry = _read_state(header["state"], path, config_class)
        floats = sum(math.prod(shape) for _, shape in registry)
        lengths = {"f4": 4 * floats, "i4": 4 * len(registry)}
        expected = len(MAGIC) + 8 + header_bytes + 32 + sum(lengths[dtype] for _, dtype in PARTS)
        if size != expected:
            raise _refused(path, f"{expected} bytes, as its config says", f"{size}")
        parts = {name: _read_part(file, path, header["arrays"], name, lengths) for name, _ in PARTS}
    weights: dict[str, Array] = {}
    offset = 0
    for name, shape in registry:
        end = offset + 4 * math.prod(shape)
        weights[name] = Array.frombytes(parts["parameters"][offset:end], "f4", shape)
        offset = end
    return config, weights


def _read_header(file: IO[bytes], path: Any) -> tuple[dict[str, Any], int]:
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        raise _refused(path, "a streamed Samba checkpoint", f"the bytes {magic[:16]!r}")
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= MAX_HEADER:
        raise _refused(path, f"a header of at most {MAX_HEADER} bytes", str(length))
    text, digest = file.read(length), file.read(32)
    if len(text) != length or len(digest) != 32:
        raise _refused(path, "a whole header", "the end of the file")
    if hashlib.sha256(text).digest() != digest:
        raise _refused(path, "a header with its SHA-256", "another digest")
    try:
        header = json.loads(text.decode("ascii"))
        canonical = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        raise _refused(path, "a header of ASCII JSON", "something else") from None
    if not isinstance(header, dict) or set(header) != {"schema", "state", "arrays"}:
        raise _refused(path, "a header with schema, state and arrays", "other keys")
    if canonical.encode() != text:
        raise _refused(path, "a canonical header (sorted keys, no spaces, no duplicates)", "another spelling")
    if header["schema"] != SCHEMA:
        raise _refused(path, f"schema {SCHEMA}", repr(header["schema"])[:80])
    return header, length


def _read_state(state: Any, path: Any, config_class: Any) -> tuple[Any, list[tuple[str, tuple[int, ...]]]]:
    if isinstance(state, dict) and "numeric_profile" in state:  # which states of fp32_v1 do not have
        raise _refused(path, "a state of numeric_profile fp32_v1", repr(state["numeric_profile"])[:80])
    if not isinstance(state, dict) or set(state) != _STATE_KEYS:
        raise _refused(path, f"a state with {', '.join(sorted(_STATE_KEYS))}", "other keys")
    for key, value in (("schema", STATE_SCHEMA), ("profile", PROFILE), ("numeric_mode", "identical")):
        if state[key] != value:
            raise _refused(path, f"{key} {value}", repr(state[key])[:80])
    if isinstance(state["t"], bool) or not isinstance(state["t"], int) or state["t"] < 0:
        raise _refused(path, "a step count t >= 0", repr(state["t"])[:80])
    try:
        config = config_class.from_dict(state["config"])
    except (TypeError, ValueError) as error:
        raise _refused(path, "a valid config", str(error)) from None
    if config.to_dict() != state["config"]:
        raise _refused(path, "a config with every field", "another")
    registry: list[tuple[str, tuple[int, ...]]] = config.registry()
    listed: list[list[Any]] = []
    offset = 0
    for name, shape in registry:
        listed.append([name, list(shape), offset, math.prod(shape)])
        offset += math.prod(shape)
    if state["registry"] != listed:
        raise _refused(path, "the registry of its config", "another")
    return config, registry


def _read_part(file: IO[bytes], path: Any, arrays: Any, name: str, lengths: dict[str, int]) -> bytes:
    dtype = dict(PARTS)[name]
    wanted = {"dtype": dtype, "nbytes": lengths[dtype]}
    entry = arrays.get(name) if isinstance(arrays, dict) and len(arrays) == len(PARTS) else None
    if not isinstance(entry, dict) or set(entry) != {"dtype", "nbytes", "sha256"}:
        raise _refused(path, f"an entry for the array {name}", "none")
    if {key: entry[key] for key in wanted} != wanted:
        raise _refused(path, f"{wanted} for the array {name}", "another")
    digest, left = hashlib.sha256(), lengths[dtype]
    kept: list[bytes] = []
    while left > 0:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            raise _refused(path, f"the whole array {name}", "the end of the file")
        digest.update(chunk)
        left -= len(chunk)
        if name == "parameters":
            kept.append(chunk)
    if digest.hexdigest() != entry["sha256"]:
        raise _refused(path, f"the array {name} with its SHA-256", "another digest")
    return b"".join(kept)

# SPDX-License-Identifier: Apache-2.0
"""Writes a safetensors file tensor by tensor, so that a model larger than the memory can be converted.

The layout is the one of `isobit.models.write_safetensors`: names sorted, header padded with spaces to a
multiple of 8.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import numpy as np

from isobit.gguf.architectures import TensorSource
from isobit.gguf.reader import GGUFFile

_KEPT = {"F32": ("F32", 4), "F16": ("F16", 2), "BF16": ("BF16", 2)}
_BLOCKS = ("Q8_0", "Q4_0", "Q4_1")  # matrices of these can be kept
_DECODED = ("Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q5_K")
_CHUNK_ELEMENTS = 1 << 22


def check_types(file: GGUFFile, sources: dict[str, TensorSource]) -> None:
    """ValueError for a tensor type that is neither kept nor decoded."""
    for source in sources.values():
        kind = file.tensors[source.gguf_name].quant.name
        if kind not in _KEPT and kind not in _DECODED:
            known = ", ".join((*_KEPT, *_DECODED))
            raise ValueError(f"[convert] {source.gguf_name}: expected a tensor type of {known}, got {kind}")


def _keeps_blocks(file: GGUFFile, source: TensorSource, keep_quantized: bool) -> bool:
    return keep_quantized and file.tensors[source.gguf_name].quant.name in _BLOCKS and len(source.shape) == 2


def write_tensors(
    path: Path,
    file: GGUFFile,
    sources: dict[str, TensorSource],
    progress: Callable[[int, int], None],
    *,
    keep_quantized: bool = False,
) -> None:
    """Writes all sources and syncs the file. `progress` is called with (bytes done, bytes in all).

    keep_quantized leaves matrices of Q8_0, Q4_0 and Q4_1 as rows of blocks: U8 tensors, of which the metadata
    "isobit.blocks.NAME" says the type.
    """
    metadata = {"format": "pt"}
    header: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name, source in sorted(sources.items()):
        tensor = file.tensors[source.gguf_name]
        dtype, width = _KEPT.get(tensor.quant.name, ("F32", 4))
        shape, nbytes = list(source.shape), width * int(np.prod(source.shape, dtype=np.int64))
        if _keeps_blocks(file, source, keep_quantized):
            dtype, shape, nbytes = "U8", [shape[0], tensor.nbytes // shape[0]], tensor.nbytes
            metadata[f"isobit.blocks.{name}"] = tensor.quant.name
        begin, end = end, end + nbytes
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    done = 0
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little"))
        out.write(text)
        for _, source in sorted(sources.items()):
            for chunk in _chunks(file, source, _keeps_blocks(file, source, keep_quantized)):
                out.write(chunk)
                done += len(chunk)
                progress(done, end)
        out.flush()
        os.fsync(out.fileno())


def _chunks(file: GGUFFile, source: TensorSource, as_blocks: bool) -> Iterator[bytes]:
    """The little-endian bytes of one tensor in Hugging Face row order, some rows at a time."""
    tensor = file.tensors[source.gguf_name]
    # A vector that is reordered is reordered element by element: each is a row of its own.
    n_rows = tensor.shape[0] if len(tensor.shape) > 1 or source.paired_head else 1
    rows = np.frombuffer(file.raw(tensor), dtype=np.uint8).reshape(n_rows, -1)
    order = np.arange(n_rows)
    if source.paired_head:
        order = order.reshape(-1, source.paired_head // 2, 2).swapaxes(1, 2).reshape(-1)
    step = max(1, _CHUNK_ELEMENTS * n_rows // int(np.prod(tensor.shape, dtype=np.int64)))
    for begin in range(0, n_rows, step):
        part = rows[order[begin : begin + step]]
        if tensor.quant.name not in _KEPT and not as_blocks:
            part = gguf.dequantize(part, tensor.quant).astype("<f4", copy=False)
        yield part.tobytes()

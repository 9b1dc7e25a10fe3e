# SPDX-License-Identifier: Apache-2.0
"""SafetensorsFile, Checkpoint and write_safetensors: round trips and malformed files."""

import json
import os
import socket
import stat
import struct

import numpy as np
import pytest
from support.bits import same
from support.checkpoints import make_config, random_weights, to_bfloat16, write_checkpoint
from support.refusals import refuses

import isobit
from isobit.models import (
    CausalLM,
    Checkpoint,
    SafetensorsFile,
    write_safetensors,
)


def raw_file(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_round_trip(tmp_path):
    path = tmp_path / "a.safetensors"
    halves = np.array([1.5, -0.0, 6e-8, np.inf], np.float16)
    write_safetensors(
        path,
        {
            "z": np.arange(6, dtype="f4").reshape(2, 3),
            "i4": np.array([-1, 2], "i4"),
            "i8": isobit.Array.from_list([2**40]),
            "f2": halves,
            "bf": ("BF16", (2, 1), to_bfloat16(np.array([1.0, -3.0], "f4")).tobytes()),
            "bf1": ("BF16", (2,), b"\x80\x3f\x01\x00"),
            "scalar": ("F32", (), struct.pack("<f", 2.5)),
            "empty": ("F32", (0, 4), b""),
            "f8": np.zeros(3),
        },
        {"format": "pt"},
    )
    with SafetensorsFile(path) as file:
        assert (
            file.names() == sorted(file.names())
            and len(file.names()) == 9
            and "z" in file
            and "y" not in file
        )
        assert file.metadata == {"format": "pt"}
        info = file.info("z")
        assert (info.name, info.dtype, info.shape, info.nbytes, info.size) == ("z", "F32", (2, 3), 24, 6)
        assert info.end - info.begin == 24 and info.file == path and "F32" in repr(info)
        z = file.read("z")
        assert type(z) is isobit.Array and z.dtype == "f4" and z.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert file.read("i4").dtype == "i4" and file.read("i8").tolist() == [2**40]
        assert same(file.read("f2"), halves.astype("f4"))
        assert file.read("bf").tolist() == [[1.0], [-3.0]]
        bits = file.read("bf", bf16="bits")
        vector = file.read("bf1", bf16="bits")
        assert vector.dtype == "u2" and vector.tolist() == [0x3F80, 1]
        assert type(bits) is isobit.lowbit.BF16Weight and bits.bits.tolist() == [[0x3F80], [0xC040]]
        assert file.read("scalar").shape == () and file.read("scalar").tolist() == 2.5
        assert file.read("empty").shape == (0, 4)
        with refuses(TypeError, "[SafetensorsFile]", "f8", "F64"):
            file.read("f8")
        with refuses(ValueError, "[SafetensorsFile] bf16", "'raw'"):
            file.read("bf", bf16="raw")
        for refused in (file.read, file.info):
            with refuses(ValueError, "missing"):
                refused("missing")
    assert z.tolist() == [[0, 1, 2], [3, 4, 5]]
    for refused in (
        file.names,
        lambda: file.read("z"),
        lambda: file.info("z"),
        lambda: file.metadata,
        file.__enter__,
    ):
        with refuses(ValueError, "[SafetensorsFile]", "closed"):
            refused()
    file.close()


def test_the_header_is_padded_and_sorted(tmp_path):
    path = tmp_path / "a.safetensors"
    write_safetensors(path, {"b": np.zeros(1, "f4"), "a": np.zeros(2, "f4")})
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    assert length % 8 == 0 and list(json.loads(data[8 : 8 + length])) == ["a", "b"]
    assert not [file for file in tmp_path.iterdir() if file != path]


def test_refused_writes(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"before")
    refused = [
        ({"a": ("F32", (2,), b"1234567")}, ValueError, "8 bytes"),
        ({"a": ("F32", (-1,), b"")}, ValueError, "(-1,)"),
        ({"a": ("F99", (1,), b"1234")}, ValueError, "F99"),
        ({"a": ("F32", (1,))}, ValueError, "(dtype, shape, bytes)"),
        ({"a": ("F32", (1.0,), b"1234")}, TypeError, "shape"),
        ({"a": [1.0]}, TypeError, "list"),
        ({1: np.zeros(1)}, TypeError, "name"),
    ]
    for tensors, error, part in refused:
        with refuses(error, "[", part):
            write_safetensors(path, tensors)
    assert path.read_bytes() == b"before"


F4 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
MALFORMED = {
    "not json": b"hello",
    "not an object": [1],
    "not utf-8": b'{"\xff": {}}',
    "an entry that is no object": {"a": 3},
    "no dtype": {"a": {"shape": [1], "data_offsets": [0, 4]}},
    "no shape": {"a": {"dtype": "F32", "data_offsets": [0, 4]}},
    "no offsets": {"a": {"dtype": "F32", "shape": [1]}},
    "a negative begin": {"a": F4 | {"data_offsets": [-4, 0]}},
    "end before begin": {"a": F4 | {"data_offsets": [4, 0]}},
    "end past the data": {"a": F4 | {"data_offsets": [4, 8]}},
    "a size that does not match": {"a": F4 | {"shape": [2]}},
    "a negative extent": {"a": F4 | {"shape": [-1]}},
    "a shape that overflows": {"a": F4 | {"shape": [2**32, 2**32]}},
    "a fractional extent": {"a": F4 | {"shape": [1.5]}},
    "metadata that is no object": {"__metadata__": 3, "a": F4},
    "metadata that is no text": {"__metadata__": {"k": 3}, "a": F4},
    "a duplicate name": b'{"a": %b, "a": %b}' % ((json.dumps(F4).encode(),) * 2),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_files(tmp_path, case):
    path = raw_file(tmp_path / "a.safetensors", MALFORMED[case], bytes(4))
    with refuses(ValueError, "[SafetensorsFile]", "a.safetensors"):
        SafetensorsFile(path)


def test_truncated_and_huge_files(tmp_path):
    path = tmp_path / "a.safetensors"
    for data in (
        b"",
        b"1234567",
        struct.pack("<Q", 100),
        struct.pack("<Q", 2**40),
        struct.pack("<Q", 2**64 - 1) + b"{}",
    ):
        path.write_bytes(data)
        with refuses(ValueError, "[SafetensorsFile]", "a.safetensors"):
            SafetensorsFile(path)
    with refuses(FileNotFoundError, "[SafetensorsFile]", "none.safetensors"):
        SafetensorsFile(tmp_path / "none.safetensors")


def test_an_unknown_dtype_is_an_error_when_read(tmp_path):
    path = raw_file(tmp_path / "a.safetensors", {"a": F4 | {"dtype": "F8_E4M3", "shape": [4]}}, bytes(4))
    file = SafetensorsFile(path)
    assert file.info("a").dtype == "F8_E4M3"
    with refuses(TypeError, "a", "F8_E4M3"):
        file.read("a")


def test_checkpoints(tmp_path):
    config = make_config("llama")
    weights = random_weights(config)
    one = write_checkpoint(tmp_path / "one", config, weights)
    many = write_checkpoint(tmp_path / "many", config, weights, shards=3)
    for path in (one, one / "model.safetensors", many):
        checkpoint = Checkpoint.open(path)
        assert checkpoint.names() == sorted(weights) and "model.norm.weight" in checkpoint
        assert same(checkpoint.read("model.norm.weight"), weights["model.norm.weight"])
    assert Checkpoint.open(many).info("lm_head.weight").file.parent == many
    with Checkpoint.open(many) as checkpoint:
        checkpoint.close()
        with refuses(ValueError, "[Checkpoint]", "closed"):
            checkpoint.names()
    (one / "model.safetensors").rename(one / "weights.safetensors")
    assert Checkpoint.open(one).names() == sorted(weights)
    (one / "more.safetensors").write_bytes((one / "weights.safetensors").read_bytes())
    with pytest.raises((ValueError, FileNotFoundError)):
        Checkpoint.open(one)
    with refuses(FileNotFoundError, "nowhere"):
        Checkpoint.open(tmp_path / "nowhere")


def test_refused_indexes(tmp_path):
    config = make_config("llama")
    many = write_checkpoint(tmp_path, config, random_weights(config), shards=3)
    index = many / "model.safetensors.index.json"
    right = json.loads(index.read_text())
    first = next(iter(right["weight_map"]))

    def with_map(change):
        return right | {"weight_map": right["weight_map"] | change}

    refused = [
        (with_map({first: "missing.safetensors"}), FileNotFoundError, "missing.safetensors"),
        (with_map({"ghost": right["weight_map"][first]}), ValueError, "ghost"),
        (with_map({first: "../outside.safetensors"}), ValueError, "outside"),
        (with_map({first: "/etc/passwd"}), ValueError, "passwd"),
        (with_map({first: 3}), ValueError, "weight_map"),
        ({"metadata": {}}, ValueError, "weight_map"),
        ([1], ValueError, "index"),
    ]
    for content, error, part in refused:
        index.write_text(json.dumps(content))
        with refuses(error, part):
            Checkpoint.open(many)
    index.write_text(json.dumps(right))
    (many / "model-00002-of-00003.safetensors").unlink()
    with refuses(FileNotFoundError, "model-00002-of-00003.safetensors"):
        Checkpoint.open(many)


ONE = {"a": np.ones(2, np.float32)}


def test_writes_replace_regular_files_only(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    link = tmp_path / "link_to_fifo"
    link.symlink_to(fifo)
    directory = tmp_path / "directory"
    directory.mkdir()
    for path, kind in ((fifo, "FIFO"), (link, "FIFO"), (directory, "directory")):
        with refuses(ValueError, "[write_safetensors]", str(path), "a regular file", kind):
            write_safetensors(path, ONE)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with refuses(ValueError, "[write_safetensors]", "a socket"):
            write_safetensors(tmp_path / "s", ONE)
    assert stat.S_ISFIFO(fifo.stat().st_mode) and link.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["directory", "fifo", "link_to_fifo", "s"]


def test_writes_follow_links_and_keep_modes(tmp_path):
    kept = tmp_path / "there" / "a.safetensors"
    kept.parent.mkdir()
    kept.write_bytes(b"before")
    kept.chmod(0o640)
    links = [tmp_path / "absolute", tmp_path / "relative", tmp_path / "twice"]
    links[0].symlink_to(kept)
    links[1].symlink_to("there/a.safetensors")
    links[2].symlink_to("relative")
    for i, link in enumerate(links):
        write_safetensors(link, {"a": np.full(2, i, np.float32)})
        assert link.is_symlink() and not kept.is_symlink()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o640
        assert SafetensorsFile(kept).read("a").tolist() == [i, i]
    dangling = tmp_path / "dangling"
    dangling.symlink_to("there/new")
    before = os.umask(0o027)
    try:
        write_safetensors(dangling, ONE)
    finally:
        os.umask(before)
    assert dangling.is_symlink()
    assert stat.S_IMODE((tmp_path / "there" / "new").stat().st_mode) == 0o640
    assert sorted(p.name for p in kept.parent.iterdir()) == ["a.safetensors", "new"]


def test_a_file_that_was_cut_since_it_was_opened(tmp_path):
    path = tmp_path / "a.safetensors"
    write_safetensors(path, {"a": np.ones(10000, np.float32)})
    file, checkpoint = SafetensorsFile(path), Checkpoint.open(path)
    whole = path.stat().st_size
    os.truncate(path, 100)
    for reader in (file, checkpoint):
        with refuses(ValueError, str(path), f"{whole} bytes", "got 100"):
            reader.read("a")


def test_names_and_paths_of_a_wrong_kind(tmp_path):
    path = tmp_path / "a.safetensors"
    write_safetensors(path, ONE)
    file = SafetensorsFile(path)
    with refuses(ValueError, "[SafetensorsFile] name", "surrogates"):
        file.read("\ud800")
    with refuses(ValueError, "[SafetensorsFile] name", "surrogates"):
        file.info("\ud800")
    with refuses(TypeError, "[SafetensorsFile] name", "int"):
        file.read(1)
    with refuses(ValueError, "[write_safetensors] name", "surrogates"):
        write_safetensors(path, {"\ud800": np.ones(1)})
    for tensors in (None, [], "a"):
        with refuses(TypeError, "[write_safetensors] tensors", type(tensors).__name__):
            write_safetensors(path, tensors)
    for metadata in ([], {"a": 1}, {1: "a"}):
        with refuses(TypeError, "[write_safetensors] metadata"):
            write_safetensors(path, ONE, metadata)
    for call in (SafetensorsFile, Checkpoint.open, lambda p: write_safetensors(p, ONE), CausalLM.check):
        for wrong in ("a\0b", "", b""):
            with refuses(ValueError, "path: expected a non-empty path", "got"):
                call(wrong)
        with refuses(TypeError, "path: expected a string or an os.PathLike, got NoneType"):
            call(None)

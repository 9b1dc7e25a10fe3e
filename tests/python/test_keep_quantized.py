# SPDX-License-Identifier: Apache-2.0
"""isobit convert --keep-quantized: folders of Q8_0, Q4_0 and Q4_1 blocks, run on their own bits in int8x32_v1
(docs/contract.md 7c.3) and widened elsewhere; what does not fit is refused."""

import json
import struct
import sys

import numpy as np
import pytest

pytest.importorskip("gguf")
from gguf_builder import build, model, smollm2_gguf
from support import contract, memory
from support.bits import same
from support.checkpoints import make_config, random_weights
from support.refusals import refuses
from test_contract_block import rotary_table
from test_contract_rotary import plain

import isobit
from isobit.cli import main
from isobit.gguf import convert
from isobit.models import CausalLM, Checkpoint, write_safetensors

f32 = np.float32
BYTES = {"Q8_0": 34, "Q4_0": 18, "Q4_1": 20}
PROMPT = [[5, 9, 200, 3, 77]]


def blocks_of(kind, shape, seed):
    """Random blocks: any codes but -128, scales and minima of both signs, some zero or subnormal."""
    rng = np.random.default_rng(seed)
    count = shape[0] * shape[1] // 32
    raw = rng.integers(0, 256, (count, BYTES[kind]), dtype=np.uint8)
    if kind == "Q8_0":
        raw[raw == 128] = 127
    halves = rng.standard_normal((count, 2)).astype(np.float16) * np.float16(0.01)
    halves[0] = 0
    halves[1] = 6e-8
    raw[:, :2] = halves[:, :1].view(np.uint8)
    if kind == "Q4_1":
        raw[:, 2:4] = halves[:, 1:].view(np.uint8)
    return raw.tobytes()


def quantised(kind_of, **sizes):
    """A model of which matrix `name` holds blocks of kind_of(name), where that is not None."""
    metadata, tensors = model("llama", **sizes)
    for seed, (name, (shape, _, _)) in enumerate(tensors.items()):
        kind = kind_of(name) if len(shape) == 2 else None
        if kind is not None:
            tensors[name] = (shape, kind, blocks_of(kind, shape, seed))
    return metadata, tensors


def write(tmp_path, metadata, tensors):
    path = tmp_path / "m.gguf"
    path.write_bytes(build(metadata, tensors))
    return convert(path, tmp_path / "kept", keep_quantized=True), convert(path, tmp_path / "decoded")


def read(folder):
    """Tensors by name: arrays, or the blocks that the metadata speaks of."""
    data = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        body = data[8 + length :][slice(*entry["data_offsets"])]
        kind = metadata.get(f"isobit.blocks.{name}")
        if kind is None:
            tensors[name] = np.frombuffer(body, "<f4").reshape(entry["shape"])
            continue
        assert entry["dtype"] == "U8"
        raw = np.frombuffer(body, np.uint8).reshape(entry["shape"][0], -1, BYTES[kind])
        scale = raw[:, :, :2].copy().view("<f2")[..., 0].astype(f32)
        if kind == "Q8_0":
            tensors[name] = contract.FileBlocks(raw[:, :, 2:].view(np.int8), scale)
            continue
        codes = np.concatenate([raw[:, :, -16:] & 15, raw[:, :, -16:] >> 4], axis=2).astype(np.int64)
        if kind == "Q4_0":
            tensors[name] = contract.FileBlocks(codes - 8, scale)
        else:
            minimum = raw[:, :, 2:4].copy().view("<f2")[..., 0].astype(f32)
            tensors[name] = contract.FileBlocks(codes, scale, minimum)
    return tensors


def widened(tensor):
    return tensor.widened() if isinstance(tensor, contract.FileBlocks) else tensor


def alike(parts):
    """Parts of one product: Q4_1 is widened beside what is not Q4_1."""
    minima = [isinstance(p, contract.FileBlocks) and p.minimum is not None for p in parts]
    return parts if all(minima) else [widened(p) if m else p for p, m in zip(parts, minima, strict=True)]


def from_the_text(folder, ids):
    config, tensors = json.loads((folder / "config.json").read_text()), read(folder)
    options = {
        "n_heads": config["num_attention_heads"],
        "n_kv_heads": config["num_key_value_heads"],
        "head_dim": config["head_dim"],
        "norm_eps": config["rms_norm_eps"],
        "numeric_profile": "int8x32_v1",
    }
    cos, sin = rotary_table(plain(config["head_dim"], config["rope_theta"]), f32(1), len(ids))
    embedding = tensors["model.embed_tokens.weight"]
    h = widened(embedding)[ids]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        weights = {
            name.removeprefix(prefix).removeprefix("self_attn.").removeprefix("mlp."): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }
        for group in (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj")):
            names = [f"{part}.weight" for part in group]
            weights |= dict(zip(names, alike([weights[n] for n in names]), strict=True))
        h = contract.forward(weights, options, h, cos, sin)
    n = contract.rms_norm(h, tensors["model.norm.weight"], f32(config["rms_norm_eps"]))
    return contract.int8x32_head(n, tensors.get("lm_head.weight", embedding))


KINDS = {
    "Q8_0": lambda name: "Q8_0",
    "Q4_0": lambda name: "Q4_0",
    "Q4_1": lambda name: "Q8_0" if name == "token_embd.weight" else "Q4_1",
    "Q4_1 table": lambda name: "Q4_1",
    "mixed": lambda name: {"k": "Q4_1", "v": "Q8_0", "q": "Q4_0", "u": "Q4_1", "g": None}.get(
        name.split(".")[-2].split("_")[-1][0], "Q4_0"
    ),
}


@pytest.mark.filterwarnings("ignore::isobit.NumericProfileSpeedWarning")
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("tied", [True, False])
def test_bits(tmp_path, kinds, tied):
    kept, decoded = write(tmp_path, *quantised(KINDS[kinds], tied=tied, d=96, inner=288, head_dim=16))
    for options in ({}, {"numeric_profile": "fixed15_v1"}, {"weight_format": "bfloat16"}):
        wide = CausalLM.load(decoded, **options)
        assert same(CausalLM.load(kept, **options).forward(PROMPT), wide.forward(PROMPT))
    lm = CausalLM.load(kept, numeric_profile="int8x32_v1")
    whole = np.asarray(lm.forward(PROMPT))
    assert same(whole[0], from_the_text(kept, PROMPT[0]))
    assert not same(whole, CausalLM.load(decoded, numeric_profile="int8x32_v1").forward(PROMPT))
    state = lm.allocate_state(1, 5)
    for i, token in enumerate(PROMPT[0]):
        assert same(lm.step([token], state), whole[:, i])
    for cut in range(1, 5):
        lm.reset_state(state)
        parts = [np.asarray(lm.forward([part], state)) for part in (PROMPT[0][:cut], PROMPT[0][cut:])]
        assert same(np.concatenate(parts, axis=1), whole)
    ragged = np.asarray(lm.forward([PROMPT[0], [7, 7, 9, 0, 0]], lengths=[5, 3]))
    assert same(ragged[0], whole[0]) and same(ragged[1, :3], lm.forward([[7, 7, 9]])[0])
    used = isobit.active_isa()
    for isa in isobit.available_isas():
        isobit.set_isa(isa)
        assert same(lm.forward(PROMPT), whole)
        assert same(CausalLM.load(kept, numeric_profile="int8x32_v1").forward(PROMPT), whole)
    isobit.set_isa(used)
    expected = {name: widened(t) for name, t in read(kept).items()}
    if kinds != "mixed":
        assert all(same(value, expected[name]) for name, value in lm.parameters().items())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_after_load(tmp_path):
    config = make_config("llama", tie_word_embeddings=True) | {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 64,
        "vocab_size": 8192,
    }
    tensors, types = {}, {}
    for seed, (name, values) in enumerate(random_weights(config).items()):
        tensors[name] = values
        if values.ndim == 2:
            bytes_of_row = values.shape[1] // 32 * BYTES["Q4_1"]
            blocks = blocks_of("Q4_1", values.shape, seed)
            tensors[name] = ("U8", (len(values), bytes_of_row), blocks)
            types[f"isobit.blocks.{name}"] = "Q4_1"
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "config.json").write_text(json.dumps(config))
    write_safetensors(kept / "model.safetensors", tensors, types)
    stays, peak, weights = memory.of_load(kept, numeric_profile="int8x32_v1")
    file = (kept / "model.safetensors").stat().st_size
    assert 0.95 * file < weights < 1.05 * file
    assert 0.9 * weights < stays < 1.1 * weights + 2**25 and peak < 1.1 * weights + 2**26


def test_files(tmp_path, capsys):
    metadata, tensors = quantised(KINDS["Q4_1"])
    kept, decoded = write(tmp_path, metadata, tensors)
    with Checkpoint.open(kept) as checkpoint:
        name = "model.layers.0.mlp.up_proj.weight"
        assert checkpoint.block_type(name) == "Q4_1" and checkpoint.info(name).shape == (64, 20)
        assert checkpoint.block_type("model.norm.weight") is None
    assert main(["info", str(kept), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert main(["info", str(decoded), "--json"]) == 0
    plain_facts = json.loads(capsys.readouterr().out)
    assert facts["problems"] == [] and facts["dtypes"]["Q4_1"]["tensors"] == 14
    for key in ("parameters", "memory_bytes", "sizes"):
        assert facts[key] == plain_facts[key]
    assert main(["convert", str(tmp_path / "m.gguf"), str(tmp_path / "again"), "--keep-quantized"]) == 0
    again = (tmp_path / "again" / "model.safetensors").read_bytes()
    assert again == (kept / "model.safetensors").read_bytes()


def changed(folder, metadata=None, entry=None, body=None):
    """The file of a folder with some of its metadata, of a tensor's entry, or of its bytes replaced."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header, tail = json.loads(data[8 : 8 + length]), bytearray(data[8 + length :])
    header["__metadata__"] |= metadata or {}
    for name, fields in (entry or {}).items():
        header[name] |= fields
    for name, (offset, value) in (body or {}).items():
        tail[header[name]["data_offsets"][0] + offset] = value
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(tail))


UP = "model.layers.0.mlp.up_proj.weight"
NORM = "model.norm.weight"
REFUSED = [
    ({"metadata": {f"isobit.blocks.{UP}": "Q9_9"}}, [UP, "Q8_0, Q4_0 or Q4_1", "Q9_9"]),
    ({"metadata": {f"isobit.blocks.{UP}": "Q8_0"}}, [UP, "34 bytes"]),
    ({"metadata": {f"isobit.blocks.{NORM}": "Q4_1"}}, [NORM, "U8", "F32"]),
    ({"entry": {UP: {"shape": [32, 40]}}}, ["up_proj.weight", "shape"]),
    ({"body": {UP: (1, 0x7C)}}, ["up_proj.weight", "finite"]),
    ({"body": {UP: (3, 0x7E)}}, ["up_proj.weight", "finite"]),
    ({"body": {"model.embed_tokens.weight": (2, 128)}}, ["embed_tokens", "-127..127", "-128"]),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
@pytest.mark.parametrize("profile", ["fp32_v1", "int8x32_v1"])
def test_refused_folders(tmp_path, change, words, profile):
    kept, _ = write(tmp_path, *quantised(KINDS["Q4_1"]))
    changed(kept, **change)
    with refuses(ValueError, *words):
        CausalLM.load(kept, numeric_profile=profile)


@pytest.mark.skipif(smollm2_gguf() is None, reason="needs SmolLM2-135M-Instruct as a GGUF file")
def test_real_model(tmp_path):
    kept = convert(smollm2_gguf(), tmp_path / "kept", keep_quantized=True)
    assert (kept / "model.safetensors").stat().st_size < 110e6
    ids = [[504, 3575, 282, 4649, 314]]  # "The capital of France is"
    exact = np.asarray(CausalLM.load(kept).forward(ids, last_only=True))
    lm = CausalLM.load(kept, numeric_profile="int8x32_v1")
    near = np.asarray(lm.forward(ids, last_only=True))
    assert near.argmax() == exact.argmax() and np.abs(near - exact).max() < 2.0

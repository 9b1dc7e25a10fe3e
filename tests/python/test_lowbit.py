# SPDX-License-Identifier: Apache-2.0
"""isobit.lowbit, and blocks and models that keep their matrices in bfloat16 or int8."""

import copy
import itertools
import pickle
import sys

import numpy as np
import pytest
from support import memory
from support.bits import bits, same
from support.blocks import case
from support.checkpoints import make_config, random_weights, to_bfloat16, write_checkpoint
from support.refusals import refuses

import isobit
from isobit import TransformerBlock, lowbit
from isobit.models import CausalLM, SafetensorsFile, plan_for

STORED = ("bfloat16", "int8")
IDS = np.array([[5, 9, 2, 40, 1, 17, 3]])


def rows(seed=0, shape=(17, 23)):
    """Rows of every magnitude, one zero and one subnormal."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-100, 100, (shape[0], 1)))
    x[3], x[5] = 0, x[5] / np.abs(x[5]).max() * 2.0**-140
    return x.astype(np.float32)


def int8_values(x):
    """Codes, exponents and values as the contract says, in binary64."""
    largest = np.abs(x).max(axis=1).astype(np.float64)
    exponents = np.where(largest == 0, 0, np.frexp(largest)[1] - 1 - 6)
    scale = np.exp2(exponents.astype(np.float64))[:, None]
    codes = np.clip(np.rint(x / scale), -127, 127).astype(np.int8)
    return codes, exponents.astype(np.int32), (codes * scale).astype(np.float32)


def test_bfloat16():
    x = rows()
    weight = lowbit.pack_one(x, "bfloat16")
    assert type(weight) is lowbit.BF16Weight and weight.format == "bfloat16" and weight.shape == (17, 23)
    assert np.array_equal(np.asarray(weight.bits), to_bfloat16(x))
    assert same(lowbit.materialize_one(weight), (to_bfloat16(x).astype(np.uint32) << 16).view(np.float32))


def test_every_bfloat16_pattern_widens():
    patterns = np.arange(65536, dtype=np.uint16)
    for shape in ((65536,), (256, 256), (16, 16, 256)):
        wide = np.asarray(lowbit.widen_bf16(patterns.reshape(shape)))
        assert wide.shape == shape
        assert np.array_equal(wide.view(np.uint32).ravel(), patterns.astype(np.uint32) << 16)
    assert same(lowbit.widen_bf16(patterns[::2]), (patterns[::2].astype(np.uint32) << 16).view(np.float32))


def test_int8():
    x = rows()
    weight = lowbit.pack_one(x, "int8")
    codes, exponents, values = int8_values(x)
    assert type(weight) is lowbit.Int8Weight and weight.format == "int8" and weight.shape == (17, 23)
    assert np.array_equal(np.asarray(weight.codes), codes)
    assert np.array_equal(np.asarray(weight.exponents), exponents)
    assert same(lowbit.materialize_one(weight), values)
    again = lowbit.pack_one(values, "int8")
    assert same(lowbit.materialize_one(again), values)


def test_int8_ties_and_extremes():
    x = np.array([[64, 0.5, 1.5, -2.5], [127.6, -127.9, 1, 0], [3.4e38, -1, 0, 0]], np.float32)
    weight = lowbit.pack_one(x, "int8")
    assert np.asarray(weight.codes).tolist() == [[64, 0, 2, -2], [127, -127, 1, 0], [127, 0, 0, 0]]
    assert np.asarray(weight.exponents).tolist() == [0, 0, 121]


def test_pack_and_unpack_dicts():
    weights = case(qkv_bias=True).weights()
    for fmt in STORED:
        packed = lowbit.pack(weights, fmt)
        assert list(packed) == list(weights) and lowbit.format_of(packed) == fmt
        for name, value in weights.items():
            assert lowbit.is_packed(packed[name]) == (value.ndim == 2)
            if value.ndim == 1:
                assert same(packed[name], value)
        plain = lowbit.unpack(packed)
        assert lowbit.format_of(plain) == "float32"
        assert all(same(plain[name], v) for name, v in lowbit.materialize(packed).items())
        assert all(isinstance(v, isobit.Array) for v in plain.values())
    assert all(same(v, weights[name]) for name, v in lowbit.pack(weights, "float32").items())
    assert lowbit.FORMATS == ("float32", "bfloat16", "int8")
    assert lowbit.format_of({}) == "float32"
    marker = object()
    assert lowbit.materialize_one(marker) is marker


def test_refusals_of_values():
    with refuses(TypeError, "[lowbit] 'w'", "float32", "f8"):
        lowbit.pack({"w": np.zeros((2, 2))}, "int8")
    with refuses(TypeError, "[lowbit] 'b'", "float32"):
        lowbit.pack({"b": np.zeros(2, np.int32)}, "bfloat16")
    with refuses(ValueError, "[lowbit] fmt", "int3"):
        lowbit.pack({}, "int3")
    with refuses(ValueError, "[lowbit] 'value'", "rank 2"):
        lowbit.pack_one(np.zeros(3, "f4"), "int8")
    with refuses(TypeError, "[lowbit] 'w'", "BF16Weight"):
        lowbit.pack({"w": lowbit.pack_one(np.ones((2, 2), "f4"), "bfloat16")}, "int8")
    for bad in (np.nan, np.inf, -np.inf):
        x = np.ones((2, 3), np.float32)
        x[1, 2] = bad
        for fmt in STORED:
            with refuses(ValueError, "[lowbit] 'k'", "finite"):
                lowbit.pack_one(x, fmt, "k")
    with refuses(ValueError, "[lowbit] 'k'", "bfloat16"):
        lowbit.pack_one(np.full((1, 1), 3.4e38, "f4"), "bfloat16", "k")
    with refuses(TypeError, "[lowbit] bits", "uint16"):
        lowbit.widen_bf16(np.zeros(3, np.int16))


def test_hostile_packed_objects():
    codes, exponents = np.ones((2, 3), np.int8), np.zeros(2, np.int32)
    lowbit.Int8Weight(codes, exponents)
    with refuses(TypeError, "codes", "int8"):
        lowbit.Int8Weight(codes.astype(np.uint8), exponents)
    with refuses(TypeError, "exponents", "int32"):
        lowbit.Int8Weight(codes, exponents.astype(np.int64))
    with refuses(ValueError, "codes", "rank 2"):
        lowbit.Int8Weight(codes[0], exponents)
    with refuses(ValueError, "exponents", "rank 1"):
        lowbit.Int8Weight(codes, exponents[:, None])
    with refuses(ValueError, "exponents", "2 rows", "3"):
        lowbit.Int8Weight(codes, np.zeros(3, np.int32))
    for e in (-156, 122, 2**31 - 1, -(2**31)):
        with refuses(ValueError, "exponents", "-155..121", str(e), "row 1"):
            lowbit.Int8Weight(codes, np.array([0, e], np.int32))
    codes[1, 1] = -128
    with refuses(ValueError, "codes", "-127..127", "-128", "row 1"):
        lowbit.Int8Weight(codes, exponents)
    with refuses(ValueError, "codes", "float32", "1 * 2^-155"):
        lowbit.Int8Weight(np.ones((1, 3), np.int8), np.array([-155], np.int32))
    with refuses(TypeError, "[BF16Weight] bits", "uint16"):
        lowbit.BF16Weight(np.zeros((2, 2), np.float16))
    with refuses(ValueError, "[BF16Weight] bits", "rank 2"):
        lowbit.BF16Weight(np.zeros(2, np.uint16))


def test_hostile_dicts_for_a_block():
    c = case()
    packed = lowbit.pack(c.weights(), "bfloat16")
    mixed = packed | {"up_proj.weight": lowbit.pack_one(c.weights()["up_proj.weight"], "int8")}
    for use in (lambda w: TransformerBlock(w, **c.options), lowbit.format_of, lowbit.unpack):
        with refuses(ValueError, "'up_proj.weight'", "bfloat16", "int8"):
            use(mixed)
    wrong = packed | {"up_proj.weight": lowbit.BF16Weight(np.zeros((3, 24), np.uint16))}
    with refuses(ValueError, "[TransformerBlock]", "shape"):
        TransformerBlock(wrong, **c.options)
    inf = np.full((40, 24), 0x7F80, np.uint16)
    with refuses(ValueError, "[TransformerBlock] up_proj.weight", "finite"):
        TransformerBlock(packed | {"up_proj.weight": lowbit.BF16Weight(inf)}, **c.options)
    weight = lowbit.Int8Weight(np.ones((40, 24), np.int8), np.zeros(40, np.int32))
    weight.exponents = np.full(40, 500, np.int32)
    with refuses(ValueError, "'up_proj.weight'", "500"):
        TransformerBlock(c.weights() | {"up_proj.weight": weight}, weight_format="int8", **c.options)
    with refuses(ValueError, "[TransformerBlock] weight_format", "'bfloat16'", "'int8'"):
        TransformerBlock(packed, weight_format="int8", **c.options)
    with refuses(ValueError, "[TransformerBlock] weight_format", "int3"):
        TransformerBlock(c.weights(), weight_format="int3", **c.options)


@pytest.mark.parametrize("fmt", STORED)
def test_a_packed_block_is_the_float32_block_on_the_widened_weights(fmt):
    c = case(d_model=23, intermediate=37, qkv_bias=True, window=6)
    packed = lowbit.pack(c.weights(), fmt)
    stored, asked = (
        TransformerBlock(packed, **c.options),
        TransformerBlock(c.weights(), weight_format=fmt, **c.options),
    )
    wide = TransformerBlock(lowbit.unpack(packed), **c.options)
    assert (stored.weight_format, asked.weight_format, wide.weight_format) == (fmt, fmt, "float32")
    x = c.input(2, 19)
    whole = wide(x)
    assert not same(whole, c.block()(x))
    for block in (stored, asked):
        assert same(block(x), whole)
        assert same(block(x, lengths=[7, 19]), wide(x, lengths=[7, 19]))
        state = block.allocate_state(2, 19)
        parts = [block(x[:, :5], state), *(block.step(x[:, i : i + 1], state) for i in range(5, 12))]
        with block.decode_session(state) as session:
            parts += [session.step(x[:, i : i + 1]) for i in range(12, 19)]
        assert same(np.concatenate([np.asarray(p) for p in parts], axis=1), whole)
        assert all(same(v, wide.parameters()[name]) for name, v in block.parameters().items())


@pytest.mark.parametrize("fmt", STORED)
def test_params_copies_and_pickles_keep_the_format(fmt):
    c = case()
    block = TransformerBlock(c.weights(), weight_format=fmt, **c.options)
    x = c.input(1, 9)
    assert block.get_params()["weight_format"] == fmt
    for other in (pickle.loads(pickle.dumps(block)), copy.deepcopy(block)):
        assert other.weight_format == fmt and same(other(x), block(x))
    expected = block(x)
    block.set_params(weight_format="float32")
    assert block.weight_format == "float32" and same(block(x), expected)
    block.set_params(weights=lowbit.pack(c.weights(), fmt))
    assert block.weight_format == fmt and same(block(x), expected)


def test_packed_weights_pickle():
    for fmt in STORED:
        weight = lowbit.pack_one(rows(), fmt)
        assert same(
            lowbit.materialize_one(pickle.loads(pickle.dumps(weight))), lowbit.materialize_one(weight)
        )


@pytest.mark.parametrize("family", ("llama", "qwen2", "phi3"))
def test_a_bf16_checkpoint_in_bf16_is_its_float32_load(tmp_path, family):
    config = make_config(family)
    folder = write_checkpoint(tmp_path / "model", config, random_weights(config), "BF16")
    wide = CausalLM.load(folder)
    for embed_format in (None, "bfloat16"):
        stored = CausalLM.load(folder, weight_format="bfloat16", embed_format=embed_format)
        assert (stored.weight_format, stored.embed_format) == ("bfloat16", embed_format or "float32")
        assert same(stored(IDS), wide(IDS))
        assert stored.generate(IDS, 9).tolist() == wide.generate(IDS, 9).tolist()
        assert [b.weight_format for b in stored.blocks] == ["bfloat16"] * len(wide.blocks)


def every_pattern(dtype):
    """All 65,536 numbers of a 16-bit type, as float32."""
    patterns = np.arange(65536, dtype=np.uint16)
    if dtype == "F16":
        return patterns.view(np.float16).astype(np.float32)
    return (patterns.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("dtype", ("BF16", "F16"))
def test_every_16_bit_pattern_through_the_loader(tmp_path, dtype):
    config = make_config("llama", tie_word_embeddings=True) | {"vocab_size": 2048, "intermediate_size": 2048}
    assert config["hidden_size"] == 32
    weights = random_weights(config)
    numbers = every_pattern(dtype)
    numbers[~np.isfinite(numbers)] = 0
    values = numbers.reshape(2048, 32)
    names = ("model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight")
    folder = write_checkpoint(tmp_path / "model", config, weights | dict.fromkeys(names, values), dtype)
    with SafetensorsFile(folder / "model.safetensors") as file:
        assert all(same(file.read(name), values) for name in names)
    rounded = {
        "float32": values,
        "bfloat16": (to_bfloat16(values).astype(np.uint32) << 16).view(np.float32),
        "int8": int8_values(values)[2],
    }
    for fmt, kept in rounded.items():
        embed_format = "bfloat16" if fmt == "bfloat16" else None
        model = CausalLM.load(folder, weight_format=fmt, embed_format=embed_format)
        parameters = model.parameters()
        assert same(parameters[names[0]], kept if embed_format else values)
        assert same(parameters[names[1]], kept)


@pytest.mark.parametrize("dtype", ("BF16", "F16"))
def test_every_16_bit_pattern_that_is_not_finite_is_refused(tmp_path, dtype):
    patterns = np.arange(65536, dtype=np.uint16)[~np.isfinite(every_pattern(dtype))]
    assert len(patterns) == {"BF16": 256, "F16": 2048}[dtype]
    config = make_config("llama") | {"num_hidden_layers": 1}
    folder = write_checkpoint(tmp_path / "model", config, random_weights(config), dtype)
    path, name = folder / "model.safetensors", "model.layers.0.mlp.down_proj.weight"
    with SafetensorsFile(path) as file:
        end = 8 + int.from_bytes(path.read_bytes()[:8], "little") + file.info(name).end
    formats = itertools.cycle(lowbit.FORMATS)
    for pattern in patterns:
        with open(path, "r+b") as file:
            file.seek(end - 2)
            file.write(int(pattern).to_bytes(2, "little"))
        with refuses(ValueError, "[CausalLM layer 0] down_proj.weight", "finite"):
            CausalLM.load(folder, weight_format=next(formats))


@pytest.mark.parametrize("fmt", STORED)
def test_a_stored_model_is_the_model_of_its_parameters(fmt):
    config = make_config("llama")
    plan = plan_for(config)
    weights = random_weights(config)
    stored = CausalLM(plan, weights, weight_format=fmt)
    parameters = stored.parameters()
    projections = [name for name in weights if name.endswith("proj.weight")]
    assert projections and all(same(parameters[n], w) == (n not in projections) for n, w in weights.items())
    for name in projections:
        widened = lowbit.materialize_one(lowbit.pack_one(weights[name], fmt))
        assert same(parameters[name], widened)
    wide = CausalLM(plan, parameters)
    whole = wide(IDS)
    assert same(stored(IDS), whole) and not np.array_equal(bits(whole), bits(CausalLM(plan, weights)(IDS)))
    state = stored.allocate_state(1, IDS.shape[1])
    for i in range(IDS.shape[1]):
        assert same(stored.step(IDS[:, i], state), np.asarray(whole)[:, i])
    assert stored.generate(IDS, 7).tolist() == wide.generate(IDS, 7).tolist()


@pytest.mark.parametrize("fmt", STORED)
@pytest.mark.parametrize("family", ("llama", "phi3"))
def test_a_model_from_packed_weights(family, fmt):
    config = make_config(family)
    plan, weights = plan_for(config), random_weights(config)
    packed = lowbit.pack(weights, fmt)
    stored, wide = CausalLM(plan, packed), CausalLM(plan, lowbit.unpack(packed))
    assert (stored.weight_format, wide.weight_format) == (fmt, "float32")
    whole = wide(IDS)
    assert same(stored(IDS), whole)
    layers = []
    for i in range(plan.n_layers):
        layers.append({})
        for key, name, rows in plan.layer_weights(i):
            part = np.asarray(lowbit.materialize_one(packed[name]))[rows or slice(None)]
            layers[-1][key] = lowbit.pack_one(part, fmt) if part.ndim == 2 else part
    nested = {"embed": packed[plan.embed_name], "norm": weights[plan.norm_name], "layers": layers}
    if plan.head_name is not None:
        nested["head"] = packed[plan.head_name]
    model = CausalLM(plan, nested)
    assert model.weight_format == fmt and same(model(IDS), whole)
    other = "int8" if fmt == "bfloat16" else "bfloat16"
    with refuses(ValueError, "[CausalLM] weight_format", repr(fmt), repr(other)):
        CausalLM(plan, packed, weight_format=other)
    key = "q_proj.weight"
    layers[1][key] = lowbit.pack_one(np.ones((4, 4), np.float32), other)
    with refuses(ValueError, "q_proj.weight" if family == "llama" else "k_proj.weight", fmt, other):
        CausalLM(plan, nested)


def test_weight_bytes():
    config = make_config("llama", hidden_size=64, intermediate_size=64)  # every matrix is of whole panels
    plan, weights = plan_for(config), random_weights(config)
    for fmt, each in (("float32", 4), ("bfloat16", 2), ("int8", 1)):
        for embed_format, table in ((None, 4), ("bfloat16", 2)):
            model = CausalLM(plan, weights, weight_format=fmt, embed_format=embed_format)
            size = 0
            for name, value in weights.items():
                if name.endswith("proj.weight"):
                    size += each * value.size + (4 * len(value) if fmt == "int8" else 0)
                else:
                    size += (table if value.ndim == 2 else 4) * value.size
            assert model.weight_bytes == size


def test_packed_matrices_beside_arrays_need_a_format():
    c = case()
    some = c.weights() | {"q_proj.weight": lowbit.pack_one(c.weights()["q_proj.weight"], "int8")}
    with refuses(ValueError, "[TransformerBlock] weights", "_proj.weight' in int8", "array"):
        TransformerBlock(some, **c.options)
    asked = TransformerBlock(some, weight_format="int8", **c.options)
    x = c.input(1, 5)
    assert same(asked(x), TransformerBlock(lowbit.pack(c.weights(), "int8"), **c.options)(x))


def test_hostile_packed_weights_for_a_model():
    config = make_config("llama")
    plan, weights = plan_for(config), random_weights(config)
    packed = lowbit.pack(weights, "int8")
    name = "model.layers.1.mlp.up_proj.weight"
    rows, k = weights[name].shape
    ones = lowbit.Int8Weight(np.ones((rows, k), np.int8), np.zeros(rows, np.int32))
    ones.codes = np.full((rows, k), -128, np.int8)
    with refuses(ValueError, f"'{name}' codes", "-127..127"):
        CausalLM(plan, packed | {name: ones})
    ones.codes = np.ones((rows, k), np.int16)
    with refuses(TypeError, f"'{name}' codes", "int8"):
        CausalLM(plan, packed | {name: ones})
    small = lowbit.Int8Weight(np.ones((rows, k - 1), np.int8), np.zeros(rows, np.int32))
    with refuses(ValueError, "[CausalLM layer 1] up_proj.weight", "shape"):
        CausalLM(plan, packed | {name: small})
    infinite = lowbit.BF16Weight(np.full((rows, k), 0x7F80, np.uint16))
    with refuses(ValueError, "[CausalLM layer 1] up_proj.weight", "finite"):
        CausalLM(plan, lowbit.pack(weights, "bfloat16") | {name: infinite})
    with refuses(ValueError, "[lowbit]", name, "int8", "bfloat16"):
        CausalLM(plan, packed | {name: infinite})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_after_load(tmp_path):
    config = make_config("llama") | {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 3,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "head_dim": 128,
    }
    folder = write_checkpoint(tmp_path / "model", config, random_weights(config), "BF16")
    values = 3 * (4 * 1024 * 1024 + 3 * 4096 * 1024)
    # Float32 needs no more than the two bytes of a bfloat16 checkpoint.
    for fmt, size in (("float32", 2), ("bfloat16", 2), ("int8", 1)):
        for profile, codes in (("fp32_v1", size), ("fixed15_v1", 2), ("int8x32_v1", 1 + 4 / 32)):
            stays, peak, weights = memory.of_load(folder, weight_format=fmt, numeric_profile=profile)
            assert codes * values < weights < 1.03 * codes * values, (fmt, profile)
            assert 0.9 * weights < stays < 1.1 * weights + 2**25, (fmt, profile)
            assert peak < 1.1 * weights + 2**26, (fmt, profile)

# SPDX-License-Identifier: Apache-2.0
"""TransformerBlock and TransformerBlockInference: what they accept, refuse and keep."""

import array
import threading

import numpy as np
import pytest
from support.bits import same
from support.blocks import GATED, LLAMA3, MLPS, case, random_weights
from support.refusals import refuses

import isobit
from isobit import Array, TransformerBlock, TransformerBlockInference

EVERYTHING = {
    "norm": "layernorm",
    "norm_bias": True,
    "qkv_bias": True,
    "o_bias": True,
    "mlp_bias": True,
    "attn_softcap": 20.0,
    "window": 6,
    "rope_dim": 4,
    "rope_scaling": {"type": "linear", "factor": 2.0},
}


def test_the_documented_defaults():
    c = case()
    block = TransformerBlock(c.weights(), n_heads=4, n_kv_heads=2, head_dim=8)
    assert (block.d_model, block.n_heads, block.n_kv_heads, block.head_dim, block.intermediate) == (
        24,
        4,
        2,
        8,
        40,
    )
    assert (block.window, block.rope_theta, block.rope_scaling, block.rope_dim) == (0, 10000.0, None, 8)
    assert (block.max_positions, block.norm, block.norm_bias, block.mlp) == (8192, "rmsnorm", False, "swiglu")
    assert block.norm_eps == np.float32(1e-6)
    assert (block.qkv_bias, block.o_bias, block.mlp_bias, block.qk_norm) == (False,) * 4
    assert (block.attn_softcap, block.weight_format, block.numeric_profile) == (None, "float32", "fp32_v1")
    assert (block.numeric_mode, block.numeric_mode_used(), block.vendor_used()) == (None, "identical", "cpu")
    assert "d_model=24" in repr(block)


def test_head_counts_have_defaults():
    weights = case(d_model=32, n_kv_heads=4).weights()
    block = TransformerBlock(weights, n_heads=4)
    assert (block.n_kv_heads, block.head_dim) == (4, 8)


@pytest.mark.parametrize("mlp", MLPS)
def test_every_option_is_kept(mlp):
    c = case(mlp=mlp, **EVERYTHING)
    block = c.block()
    for name, value in c.options.items():
        if name != "rope_scaling":
            assert getattr(block, name) == value, name
    assert block.rope_scaling == {"rope_type": "linear", "factor": 2.0}


def test_weights_of_any_kind_give_the_same_bits():
    torch = pytest.importorskip("torch")
    c = case()
    x, weights = c.input(2, 5), c.weights()
    right = c.block().forward(x)
    kinds = {
        "Array": Array.from_buffer,
        "torch": torch.from_numpy,
        "torch parameter": lambda w: torch.nn.Parameter(torch.from_numpy(w)).detach(),
        "memoryview": memoryview,
        "column-major": np.asfortranarray,
        "strided": lambda w: np.repeat(w, 2, axis=0)[::2],
        "reversed": lambda w: w[::-1].copy()[::-1],
        "unaligned": unaligned,
    }
    for kind, convert in kinds.items():
        block = TransformerBlock({name: convert(w) for name, w in weights.items()}, **c.options)
        assert same(block.forward(convert(x)), right), kind
    flat = {name: array.array("f", w.ravel().tolist()) for name, w in weights.items()}
    shaped = {name: memoryview(a).cast("B").cast("f", weights[name].shape) for name, a in flat.items()}
    assert same(TransformerBlock(shaped, **c.options).forward(x), right)


def unaligned(w):
    memory = np.zeros(w.nbytes + 1, np.uint8)
    moved = (
        memory[1:].view(np.float32)
        if memory[1:].ctypes.data % 4 == 0
        else np.frombuffer(memory, np.float32, w.size, 1)
    )
    moved = moved.reshape(w.shape)
    moved[...] = w
    return moved


def test_weights_are_copied():
    c = case()
    weights, x = c.weights(), c.input(1, 3)
    block = TransformerBlock(weights, **c.options)
    before = block.forward(x)
    for w in weights.values():
        w[...] = 0
    assert same(block.forward(x), before)


def test_parameters_are_what_was_given():
    c = case(mlp="geglu", **EVERYTHING)
    weights = c.weights()
    parameters = c.block().parameters()
    assert sorted(parameters) == sorted(weights)
    for name, w in weights.items():
        assert parameters[name].shape == w.shape and same(parameters[name], w)
    np.asarray(parameters["o_proj.bias"])[...] = 0  # a copy


def test_results_are_arrays():
    block, x = case().block(), case().input(2, 3)
    y = block(x)
    assert type(y) is Array and y.shape == (2, 3, 24) and y.dtype == "f4"
    state = block.allocate_state(2, 4)
    assert block.step(x[:, 0], state).shape == (2, 24)
    assert block.step(x[:, 1:2], state).shape == (2, 1, 24)
    assert same(block.forward(x), y)


WEIGHT_REFUSALS = [
    ({"q_proj.weight": None}, ValueError, "q_proj.weight"),
    ({"q_proj.bias": np.zeros(32, "f4")}, ValueError, "q_proj.bias"),
    ({"q_norm.weight": np.zeros(8, "f4")}, ValueError, "q_norm.weight"),
    ({"input_layernorm.bias": np.zeros(24, "f4")}, ValueError, "input_layernorm.bias"),
    ({"up_proj.bias": np.zeros(40, "f4")}, ValueError, "up_proj.bias"),
    ({"o_proj.bias": np.zeros(24, "f4")}, ValueError, "o_proj.bias"),
    ({"nonsense": np.zeros(24, "f4")}, ValueError, "nonsense"),
    ({"q_proj.weight": np.zeros((32, 25), "f4")}, ValueError, "q_proj.weight"),
    ({"k_proj.weight": np.zeros((32, 24), "f4")}, ValueError, "k_proj.weight"),
    ({"o_proj.weight": np.zeros((24, 24), "f4")}, ValueError, "o_proj.weight"),
    ({"down_proj.weight": np.zeros((24, 41), "f4")}, ValueError, "down_proj.weight"),
    ({"up_proj.weight": np.zeros((41, 24), "f4")}, ValueError, "proj.weight"),
    ({"input_layernorm.weight": np.zeros((24, 1), "f4")}, ValueError, "input_layernorm.weight"),
    ({"v_proj.weight": np.zeros((16, 24), "f8")}, TypeError, "v_proj.weight"),
    ({"v_proj.weight": np.zeros((16, 24), "f2")}, TypeError, "v_proj.weight"),
    ({"v_proj.weight": np.zeros((16, 24), "i4")}, TypeError, "v_proj.weight"),
    ({"v_proj.weight": [[1.0]]}, TypeError, "v_proj.weight"),
    ({"v_proj.weight": "text"}, TypeError, "v_proj.weight"),
    ({3: np.zeros(1, "f4")}, TypeError, "weight name"),
]


@pytest.mark.parametrize(("change", "error", "part"), WEIGHT_REFUSALS)
def test_refused_weights(change, error, part):
    c = case()
    weights = {name: w for name, w in (c.weights() | change).items() if w is not None}
    with refuses(error, "[TransformerBlock]", part):
        TransformerBlock(weights, **c.options)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "name", ["q_proj.weight", "down_proj.weight", "input_layernorm.weight", "o_proj.bias"]
)
def test_nonfinite_weights_are_refused(name, value):
    c = case(o_bias=True)
    weights = c.weights()
    weights[name].reshape(-1)[-1] = value
    with refuses(ValueError, "[TransformerBlock]", name, "finite"):
        TransformerBlock(weights, **c.options)


def test_missing_tensors_of_flags():
    flags = {
        "qkv_bias": "q_proj.bias",
        "o_bias": "o_proj.bias",
        "mlp_bias": "gate_proj.bias",
        "qk_norm": "q_norm.weight",
    }
    for flag, name in flags.items():
        with refuses(ValueError, "[TransformerBlock]", name):
            TransformerBlock(case().weights(), **case().options | {flag: True})
    c = case(norm="layernorm")
    with refuses(ValueError, "[TransformerBlock]", "input_layernorm.bias"):
        TransformerBlock(c.weights(), **c.options | {"norm_bias": True})


def test_a_gate_under_an_ungated_mlp():
    for mlp in set(MLPS) - set(GATED):
        with refuses(ValueError, "[TransformerBlock]", "gate_proj.weight"):
            TransformerBlock(case().weights(), **case().options | {"mlp": mlp})


def test_weights_must_be_a_mapping():
    for weights in (None, [1], 3, "text"):
        with refuses(TypeError, "[TransformerBlock] weights", type(weights).__name__):
            TransformerBlock(weights, n_heads=4)


LONGROPE = {"type": "longrope", "short_factor": [1.0] * 4, "original_max_position_embeddings": 64}


def without(scaling, key):
    return {k: v for k, v in scaling.items() if k != key}


OPTION_REFUSALS = [
    ({"n_heads": 0}, ValueError, "n_heads"),
    ({"n_heads": -4}, ValueError, "n_heads"),
    ({"n_kv_heads": 3}, ValueError, "n_kv_heads"),
    ({"n_kv_heads": 0}, ValueError, "n_kv_heads"),
    ({"head_dim": 7}, ValueError, "head_dim"),
    ({"head_dim": 0}, ValueError, "head_dim"),
    ({"window": -1}, ValueError, "window"),
    ({"rope_theta": 0.0}, ValueError, "rope_theta"),
    ({"rope_theta": -1.0}, ValueError, "rope_theta"),
    ({"rope_theta": float("nan")}, ValueError, "rope_theta"),
    ({"rope_theta": float("inf")}, ValueError, "rope_theta"),
    ({"norm_eps": 0.0}, ValueError, "norm_eps"),
    ({"norm_eps": float("nan")}, ValueError, "norm_eps"),
    ({"attn_softcap": 0.0}, ValueError, "attn_softcap"),
    ({"attn_softcap": float("inf")}, ValueError, "attn_softcap"),
    ({"rope_dim": 3}, ValueError, "rope_dim"),
    ({"rope_dim": 10}, ValueError, "rope_dim"),
    ({"rope_dim": 0}, ValueError, "rope_dim"),
    ({"max_positions": 0}, ValueError, "max_positions"),
    ({"norm": "batchnorm"}, ValueError, "layernorm"),
    ({"norm_bias": True}, ValueError, "norm_bias"),
    ({"mlp": "relu"}, ValueError, "swiglu"),
    ({"norm": "layernorm", "qk_norm": True}, ValueError, "qk_norm"),
    ({"rope_scaling": {}}, ValueError, "rope_type"),
    ({"rope_scaling": {"rope_type": "cubic"}}, ValueError, "llama3"),
    ({"rope_scaling": {"type": "linear"}}, ValueError, "factor"),
    ({"rope_scaling": {"type": "linear", "factor": 0.0}}, ValueError, "factor"),
    ({"rope_scaling": {"type": "linear", "factor": float("nan")}}, ValueError, "factor"),
    ({"rope_scaling": {"type": "linear", "factor": 2.0, "wobble": 1}}, ValueError, "wobble"),
    ({"rope_scaling": LLAMA3 | {"high_freq_factor": 1.0}}, ValueError, "high_freq_factor"),
    (
        {"rope_scaling": LLAMA3 | {"original_max_position_embeddings": 0}},
        ValueError,
        "original_max_position_embeddings",
    ),
    *[({"rope_scaling": without(LLAMA3, key)}, ValueError, key) for key in LLAMA3 if key != "rope_type"],
    ({"rope_scaling": LONGROPE}, ValueError, "long_factor"),
    ({"rope_scaling": "linear"}, TypeError, "rope_scaling"),
    ({"rope_scaling": {"type": "linear", "factor": "2"}}, TypeError, "factor"),
    ({"rope_scaling": {"type": 3}}, TypeError, "type"),
    ({"n_heads": 4.0}, TypeError, "n_heads"),
    ({"n_heads": True}, TypeError, "n_heads"),
    ({"n_heads": "4"}, TypeError, "n_heads"),
    ({"n_heads": 2**70}, ValueError, "n_heads"),
    ({"n_heads": None}, TypeError, "n_heads"),
    ({"rope_theta": "1e4"}, TypeError, "rope_theta"),
    ({"qkv_bias": 1}, TypeError, "qkv_bias"),
    ({"norm": 1}, TypeError, "norm"),
    ({"mlp": None}, TypeError, "mlp"),
]


@pytest.mark.parametrize(("change", "error", "part"), OPTION_REFUSALS)
def test_refused_options(change, error, part):
    with refuses(error, part):
        TransformerBlock(case().weights(), **case().options | change)


def test_unknown_keywords():
    with pytest.raises(TypeError, match="dropout"):
        TransformerBlock(case().weights(), **case().options, dropout=0.1)
    with pytest.raises(TypeError):
        TransformerBlock(case().weights(), 4)


def test_both_spellings_of_scalings():
    x = case().input(1, 9)
    old, new = ({key: "linear", "factor": 4.0} for key in ("type", "rope_type"))
    plain = case().block().forward(x)
    assert same(case(rope_scaling=old).block().forward(x), case(rope_scaling=new).block().forward(x))
    assert not same(case(rope_scaling=old).block().forward(x), plain)
    both = {"type": "llama3", "rope_type": "linear", "factor": 4.0}
    assert case(rope_scaling=both).block().rope_scaling["rope_type"] == "linear"
    assert same(case(rope_scaling={"rope_type": "default"}).block().forward(x), plain)


def test_devices_formats_profiles_and_modes():
    c = case()
    for device in ("auto", "cpu"):
        assert TransformerBlock(c.weights(), **c.options, device=device).device == "cpu"
    for device in ("cuda", "opencl", "gpu"):
        with refuses(NotImplementedError, "[TransformerBlock] device", device):
            TransformerBlock(c.weights(), **c.options, device=device)
    with refuses(ValueError, "[TransformerBlock] device", "tpu"):
        TransformerBlock(c.weights(), **c.options, device="tpu")
    x = c.input(1, 3)
    for mode in ("identical", "deterministic", "fast"):
        block = TransformerBlock(c.weights(), **c.options, numeric_mode=mode)
        assert block.numeric_mode == mode and block.numeric_mode_used() == "identical"
        assert same(block(x), c.block()(x))
    with refuses(ValueError, "[TransformerBlock] numeric_mode", "identical", "exact"):
        TransformerBlock(c.weights(), **c.options, numeric_mode="exact")
    with refuses(NotImplementedError, "numeric_profile", "rejected", "perplexity"):
        TransformerBlock(c.weights(), **c.options, numeric_profile="int8_v1")
    with refuses(ValueError, "numeric_profile", "fp32_v1", "fp64"):
        TransformerBlock(c.weights(), **c.options, numeric_profile="fp64")


def test_inference_class():
    c = case()
    block = TransformerBlockInference(c.weights(), **c.options)
    x = c.input(2, 4)
    assert isinstance(block, TransformerBlock) and same(block(x), c.block()(x))
    state = block.allocate_state(2, 8)
    with block.decode_session(state) as session:
        assert same(session.step(x[:, 0]), np.asarray(block(x))[:, 0])
    for cls in (TransformerBlock, TransformerBlockInference):
        with refuses(NotImplementedError, f"[{cls.__name__}] backward"):
            cls(c.weights(), **c.options).backward(x, x)


INPUT_REFUSALS = [
    (np.zeros((2, 3, 24)), TypeError, "F64"),
    (np.zeros((2, 3, 24), "f2"), TypeError, "F16"),
    (np.zeros((2, 3, 24), "i4"), TypeError, "I32"),
    (np.zeros((2, 3, 24), bool), TypeError, "BOOL"),
    (np.zeros((2, 3, 24), ">f4"), TypeError, ">f"),
    ([[[0.0] * 24]], TypeError, "list"),
    (None, TypeError, "NoneType"),
    (np.zeros((2, 3, 25), "f4"), ValueError, "(B, L, 24)"),
    (np.zeros((3, 24), "f4"), ValueError, "(3, 24)"),
    (np.zeros((2, 3, 24, 1), "f4"), ValueError, "(2, 3, 24, 1)"),
    (np.zeros((0, 3, 24), "f4"), ValueError, "(0, 3, 24)"),
    (np.zeros((2, 0, 24), "f4"), ValueError, "(2, 0, 24)"),
    (np.full((2, 3, 24), np.nan, "f4"), ValueError, "finite"),
]


@pytest.mark.parametrize(("x", "error", "part"), INPUT_REFUSALS)
def test_refused_inputs(x, error, part):
    block = case().block()
    with refuses(error, "[TransformerBlock] x", part):
        block.forward(x)
    state = block.allocate_state(2, 8)
    block.forward(case().input(2, 2), state)
    before = bytes(state.k_cache), bytes(state.v_cache)
    with refuses(error, "[TransformerBlock] x", part):
        block.forward(x, state)
    assert state.cached_tokens == 2 and (bytes(state.k_cache), bytes(state.v_cache)) == before


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_nonfinite_input(value):
    block, x = case().block(), case().input(2, 40)
    x[1, 39, 23] = value
    with refuses(ValueError, "[TransformerBlock] x", "finite"):
        block.forward(x)


def test_step_takes_one_token():
    block = case().block()
    state = block.allocate_state(2, 8)
    for shape in ((2, 2, 24), (24,), (2, 25), (2, 1, 25), (0, 24)):
        with refuses(ValueError, "[TransformerBlock] x", "(B, 24) or (B, 1, 24)"):
            block.step(np.zeros(shape, "f4"), state)
    with refuses(TypeError, "[TransformerBlock] state", "NoneType"):
        block.step(np.zeros((2, 24), "f4"), None)
    assert state.cached_tokens == 0


def test_lengths():
    block, x = case().block(), case().input(3, 6)
    ragged = block.forward(x, lengths=[6, 1, 4])
    for row, n in enumerate((6, 1, 4)):
        alone = np.asarray(block.forward(x[row : row + 1, :n]))
        assert same(np.asarray(ragged)[row, :n], alone[0])
        assert not np.asarray(ragged)[row, n:].view(np.uint32).any()
    for kind in (np.array([6, 1, 4]), (6, 1, 4), Array.from_list([6, 1, 4], "u1"), np.array([6, 1, 4], "i2")):
        assert same(block.forward(x, lengths=kind), ragged)
    padded = x.copy()
    padded[1, 1:] = np.nan
    padded[2, 4:] = np.inf
    assert same(block.forward(padded, lengths=[6, 1, 4]), ragged)


def test_refused_lengths():
    block, x = case().block(), case().input(3, 6)
    for lengths in ([6, 1], [6, 1, 4, 1], [6, 0, 4], [7, 1, 4], [-1, 1, 1], [2**70, 1, 1], [[6, 1, 4]], []):
        with refuses(ValueError, "[TransformerBlock] lengths"):
            block.forward(x, lengths=lengths)
    for lengths in ([6.0, 1, 4], [True, 1, 4], np.ones(3), np.ones(3, bool), 3, "abc"):
        with refuses(TypeError, "[TransformerBlock] lengths"):
            block.forward(x, lengths=lengths)
    state = block.allocate_state(3, 8)
    with refuses(ValueError, "[TransformerBlock] lengths", "state"):
        block.forward(x, state, lengths=[6, 1, 4])
    assert state.cached_tokens == 0


def test_set_params():
    c, other = case(), case(seed=5)
    block = c.block()
    x = c.input(1, 4)
    params = block.get_params()
    assert same(TransformerBlock(**params)(x), block(x))
    assert block.set_params(weights=other.weights()) is block
    assert same(block(x), other.block()(x))
    block.set_params(window=2, norm_eps=0.5)
    assert block.window == 2
    assert same(
        block(x), TransformerBlock(other.weights(), **other.options | {"window": 2, "norm_eps": 0.5})(x)
    )
    before = block(x)
    with refuses(ValueError, "set_params", "depth"):
        block.set_params(depth=3)
    with refuses(ValueError, "window"):
        block.set_params(window=-1)
    assert same(block(x), before) and block.window == 2


def test_threads_may_share_a_block():
    c = case(d_model=48, intermediate=96)
    block, x = c.block(), c.input(2, 40)
    right = block(x)
    results = []
    threads = [threading.Thread(target=lambda: results.extend(block(x) for _ in range(5))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20 and all(same(y, right) for y in results)


def test_a_value_that_overflows_inside():
    c = case()
    weights = random_weights(c)
    weights["up_proj.weight"] *= np.float32(1e30)
    weights["down_proj.weight"] *= np.float32(1e30)
    block = TransformerBlock(weights, **c.options)
    state = block.allocate_state(1, 8)
    with pytest.raises(isobit.NonFiniteError) as caught:
        block.forward(c.input(1, 3), state)
    assert isinstance(caught.value, ValueError)
    assert caught.value.position == 0 and caught.value.layer == 0 and caught.value.stage in str(caught.value)
    assert state.cached_tokens == 0 and not np.asarray(state.k_cache).any()


def test_names_that_are_not_provided():
    for name in ("SambaStack", "training"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(isobit, name)
        assert not hasattr(isobit, name)
    with pytest.raises(NotImplementedError, match="ParallelCausalLM"):
        _ = isobit.models.ParallelCausalLM
    assert not hasattr(isobit.models, "ParallelCausalLM")
    with refuses(AttributeError, "Mamba4Block"):
        _ = isobit.Mamba4Block

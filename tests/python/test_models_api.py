# SPDX-License-Identifier: Apache-2.0
"""CausalLM as Python meets it: loading, calls, states, refusals. Parity and bits are tested elsewhere."""

import copy
import math
import subprocess
import sys

import numpy as np
import pytest
from support.bits import same
from support.checkpoints import make_config, random_weights, write_checkpoint
from support.refusals import refuses

import isobit
from isobit.models import (
    CausalLM,
    CausalLMState,
    UnsupportedModel,
    plan_for,
)

IDS = np.array([[5, 9, 2, 40, 1, 17]])


def test_plan_kwargs_build_the_layer(model):
    block = isobit.TransformerBlock(model.blocks[1].parameters(), **model.plan.layer_kwargs(1))
    x = np.random.default_rng(0).standard_normal((1, 5, 32)).astype("f4")
    assert same(block(x), model.blocks[1](x))


def test_loaded_model(model, folder):
    assert (model.vocab_size, model.d_model, model.n_layers, model.kind) == (96, 32, 2, "transformer")
    assert (model.max_positions, model.tied, model.device, model.weight_format) == (
        128,
        False,
        "cpu",
        "float32",
    )
    assert model.numeric_profile == "fp32_v1" and model.numeric_mode_used() == "identical"
    assert model.vendor_used() == "cpu" and model.unused_names == []
    assert model.config["hidden_size"] == 32 and model.plan.model_type == "llama"
    assert len(model.blocks) == 2 and type(model.blocks[0]) is isobit.TransformerBlock
    assert "llama" in repr(model)
    weights = random_weights(make_config("llama"))
    parameters = model.parameters()
    assert sorted(parameters) == sorted(weights)
    assert all(same(parameters[name], w) for name, w in weights.items())


def test_blocks_outlive_the_model(folder):
    block = CausalLM.load(folder).blocks[0]
    assert np.isfinite(np.asarray(block(np.ones((1, 3, 32), "f4")))).all()


def test_shapes(model):
    logits = model(np.repeat(IDS, 2, axis=0))
    assert type(logits) is isobit.Array and logits.shape == (2, 6, 96) and logits.dtype == "f4"
    last = model.forward(IDS, last_only=True)
    assert last.shape == (1, 96) and same(last, np.asarray(model.forward(IDS))[:, -1])
    state = model.allocate_state(1, 10)
    assert type(state) is CausalLMState and (state.batch_size, state.max_tokens, state.positions) == (
        1,
        10,
        0,
    )
    assert same(model.forward(IDS[:, :4], state), np.asarray(model(IDS))[:, :4])
    assert same(model.step(IDS[:, 4], state), np.asarray(model(IDS))[:, 4])
    assert same(model.step(IDS[:, 5:6], state), last)
    assert state.positions == 6 and "positions=6" in repr(state)
    assert [layer.cached_tokens for layer in state.layers] == [6, 6]
    model.reset_state(state)
    assert state.positions == 0 and same(model.forward(IDS, state, last_only=True), last)


def test_every_kind_of_ids(model):
    torch = pytest.importorskip("torch")
    right = model(IDS)
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"):
        assert same(model(IDS.astype(dtype)), right), dtype
    for ids in (
        IDS.tolist(),
        tuple(map(tuple, IDS.tolist())),
        torch.from_numpy(IDS),
        isobit.Array.from_buffer(IDS),
    ):
        assert same(model(ids), right)
    assert same(model(np.repeat(IDS, 2, axis=1)[:, ::2]), right)
    assert same(model([list(IDS[0])]), right)  # NumPy integers in a list


ID_REFUSALS = [
    (IDS.astype("f4"), TypeError, "F32"),
    (IDS.astype(bool), TypeError, "BOOL"),
    ([[1.0]], TypeError, "float"),
    ([[True]], TypeError, "bool"),
    ([["1"]], TypeError, "str"),
    ("text", TypeError, "str"),
    (None, TypeError, "NoneType"),
    (3, TypeError, "int"),
    ([[96]], ValueError, "96"),
    ([[-1]], ValueError, "-1"),
    ([[2**70]], ValueError, "int64"),
    (np.array([[2**63]], "u8"), ValueError, "int64"),
    ([[1, 2], [3]], ValueError, "ragged"),
    ([1, 2], ValueError, "(2,)"),
    ([[[1]]], ValueError, "axes"),
    ([[]], ValueError, "(1, 0)"),
    ([], ValueError, "(0,)"),
    (np.zeros((0, 3), "i4"), ValueError, "(0, 3)"),
]


@pytest.mark.parametrize(("ids", "error", "part"), ID_REFUSALS)
def test_refused_ids(model, ids, error, part):
    state = model.allocate_state(1, 10)
    model.forward(IDS[:, :3], state)
    before = [bytes(layer.k_cache) for layer in state.layers]
    calls = (lambda: model.forward(ids), lambda: model.forward(ids, state), lambda: model.generate(ids, 1))
    for call in calls:
        with refuses(error, "[CausalLM", "] ids", part):
            call()
    assert state.positions == 3 and [bytes(layer.k_cache) for layer in state.layers] == before


def test_refused_steps(model):
    state = model.allocate_state(2, 4)
    for ids in ([[1, 2], [3, 4]], [1], [[1]], [1, 2, 3], [], [[1], [96]], [1, -1]):
        with refuses(ValueError, "[CausalLM]"):
            model.step(ids, state)
    with refuses(TypeError, "[CausalLM] ids", "float"):
        model.step([1.0, 2.0], state)
    with refuses(TypeError, "[CausalLM] state", "NoneType"):
        model.step([1, 2], None)
    assert state.positions == 0


def test_states_of_others(model, folder):
    other = CausalLM.load(folder)
    state = other.allocate_state(1, 8)
    calls = (
        lambda: model.forward(IDS, state),
        lambda: model.step([1], state),
        lambda: model.reset_state(state),
    )
    for call in calls:
        with refuses(ValueError, "[CausalLM] state", "model"):
            call()
    assert state.positions == 0
    with refuses(TypeError, "[CausalLM] state", "TransformerState"):
        model.forward(IDS, state.layers[0])
    with refuses(ValueError, "[CausalLM]", "batch"):
        other.forward([[1], [2]], state)


def test_too_many_tokens(model):
    state = model.allocate_state(1, 4)
    model.forward(IDS[:, :3], state)
    with refuses(ValueError, "[CausalLM] state", "room for", "4 cached"):
        model.forward(IDS[:, :2], state)
    assert state.positions == 3
    with refuses(ValueError, "max_positions", "128"):
        model.forward(np.zeros((1, 129), "i4"))
    with refuses(ValueError, "[CausalLM] max_tokens", "1..128", "129"):
        model.allocate_state(1, 129)
    with refuses(ValueError, "max_positions", "128"):
        model.generate(IDS, 123)
    for sizes in ((0, 4), (1, 0), (-1, 4)):
        with refuses(ValueError, "batch_size" if sizes[0] < 1 else "max_tokens"):
            model.allocate_state(*sizes)


def test_lengths(model):
    ids = np.array([[1, 2, 3, 4], [5, 6, 0, 0]])
    ragged = model.forward(ids, lengths=[4, 2])
    assert same(np.asarray(ragged)[0], np.asarray(model(ids[:1]))[0])
    assert same(np.asarray(ragged)[1, :2], np.asarray(model(ids[1:, :2]))[0])
    last = model.forward(ids, lengths=[4, 2], last_only=True)
    assert same(np.asarray(last)[1], np.asarray(ragged)[1, 1])
    for lengths in ([4], [4, 5], [0, 1], [4, 2, 1]):
        with refuses(ValueError, "[CausalLM]", "lengths"):
            model.forward(ids, lengths=lengths)


def test_ragged_rows_continue_on_a_state(model):
    ids = np.array([[1, 2, 3, 4], [5, 6, 0, 0]])
    state = model.allocate_state(2, 8)
    first = np.asarray(model.forward(ids, state, lengths=[4, 2]))
    assert state.row_positions == [4, 2] and state.positions == 4
    twin = copy.copy(state)
    next_logits = np.asarray(model.step([7, 8], state))
    assert same(np.asarray(model.step([7, 8], twin)), next_logits)
    assert same(first, np.asarray(model.forward(ids, lengths=[4, 2])))
    assert same(next_logits[0], np.asarray(model.forward([[1, 2, 3, 4, 7]], last_only=True))[0])
    assert same(next_logits[1], np.asarray(model.forward([[5, 6, 8]], last_only=True))[0])
    assert state.row_positions == [5, 3]
    layer = state.layers[0]
    keys = np.asarray(layer.keys())
    assert not keys[1, :, 3:].any() and keys[1, :, 2].any()
    with refuses(ValueError, "[TransformerState]", "same number of tokens"):
        copy.copy(layer)


def test_a_layer_with_a_session_is_refused(model):
    state = model.allocate_state(1, 8)
    with model.blocks[0].decode_session(state.layers[0]):
        for call in (lambda: model.forward(IDS, state), lambda: model.step([1], state)):
            with refuses(ValueError, "[CausalLM] state", "session"):
                call()
    model.forward(IDS, state)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_of_a_state_go_their_own_way(model, copied):
    state = model.allocate_state(1, 10)
    model.forward(IDS[:, :3], state)
    other = copied(state)
    assert type(other) is CausalLMState and other.positions == 3 and other.max_tokens == 10
    right = model.forward(IDS[:, 3:], state)
    assert other.positions == 3
    model.step([7], other)
    assert other.positions == 4 and state.positions == 6
    assert same(model.forward(IDS[:, 3:], copied(_rewound(model))), right)


def _rewound(model):
    state = model.allocate_state(1, 10)
    model.forward(IDS[:, :3], state)
    return state


def test_edits_of_a_layer_are_honoured(model):
    state, right = _rewound(model), _rewound(model)
    edited = np.array(right.layers[1].v_cache)
    edited[:40] += 1
    right.layers[1].v_cache = edited
    np.asarray(state.layers[1].v_cache)[:40] += 1
    logits = model.step([1], state)
    assert same(logits, model.step([1], right))
    assert not same(logits, model.step([1], _rewound(model)))


def test_a_nonfinite_layer_is_refused(model):
    state = _rewound(model)
    held = state.layers[1].k_cache
    np.asarray(held)[3] = np.inf
    for call in (lambda: model.step([1], state), lambda: model.forward(IDS, state)):
        with refuses(ValueError, "k_cache", "finite"):
            call()
    assert [layer.cached_tokens for layer in state.layers] == [3, 3]
    model.reset_state(state)
    assert same(model.forward(IDS, state), model.forward(IDS))


def test_a_state_keeps_its_model(folder):
    state = CausalLM.load(folder).allocate_state(1, 8)
    for _ in range(3):
        with refuses(ValueError, "[CausalLM] state", "model"):
            CausalLM.load(folder).forward(IDS, state)


def test_generate(model):
    out = model.generate(IDS, 5)
    assert type(out) is isobit.Array and out.dtype == "i4" and out.shape == (1, 11)
    ids = IDS.tolist()[0]
    for _ in range(5):
        ids.append(model.forward([ids], last_only=True).argmax())
    assert out.tolist() == [ids]
    both = model.generate([ids[:6], ids[1:7]], 3)
    assert both.shape == (2, 9) and both[0].tolist() == ids[:9]
    unchanged = model.generate(IDS, 0)
    assert unchanged.tolist() == IDS.tolist() and unchanged.dtype == "i4"
    assert model.generate(IDS, 2, greedy=True).shape == (1, 8)
    with refuses(NotImplementedError, "[CausalLM] greedy"):
        model.generate(IDS, 2, greedy=False)
    with refuses(ValueError, "max_new_tokens", "-1"):
        model.generate(IDS, -1)
    for n in (1.0, True, None):
        with refuses(TypeError, "[CausalLM] max_new_tokens"):
            model.generate(IDS, n)


def test_streaming(model):
    seen = []

    def on_token(step, ids, logits):
        assert logits.shape == (2, 96) and [logits[row].argmax() for row in range(2)] == ids
        seen.append((step, ids))
        return None if step < 2 else False

    prompt = [[1, 2], [3, 4]]
    out = model._generate_stream(prompt, 10, on_token)
    assert [step for step, _ in seen] == [0, 1, 2]
    assert out.shape == (2, 5) and out.tolist() == model.generate(prompt, 3).tolist()
    assert [[row[2 + step] for row in out.tolist()] for step in range(3)] == [ids for _, ids in seen]

    def fail(step, ids, logits):
        raise KeyError("mine")

    with refuses(KeyError, "mine"):
        model._generate_stream(prompt, 3, fail)
    assert model.generate(prompt, 3).tolist() == out.tolist()


def test_ctrl_c_stops_a_long_call():
    program = (
        "import os, signal, threading, time, numpy as np, isobit\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background runner ignores it
        "r = np.random.default_rng(0)\n"
        "d, w = 1024, 4096\n"
        "def m(*s): return (r.standard_normal(s) / 32).astype('f4')\n"
        "weights = {f'{n}_proj.weight': m(*s) for n, s in\n"
        "  dict(q=(d, d), k=(d, d), v=(d, d), o=(d, d), gate=(w, d), up=(w, d), down=(d, w)).items()}\n"
        "weights |= {f'{n}_layernorm.weight': np.ones(d, 'f4') for n in ('input', 'post_attention')}\n"
        "block = isobit.TransformerBlock(weights, n_heads=16)\n"
        "x = m(4, 8000, d)\n"
        "state = block.allocate_state(4, 8000)\n"
        "threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try: block.forward(x, state)\n"
        "except KeyboardInterrupt: print('stopped at', state.cached_tokens)\n"
        "else: print('finished')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.stdout.strip() == "stopped at 0", run.stderr


def test_model_from_arrays(model):
    config = make_config("llama")
    weights = random_weights(config)
    plan = plan_for(config)
    made = CausalLM(plan, weights)
    assert same(made(IDS), model(IDS)) and made.config is None
    layers = [{key: weights[name] for key, name, _ in plan.layer_weights(i)} for i in range(2)]
    nested = {
        "embed": weights[plan.embed_name],
        "norm": weights[plan.norm_name],
        "head": weights[plan.head_name],
    }
    assert same(CausalLM(plan, nested | {"layers": layers})(IDS), model(IDS))
    with refuses(ValueError, "[CausalLM] layers", "2", "1"):
        CausalLM(plan, nested | {"layers": layers[:1]})
    with refuses(UnsupportedModel, "layers[1]", "input_layernorm.weight", "{}"):
        CausalLM(plan, nested | {"layers": [layers[0], {}]})


def test_fused_model_from_layers():
    config = make_config("phi3")
    weights, plan = random_weights(config), plan_for(config)
    layers = [
        {key: weights[name][rows or slice(None)] for key, name, rows in plan.layer_weights(i)}
        for i in range(2)
    ]
    nested = {
        "embed": weights[plan.embed_name],
        "norm": weights[plan.norm_name],
        "head": weights[plan.head_name],
    }
    right = CausalLM(plan, weights)(IDS)
    assert same(CausalLM(plan, nested | {"layers": layers})(IDS), right)


def test_refused_weights():
    config = make_config("llama")
    plan = plan_for(config)

    def build(change):
        return CausalLM(plan, {k: v for k, v in (random_weights(config) | change).items() if v is not None})

    q = "model.layers.1.self_attn.q_proj.weight"
    with refuses(UnsupportedModel, q):
        build({q: None})
    with refuses(UnsupportedModel, "lm_head.weight"):
        build({"lm_head.weight": None})
    with refuses(UnsupportedModel, "model.layers.1.extra"):
        build({"model.layers.1.extra": np.zeros(3, "f4")})
    with refuses(ValueError, "layer 1", "q_proj.weight", "(32, 33)"):
        build({q: np.zeros((32, 33), "f4")})
    with refuses(TypeError, "layer 1", "q_proj.weight"):
        build({q: np.zeros((32, 32), "i4")})
    for value in (math.nan, math.inf):
        for name in (q, "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"):
            bad = random_weights(config)[name]
            bad.reshape(-1)[5] = value
            with refuses(ValueError, name.removeprefix("model.layers.1.self_attn."), "finite"):
                build({name: bad})


def test_load_refusals(tmp_path, folder):
    with refuses(FileNotFoundError, "nowhere"):
        CausalLM.load(tmp_path / "nowhere")
    with pytest.raises((FileNotFoundError, ValueError)):
        CausalLM.load(folder / "config.json")
    with refuses(NotImplementedError, "[CausalLM] device", "cuda"):
        CausalLM.load(folder, device="cuda")
    with refuses(ValueError, "[CausalLM] device", "abacus"):
        CausalLM.load(folder, device="abacus")
    for name in ("int8", "float16"):
        with refuses(ValueError, "[CausalLM] embed_format", name):
            CausalLM.load(folder, embed_format=name)
    with refuses(ValueError, "[CausalLM] numeric_mode", "exact"):
        CausalLM.load(folder, numeric_mode="exact")
    assert CausalLM.load(folder, numeric_mode="fast").numeric_mode_used() == "identical"
    with refuses(ValueError, "[CausalLM] weight_format", "int3"):
        CausalLM.load(folder, weight_format="int3")
    with refuses(NotImplementedError, "[CausalLM] numeric_profile", "int8_v1", "rejected"):
        CausalLM.load(folder, numeric_profile="int8_v1")
    with refuses(ValueError, "[CausalLM] numeric_profile", "int8x32_v1", "'bf16'"):
        CausalLM.load(folder, numeric_profile="bf16")
    for n in (0, -1, 129):
        with refuses(ValueError, "[CausalLM] max_positions", str(n)):
            CausalLM.load(folder, max_positions=n)
    with refuses(TypeError, "[CausalLM] max_positions", "float"):
        CausalLM.load(folder, max_positions=16.0)
    config = make_config("llama")
    weights = random_weights(config)
    missing = {name: w for name, w in weights.items() if "layers.1" not in name}
    with refuses(UnsupportedModel, "9", "model.layers.1."):
        CausalLM.load(write_checkpoint(tmp_path / "missing", config, missing))
    more = weights | {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, "f4")}
    assert CausalLM.load(write_checkpoint(tmp_path / "more", config, more)).unused_names == [
        "model.layers.0.self_attn.rotary_emb.inv_freq"
    ]


def test_load_options(folder, model):
    calls = []
    short = CausalLM.load(folder, max_positions=16, progress=lambda done, total: calls.append((done, total)))
    assert short.max_positions == 16 and same(short(IDS), model(IDS))
    assert calls[-1][0] == calls[-1][1] > 1 and calls == sorted(calls)
    with refuses(ValueError, "max_positions", "16"):
        short.forward(np.zeros((1, 17), "i4"))

    def fail(done, total):
        raise KeyError("mine")

    with refuses(KeyError, "mine"):
        CausalLM.load(folder, progress=fail)


def test_tokenizer_is_lazy():
    program = "import sys, isobit\nassert not {'isobit.text', 'tokenizers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
    with refuses(AttributeError, "Nonsense"):
        _ = isobit.models.Nonsense

# SPDX-License-Identifier: Apache-2.0
"""The Samba stack: its config, its bits, its parts against blocks run by hand, and hostile checkpoints."""

import hashlib
import json
import math

import numpy as np
import pytest

import isobit
from isobit import SambaConfig, SambaInference
from isobit.cli.common import mamba_state_numbers

KINDS = ("mamba3", "attention", "mamba3")
FIELDS = {"vocab": 40, "d_model": 32, "layers": KINDS, "n_heads": 4, "n_kv_heads": 2, "intermediate": 48}


def config_of(**changes):
    return SambaConfig(**{**FIELDS, **changes})


def random_weights(config, seed=0):
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in config.registry():
        scale = 1.0 / math.sqrt(shape[-1]) if len(shape) > 1 and "embed" not in name else 1.0
        values = rng.uniform(-1, 1, shape) * scale
        weights[name] = (values + ("norm" in name)).astype(np.float32)
    return weights


def test_config():
    config = config_of()
    assert config.head_dim == 8 and config.tie_embeddings and config.norm_eps == 1e-5
    assert SambaConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    names = [name for name, _ in config.registry()]
    assert names[0] == "embed.weight" and names[-1] == "norm_f.weight" and len(set(names)) == len(names)
    assert names[1] == "layers.0.block_norm.weight" and "layers.1.q_proj.weight" in names
    assert config_of(tie_embeddings=False).registry()[-1] == ("lm_head.weight", (40, 32))
    assert dict(config.block_shapes("mamba3"))["in_proj.weight"] == (2 * 64 + 256 + 3 + 32, 32)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"vocab": 1}, ValueError, "vocab"),
        ({"vocab": 2.0}, TypeError, "vocab"),
        ({"layers": []}, ValueError, "layers"),
        ({"layers": "mamba3"}, TypeError, "layers"),
        ({"layers": ["mamba2"]}, ValueError, "mamba2"),
        ({"d_model": 48, "head_dim": 12}, ValueError, "multiple of 32"),
        ({"n_heads": None}, TypeError, "n_heads"),
        ({"n_heads": 5}, ValueError, "head_dim"),
        ({"n_kv_heads": 3}, ValueError, "n_kv_heads"),
        ({"intermediate": None}, TypeError, "intermediate"),
        ({"norm_eps": -1.0}, ValueError, "norm_eps"),
        ({"dropout": 1.0}, ValueError, "dropout"),
        ({"tie_embeddings": 1}, TypeError, "tie_embeddings"),
    ],
)
def test_refused_configs(changes, error, match):
    with pytest.raises(error, match=match):
        config_of(**changes)


def test_unknown_fields_of_a_dict():
    with pytest.raises(ValueError, match="fields"):
        SambaConfig.from_dict({**config_of().to_dict(), "other": 1})


def norm(x, weight, eps):
    """RMSNorm through a block of the library whose mixer gives 0: not needed, so plain float64."""
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_the_blocks(tied):
    config = config_of(tie_embeddings=tied)
    weights = random_weights(config)
    ids = np.random.default_rng(1).integers(0, 40, (2, 19))
    h = weights["embed.weight"][ids]
    for i, kind in enumerate(config.layers):
        own = {name: weights[f"layers.{i}.{name}"] for name, _ in config.block_shapes(kind)}
        block = (
            isobit.Mamba3Block(own)
            if kind == "mamba3"
            else isobit.TransformerBlock(own, n_heads=4, n_kv_heads=2)
        )
        h = np.asarray(block.forward(h))
    head = weights["embed.weight" if tied else "lm_head.weight"]
    expected = norm(h, weights["norm_f.weight"], config.norm_eps) @ head.T.astype(np.float64)
    model = SambaInference(config, weights)
    np.testing.assert_allclose(np.asarray(model.forward(ids)), expected, rtol=1e-4, atol=1e-5)
    for name, value in model.parameters().items():
        assert np.asarray(value).tobytes() == weights[name].tobytes()


def test_steps_pieces_and_ragged_rows_give_the_same_bits():
    model = SambaInference(config_of(), random_weights(config_of()))
    ids = np.random.default_rng(1).integers(0, 40, (2, 21))
    whole = np.asarray(model(ids))
    state = model.allocate_state(2, 21)
    steps = [np.asarray(model.step(ids[:, t], state)) for t in range(21)]
    assert np.stack(steps, axis=1).tobytes() == whole.tobytes()
    assert [type(layer).__name__ for layer in state.layers] == [
        "Mamba3State",
        "TransformerState",
        "Mamba3State",
    ]
    held = sum(np.asarray(getattr(state.layers[0], name)).size for name in ("theta", "h", "k", "v"))
    assert 2 * mamba_state_numbers(model._model.plan) == held
    state = model.allocate_state(2, 21)
    pieces = [np.asarray(model.forward(part, state)) for part in (ids[:, :4], ids[:, 4:])]
    assert np.concatenate(pieces, axis=1).tobytes() == whole.tobytes()
    ragged = np.asarray(model.forward(ids, lengths=[21, 8]))
    assert ragged[1, :8].tobytes() == np.asarray(model.forward(ids[1:, :8]))[0].tobytes()
    assert not ragged[1, 8:].any()


@pytest.mark.parametrize("change", ["missing", "unknown", "shape", "dtype", "nan"])
def test_refused_weights(change):
    weights = random_weights(config_of())
    name = "layers.2.dt_bias"
    error = ValueError
    if change == "missing":
        del weights[name]
    elif change == "unknown":
        name = "layers.3.dt_bias"
        weights[name] = weights["layers.2.dt_bias"]
    elif change == "shape":
        weights[name] = np.zeros(2, np.float32)
    elif change == "dtype":
        weights[name], error = weights[name].astype(np.float64), TypeError
    else:
        weights[name] = np.full_like(weights[name], np.nan)
        name = "dt_bias"
    with pytest.raises(error, match=name.replace(".", r"\.")):
        SambaInference(config_of(), weights)


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def header_of(config, parts):
    registry, offset = [], 0
    for name, shape in config.registry():
        registry.append([name, list(shape), offset, math.prod(shape)])
        offset += math.prod(shape)
    dtypes = {"buf_initialized": "i4"}
    return {
        "schema": "isobit.samba-stream.v1",
        "arrays": {
            name: {
                "dtype": dtypes.get(name, "f4"),
                "nbytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            for name, data in parts.items()
        },
        "state": {
            "schema": "isobit.samba-stack-state.v1",
            "profile": "isobit.samba-stack.fp32.v1",
            "numeric_mode": "identical",
            "config": config.to_dict(),
            "registry": registry,
            "t": 7,
            "optimizer": {"kind": "adamw"},
            "schedule": None,
            "rng": {"seed": 1, "counter": 2},
        },
    }


def stream(config, weights, edit=None):
    flat = b"".join(weights[name].tobytes() for name, _ in config.registry())
    parts = {
        "parameters": flat,
        "exp_avg": bytes(len(flat)),
        "exp_avg_sq": bytes(len(flat)),
        "buf_initialized": bytes(4 * len(config.registry())),
    }
    header = header_of(config, parts)
    if edit:
        edit(header)
    text = canonical(header)
    return b"".join(
        (
            b"ISOBIT-SAMBA\x01\n",
            len(text).to_bytes(8, "little"),
            text,
            hashlib.sha256(text).digest(),
            *parts.values(),
        )
    )


def test_checkpoint(tmp_path):
    config = config_of()
    weights = random_weights(config)
    path = tmp_path / "model.samba"
    path.write_bytes(stream(config, weights))
    model = SambaInference.from_checkpoint(path)
    ids = [[1, 2, 3]]
    assert model.config == config
    assert np.asarray(model(ids)).tobytes() == np.asarray(SambaInference(config, weights)(ids)).tobytes()
    with pytest.raises(FileNotFoundError):
        SambaInference.from_checkpoint(tmp_path / "other")


def set_in(*path_and_value):
    *path, last, value = path_and_value

    def edit(header):
        for key in path:
            header = header[key]
        header[last] = value

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        set_in("schema", "isobit.samba-stream.v9"),
        set_in("state", "schema", "x"),
        set_in("state", "profile", "x"),
        set_in("state", "numeric_mode", "fast"),
        set_in("state", "t", -1),
        set_in("state", "t", True),
        set_in("state", "config", "vocab", 41),
        set_in("state", "config", "d_model", 2**40),
        set_in("state", "config", "layers", ["mamba3"]),
        set_in("state", "config", {}),
        set_in("state", "config", 3),
        set_in("state", "registry", []),
        set_in("state", "more", 1),
        set_in("arrays", "parameters", "nbytes", 4),
        set_in("arrays", "parameters", "dtype", "f8"),
        set_in("arrays", "parameters", "sha256", "0" * 64),
        set_in("arrays", "exp_avg_sq", "sha256", "0" * 64),
        set_in("arrays", "exp_avg", None),
        set_in("arrays", []),
        set_in("more", 1),
    ],
)
def test_headers_that_lie(tmp_path, edit):
    path = tmp_path / "model.samba"
    path.write_bytes(stream(config_of(), random_weights(config_of()), edit))
    with pytest.raises(ValueError, match=r"\[SambaInference\] .*model\.samba: expected"):
        SambaInference.from_checkpoint(path)


def test_a_state_of_another_profile(tmp_path):
    path = tmp_path / "model.samba"
    edit = set_in("state", "numeric_profile", "fixed15_v1")
    path.write_bytes(stream(config_of(), random_weights(config_of()), edit))
    with pytest.raises(ValueError, match="expected a state of numeric_profile fp32_v1, got 'fixed15_v1'"):
        SambaInference.from_checkpoint(path)


def test_bytes_that_lie(tmp_path):
    good = stream(config_of(), random_weights(config_of()))
    length = int.from_bytes(good[14:22], "little")
    respelled = good[:22] + good[22 : 22 + length].replace(b'"t":7', b'"t": 7')
    wrong = {
        "empty": b"",
        "magic": b"X" + good[1:],
        "version": good[:12] + b"\x02" + good[13:],
        "huge header": good[:14] + (1 << 40).to_bytes(8, "little") + good[22:],
        "no header": good[:14] + (0).to_bytes(8, "little") + good[22:],
        "cut in the header": good[:100],
        "cut": good[:-1],
        "longer": good + b"\0",
        "header digest": good[: 22 + length] + bytes(32) + good[54 + length :],
        "weights": good[:-20_000] + b"\x01" + good[-19_999:],
        "not canonical": good[:14]
        + (length + 1).to_bytes(8, "little")
        + respelled[22:]
        + hashlib.sha256(respelled[22:]).digest()
        + good[54 + length :],
        "not JSON": good[:14] + (3).to_bytes(8, "little") + b"\xff{}" + hashlib.sha256(b"\xff{}").digest(),
        "nan": good[:14] + (3).to_bytes(8, "little") + b"NaN" + hashlib.sha256(b"NaN").digest(),
        "deep": good[:14] + (9000).to_bytes(8, "little") + b"[" * 9000 + hashlib.sha256(b"[" * 9000).digest(),
    }
    path = tmp_path / "model.samba"
    for what, data in wrong.items():
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"\[SambaInference\] .*model\.samba: expected"):
            print(what, SambaInference.from_checkpoint(path))

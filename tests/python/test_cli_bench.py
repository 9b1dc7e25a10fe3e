# SPDX-License-Identifier: Apache-2.0
"""`isobit bench`: what it counts, and that profiling counts every operation and stops again."""

import json

import pytest

pytest.importorskip("gguf")
from gguf_builder import build, model

import isobit
from isobit import _core
from isobit.cli import main
from isobit.gguf import convert


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    path.write_bytes(build(*model("llama", positions=256)))
    return convert(path, path.parent / "tiny")


def test_rows_fit_the_model_and_the_counts_are_consistent(capsys, directory):
    assert main(["bench", str(directory), "--json", "--profile", "--threads", "1"]) == 0
    facts = json.loads(capsys.readouterr().out)
    rows = [(r["work"], r["length"]) for r in facts["rows"]]
    assert rows == [("prefill", 16), ("prefill", 128), ("decode", 32)]
    plan = isobit.models.CausalLM.load(directory).plan
    for row in facts["rows"]:
        assert row["tokens_per_second"] > 0
        tokens = row["length"] if row["work"] == "prefill" else 1
        flop = row["gflop_per_second"] * 1e9 * tokens / row["tokens_per_second"]
        head = 2 * plan.vocab_size * plan.d_model
        layer = plan.d_model * (2 * (plan.n_heads + plan.n_kv_heads) * plan.head_dim + 3 * plan.intermediate)
        keys = row["length"] // 2 if row["work"] == "prefill" else row["length"]
        attention = 4 * plan.n_layers * plan.n_heads * plan.head_dim * keys * tokens
        assert flop == pytest.approx(2 * plan.n_layers * layer * tokens + head + attention)
        calls = {stage["stage"]: stage["calls"] for stage in row["profile"]}
        assert calls["attention"] == calls["rotate and cache"] == calls["activation"]
        assert calls["residual"] == 2 * calls["attention"]
        assert calls["norm"] == calls["residual"] + calls["attention"] // plan.n_layers


def test_profiling_is_off_unless_asked_for(capsys, directory):
    assert main(["bench", str(directory), "--threads", "1"]) == 0
    assert "tokens/s" in capsys.readouterr().out
    isobit.models.CausalLM.load(directory).generate([[1, 2]], 2)
    assert _core.profile() == []

# SPDX-License-Identifier: Apache-2.0
"""`isobit bench`: what it counts, and that profiling counts every operation and stops again;
ISOBIT_PROFILE."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("gguf")

import isobit
from isobit import _core
from isobit.cli import main


def test_rows_fit_the_model_and_the_counts_are_consistent(capsys, converted):
    assert main(["bench", str(converted), "--json", "--profile", "--threads", "1"]) == 0
    facts = json.loads(capsys.readouterr().out)
    rows = [(r["work"], r["length"]) for r in facts["rows"]]
    assert rows == [("prefill", 16), ("prefill", 128), ("decode", 32)]
    plan = isobit.models.CausalLM.load(converted).plan
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


def test_profiling_is_off_unless_asked_for(capsys, converted):
    assert main(["bench", str(converted), "--threads", "1"]) == 0
    assert "tokens/s" in capsys.readouterr().out
    isobit.models.CausalLM.load(converted).generate([[1, 2]], 2)
    assert _core.profile() == []


def test_lengths_can_be_chosen(capsys, converted):
    assert (
        main(["bench", str(converted), "--json", "--prompts", "3", "255", "256", "--depths", "224", "225"])
        == 0
    )
    rows = [(r["work"], r["length"]) for r in json.loads(capsys.readouterr().out)["rows"]]
    assert rows == [("prefill", 3), ("prefill", 255), ("decode", 224)]
    assert main(["bench", str(converted), "--prompts", "0"]) == 2
    assert "[bench] length: expected at least 1, got 0" in capsys.readouterr().err


@pytest.mark.parametrize("positions", [16, 128, 512])
def test_a_model_with_exactly_the_positions_of_a_prompt(capsys, converted, tmp_path, positions):
    short = shutil.copytree(converted, tmp_path / "short")
    config = json.loads((short / "config.json").read_text()) | {"max_position_embeddings": positions}
    (short / "config.json").write_text(json.dumps(config))
    assert main(["bench", str(short), "--json", "--depths", str(positions)]) == 0
    rows = [(r["work"], r["length"]) for r in json.loads(capsys.readouterr().out)["rows"]]
    assert rows == [("prefill", n) for n in (16, 128) if n < positions]


def generated(converted, **environment):
    program = (
        "import sys; from isobit.models import CausalLM; "
        "print(CausalLM.load(sys.argv[1]).generate([[1, 2, 3]], 4).tolist())"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(converted)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )


def test_profile_of_the_environment_is_printed_at_the_end(converted):
    plain, profiled = generated(converted), generated(converted, ISOBIT_PROFILE="1")
    assert plain.stderr == "" and generated(converted, ISOBIT_PROFILE="0").stderr == ""
    assert profiled.stdout == plain.stdout
    head, *lines = profiled.stderr.splitlines()
    assert re.fullmatch(r"isobit: where \d+\.\d{3} s of computing went", head)
    found = [re.fullmatch(r"    (.{24}) *([\d.]+)% *(\d+) calls(?: +[\d.]+ GFLOP/s)?", x) for x in lines]
    calls = {match[1].strip(): int(match[3]) for match in found}
    parts = [float(match[2]) for match in found]
    assert parts == sorted(parts, reverse=True) and sum(parts) == pytest.approx(100, abs=1)
    n_layers = isobit.models.CausalLM.load(converted).plan.n_layers
    assert calls["attention"] == 4 * n_layers  # the prompt and three steps
    assert calls["argmax"] == 4


def test_profile_of_the_environment_is_refused_and_shared_with_bench(converted):
    refused = generated(converted, ISOBIT_PROFILE="yes")
    assert refused.stderr == "isobit: [ISOBIT_PROFILE] expected 0 or 1, got 'yes': not profiling\n"
    command = [sys.executable, "-m", "isobit", "bench", str(converted), "--threads", "1"]
    options = {"env": os.environ | {"ISOBIT_PROFILE": "1"}, "capture_output": True, "text": True}
    total = subprocess.run(command, check=True, **options)
    assert "attention" in total.stderr and "attention" not in total.stdout
    by_row = subprocess.run([*command, "--profile"], check=True, **options)
    assert by_row.stderr == "" and by_row.stdout.count("attention") == 3

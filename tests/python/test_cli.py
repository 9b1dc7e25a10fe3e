# SPDX-License-Identifier: Apache-2.0
"""The command line on a small model: output, JSON, digests, exit codes, messages, signals and pipes."""

import contextlib
import hashlib
import io
import json
import os
import signal
import struct
import subprocess
import sys

import pytest
from support.signals import signalled, slow_conversion

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")
import isobit
from isobit.cli import main
from isobit.cli.common import ProgressBar, digest, stop_ids
from isobit.cli.streaming import answer
from isobit.models import CausalLM
from isobit.text import Tokenizer


@pytest.fixture
def directory(converted):
    return converted


@pytest.fixture
def run(capsys, directory):
    def call(command, *arguments, where=None):
        code = main([command, str(where or directory), *arguments])
        return code, *capsys.readouterr()

    return call


def fails(result, *parts):
    code, out, err = result
    assert code == 2
    assert err.startswith("isobit: error: ") and err.endswith("\n") and err.count("\n") == 1, err
    for part in parts:
        assert part in err
    assert out == ""


def spawn(*arguments, **options):
    command = [sys.executable, "-m", "isobit", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_version_and_help(capsys):
    assert main(["--version"]) == 0
    out = capsys.readouterr().out
    assert out == f"isobit {isobit.version()} (arithmetic contract {isobit.contract_version()})\n"
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("generate", "info", "convert", "bench", "doctor", "demo"))


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "COMMAND"),
        (["nonsense"], "nonsense"),
        (["generate", "dir"], "--prompt"),
        (["generate", "dir", "--prompt", "x", "--chat", "y"], "not allowed with"),
        (["generate", "dir", "--prompt", "x", "-n", "many"], "invalid int value"),
    ],
)
def test_bad_arguments(capsys, arguments, part):
    fails((main(arguments), *capsys.readouterr()), part, "--help)")


def test_generate_continues_a_prompt(run, directory):
    tokenizer = Tokenizer.from_pretrained(directory)
    prompt = tokenizer.encode("the the")
    whole = CausalLM.load(directory).generate([prompt], 12).tolist()[0]
    code, out, err = run("generate", "--prompt", "the the", "-n", "12", "--ignore-eos")
    assert (code, err) == (0, "")
    assert out == tokenizer.decode(whole[len(prompt) :], skip_special_tokens=True) + "\n"
    code, out, _ = run("generate", "--ids", " ".join(map(str, prompt)), "-n", "12")
    assert (code, out) == (0, " ".join(map(str, whole[len(prompt) :])) + "\n")


def test_generate_json_and_digest(run, directory):
    lm = CausalLM.load(directory)
    ids = [5, 9, 200]
    whole = lm.generate([ids], 7).tolist()[0]
    logits = lm.forward([whole[:-1]], last_only=True).tolist()[0]
    data = struct.pack(f"<{len(whole)}i", *whole) + struct.pack(f"<{len(logits)}f", *logits)
    expected = hashlib.sha256(data).hexdigest()
    arguments = ("--ids", "5,9,200", "-n", "7", "--ignore-eos")
    code, out, _ = run("generate", *arguments, "--digest")
    assert (code, out.splitlines()[1]) == (0, f"digest {expected}")
    for extra in (
        ("--threads", "1"),
        ("--threads", "3"),
        *(("--isa", isa) for isa in isobit.available_isas()),
    ):
        code, out, _ = run("generate", *arguments, "--digest", "--json", *extra)
        report = json.loads(out)
        assert report["digest"] == expected
        assert (report["prompt_ids"], report["ids"], report["stop"]) == (ids, whole[3:], "length")
        assert report["text"] is None
        assert report["contract_version"] == isobit.contract_version()
        assert report["prefill_tokens_per_second"] > 0 and report["decode_tokens_per_second"] > 0
        if extra[0] == "--threads":
            assert report["threads"] == int(extra[1])
        else:
            assert report["isa"] == extra[1]
    assert "digest" not in json.loads(run("generate", *arguments, "--json")[1])
    assert report["weight_format"] == "float32"


def test_weight_formats(run, directory):
    arguments = ("--ids", "5,9,200", "-n", "7", "--ignore-eos", "--digest", "--weight-format")
    digests = {}
    for fmt in ("float32", "bfloat16", "int8"):
        code, out, _ = run("generate", *arguments, fmt, "--json")
        report = json.loads(out)
        assert (code, report["weight_format"]) == (0, fmt)
        digests[fmt] = report["digest"]
        model = CausalLM.load(directory, weight_format=fmt)
        assert report["ids"] == model.generate([[5, 9, 200]], 7).tolist()[0][3:]
        suffix = "" if fmt == "float32" else f" with {fmt} weights"
        assert run("generate", *arguments, fmt)[1].splitlines()[1] == f"digest {report['digest']}{suffix}"
    assert len(set(digests.values())) == 3
    projections = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 64 * 32)
    others = 261 * 32 + 32 + 2 * 2 * 32
    rows = 2 * (2 * 32 + 2 * 16 + 2 * 64 + 32)
    for fmt, size in (
        ("float32", 4 * projections),
        ("bfloat16", 2 * projections),
        ("int8", projections + 4 * rows),
    ):
        facts = json.loads(run("info", "--json", "--weight-format", fmt)[1])
        assert (facts["weight_format"], facts["memory_bytes"]) == (fmt, 4 * others + size)
    code, out, _ = run("generate", *arguments, "int8", "--embed-format", "bfloat16")
    digest = out.splitlines()[1].split(maxsplit=2)
    assert digest[2] == "with int8 weights and bfloat16 embedding" and digest[1] not in digests.values()
    facts = json.loads(run("info", "--json", "--embed-format", "bfloat16")[1])
    assert facts["memory_bytes"] == 4 * (others + projections) - 2 * 261 * 32
    assert "MiB as float32, embedding bfloat16" in run("info", "--embed-format", "bfloat16")[1]


def test_numeric_profiles(run, directory):
    arguments = ("--ids", "5,9,200", "-n", "7", "--ignore-eos", "--digest", "--numeric-profile")
    digests = {}
    for profile in isobit.numeric_profiles():
        code, out, _ = run("generate", *arguments, profile, "--json")
        report = json.loads(out)
        assert (code, report["numeric_profile"]) == (0, profile)
        model = CausalLM.load(directory, numeric_profile=profile)
        assert report["ids"] == model.generate([[5, 9, 200]], 7).tolist()[0][3:]
        digests[profile] = report["digest"]
        for isa in isobit.available_isas():
            again = json.loads(run("generate", *arguments, profile, "--json", "--isa", isa)[1])
            assert again["digest"] == report["digest"]
    assert len(set(digests.values())) == 3
    for options, words in (
        (("fp32_v1",), ""),
        (("fixed15_v1",), " with fixed15_v1"),
        (("int8x32_v1", "--weight-format", "bfloat16"), " with bfloat16 weights and int8x32_v1"),
    ):
        line = run("generate", *arguments, *options)[1].splitlines()[1]
        assert line.startswith("digest ") and line[len("digest ") + 64 :] == words


def test_a_slow_profile_is_one_line_on_stderr(directory):
    arguments = ("generate", directory, "--ids", "5,9", "-n", "2", "--numeric-profile")
    for profile, lines in (("int8x32_v1", 1), ("fp32_v1", 0)):
        process = spawn(*arguments, profile, env=os.environ | {"ISOBIT_ISA": "scalar"})
        _, err = process.communicate()
        assert process.returncode == 0 and err.count("\n") == lines
        assert lines == 0 or err.startswith("isobit: warning: [CausalLM] numeric_profile: int8x32_v1 is slow")


def test_generate_stops_at_a_stop_id(run, directory, tmp_path):
    ids = [5, 9, 200]
    whole = CausalLM.load(directory).generate([ids], 8).tolist()[0]
    stop = whole[3 + 4]
    first = whole[3:].index(stop)
    for name in ("config.json", "generation_config.json"):
        other = tmp_path / name
        other.mkdir()
        for path in directory.iterdir():
            (other / path.name).symlink_to(path)
        changed = json.loads((directory / name).read_text()) | {"eos_token_id": [stop, 260]}
        (other / name).unlink()
        (other / name).write_text(json.dumps(changed))
        code, out, _ = run("generate", "--ids", "5 9 200", "-n", "8", "--json", where=other)
        report = json.loads(out)
        assert (code, report["stop"], report["ids"]) == (0, "eos", whole[3 : 3 + first + 1])
        code, out, _ = run("generate", "--ids", "5 9 200", "-n", "8", "--json", "--ignore-eos", where=other)
        assert json.loads(out)["ids"] == whole[3:]


def test_stop_ids_are_collected_from_all_files(tmp_path):
    assert stop_ids(tmp_path, None) == set()
    (tmp_path / "config.json").write_text('{"eos_token_id": 3}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [4, true, "x", null, 5]}')
    assert stop_ids(tmp_path, 2) == {2, 3, 4, 5}
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json: expected JSON"):
        stop_ids(tmp_path, None)


def test_generate_chat(run, directory):
    tokenizer = Tokenizer.from_pretrained(directory)
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "U <|end|>"}]
    _, out, _ = run("generate", "--chat", "U <|end|>", "--system", "S", "-n", "2", "--json")
    assert json.loads(out)["prompt_ids"] == tokenizer.encode_chat(messages)
    _, out, _ = run("generate", "--chat", "x", "-n", "2", "--json")
    assert json.loads(out)["prompt_ids"] == tokenizer.encode_chat([{"role": "user", "content": "x"}])


def test_generate_reads_files_and_standard_input(run, monkeypatch, tmp_path):
    text = "the\n thé"
    _, expected, _ = run("generate", "--prompt", text, "-n", "3", "--json")
    (tmp_path / "prompt").write_text(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    for source in (("--prompt-file", str(tmp_path / "prompt")), ("--prompt", "-")):
        _, out, _ = run("generate", *source, "-n", "3", "--json")
        for key in ("prompt_ids", "ids", "text"):
            assert json.loads(out)[key] == json.loads(expected)[key]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--prompt", "x", "-n", "0"], ["-n: expected at least 1, got 0"]),
        (["--prompt", ""], ["expected at least one token, got none"]),
        (["--ids", "1 two"], ["--ids: expected whole numbers, got '1 two'"]),
        (["--ids", "261"], ["261"]),
        (["--ids", "-1"], ["-1"]),
        (["--ids", "1", "-n", "300"], ["256"]),
        (["--prompt", "x", "--system", "s"], ["--system"]),
        (["--prompt", "x", "--threads", "0"], ["0"]),
        (["--prompt", "x", "--isa", "mmx"], ["mmx", isobit.available_isas()[0]]),
        (["--prompt", "x", "--max-positions", "257"], ["257", "256"]),
        (["--prompt", "\udcff"], ["surrogate"]),
        (["--prompt-file", "/nonexistent/file"], ["/nonexistent/file: No such file or directory"]),
    ],
)
def test_generate_errors(run, arguments, parts):
    fails(run("generate", *arguments), *parts)


def test_generate_without_a_model(run, tmp_path):
    fails(run("generate", "--prompt", "x", where=tmp_path / "absent"), "absent")
    fails(run("generate", "--ids", "1", where=tmp_path), "config.json")


class FakeModel:
    """Gives out fixed ids."""

    def __init__(self, ids):
        self.ids = ids

    def _generate_stream(self, prompt, count, on_token):
        for step, i in enumerate(self.ids[:count]):
            if not on_token(step, [i], memoryview(struct.pack("<f", step))):
                break


def test_text_appears_in_whole_characters(directory):
    tokenizer = Tokenizer.from_pretrained(directory)
    ids = [*tokenizer.encode("é🙂 the"), 1, *tokenizer.encode("never")]
    pieces = []
    result = answer(FakeModel(ids), tokenizer, [7], 50, stop_ids={1}, on_text=pieces.append)
    assert pieces == ["é", "🙂", " the"]
    assert (result.text, result.stop, result.ids[-1]) == ("é🙂 the", "eos", 1)
    assert result.digest == digest([7, *result.ids], memoryview(struct.pack("<f", len(result.ids) - 1)))
    pieces.clear()
    cut = answer(FakeModel(ids), tokenizer, [7], 4, stop_ids={1}, on_text=pieces.append)
    assert pieces == ["é", "\ufffd"]
    assert (cut.stop, len(cut.ids)) == ("length", 4)


def test_digest_is_little_endian():
    data = b"\x01\x00\x00\x00\xff\xff\xff\xff\x00\x00\x80\x3f"
    assert digest([1, -1], memoryview(struct.pack("<f", 1.0))) == hashlib.sha256(data).hexdigest()


def test_info(run):
    code, out, err = run("info", "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert facts["model_type"] == "llama"
    assert facts["sizes"]["n_layers"] == 2 and facts["sizes"]["vocab_size"] == 261
    assert facts["parameters"] == 261 * 32 + 32 + 2 * (2 * 32 + 2 * 32 * 32 + 2 * 16 * 32 + 3 * 64 * 32)
    assert facts["bytes"] == 4 * facts["parameters"]
    assert facts["dtypes"] == {
        "F32": {"tensors": 20, "parameters": facts["parameters"], "bytes": facts["bytes"]}
    }
    assert [(group["first"], group["last"]) for group in facts["layer_groups"]] == [(0, 1)]
    assert facts["layer_groups"][0]["options"]["n_heads"] == 4
    assert facts["cache_bytes_per_token"] == 2 * 2 * 8 * 4 * 2
    assert (facts["problems"], facts["not_read"]) == ([], [])
    code, out, _ = run("info")
    assert code == 0
    assert "family      llama" in out and out.endswith("can be run\n")


def copy_with(directory, target, **changes):
    target.mkdir()
    for path in directory.iterdir():
        (target / path.name).symlink_to(path)
    config = json.loads((directory / "config.json").read_text()) | changes
    (target / "config.json").unlink()
    (target / "config.json").write_text(json.dumps(config))
    return target


def test_info_says_why_not(run, directory, tmp_path):
    other = copy_with(directory, tmp_path / "gemma", model_type="gemma")
    code, out, _ = run("info", where=other)
    assert code == 1
    assert "gemma" in out and "problem " in out and out.endswith("cannot be run\n")
    other = copy_with(directory, tmp_path / "deeper", num_hidden_layers=3)
    code, out, _ = run("info", "--json", where=other)
    assert code == 1
    assert "model.layers.2." in json.loads(out)["problems"][0]
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_text((directory / "config.json").read_text())
    code, out, _ = run("info", where=tmp_path / "bare")
    assert code == 1 and "problem " in out
    other = copy_with(directory, tmp_path / "shallower", num_hidden_layers=1)
    code, out, _ = run("info", where=other)
    assert code == 1 and "'model.layers.1." in out


def test_info_shows_layer_groups(run, directory, tmp_path):
    changes = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1, "model_type": "qwen2"}
    other = copy_with(directory, tmp_path / "windows", **changes)
    groups = json.loads(run("info", "--json", where=other)[1])["layer_groups"]
    assert [(g["first"], g["last"], g["options"]["window"]) for g in groups] == [(0, 0, 0), (1, 1, 8)]


SSM = {"d_model": 64, "n_layer": 3, "vocab_size": 16}
STATES = {
    "mamba": ({"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 16}, 128 * 20),
    "own format": ({**SSM, "ssm_cfg": {}}, 128 * 20),
    "mamba2": ({**SSM, "ssm_cfg": {"layer": "Mamba2", "headdim": 32}}, 128 * 128 + 384 * 4),
    "mamba3": (
        {**SSM, "ssm_cfg": {"layer": "Mamba3", "headdim": 32, "d_state": 16}},
        128 * 16 + 4 * 4 + 4 * 16 + 128,  # h, theta, k, v
    ),
    "mamba3, mimo": (
        {**SSM, "ssm_cfg": {"layer": "Mamba3", "d_state": 16, "is_mimo": True, "rope_fraction": 1.0}},
        128 * 16 + 2 * 8 + 4 * 2 * 16 + 128,
    ),
}


@pytest.mark.parametrize("kind", STATES)
def test_info_shows_the_state_of_a_mamba(run, tmp_path, kind):
    config, numbers = STATES[kind]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert json.loads(run("info", "--json", where=tmp_path)[1])["state_bytes"] == 3 * 4 * numbers
    out = run("info", where=tmp_path)[1]
    assert f"state       {3 * 4 * numbers / 1024:,.1f} KiB a sequence\n" in out
    assert "cache" not in out and "head_dim                0" not in out


def test_info_errors(run, tmp_path):
    fails(run("info", where=tmp_path), "config.json")
    (tmp_path / "config.json").write_text("{")
    fails(run("info", where=tmp_path))


def test_convert(capsys, gguf_file, tmp_path):
    out = tmp_path / "made"
    assert main(["convert", str(gguf_file), str(out)]) == 0
    assert capsys.readouterr() == (f"{out}\n", "")
    fails((main(["convert", str(gguf_file), str(out)]), *capsys.readouterr()), "--force", str(out))
    assert main(["convert", str(gguf_file), str(out), "--force"]) == 0
    capsys.readouterr()
    missing = tmp_path / "absent.gguf"
    fails(
        (main(["convert", str(missing), str(tmp_path / "x")]), *capsys.readouterr()),
        "absent.gguf: No such file",
    )
    assert os.listdir(tmp_path) == ["made"]


def test_convert_refuses_broken_files(capsys, gguf_file, tmp_path):
    data = gguf_file.read_bytes()
    broken = tmp_path / "broken.gguf"
    for cut in (0, 3, 24, 1000, len(data) // 2, len(data) - 1):
        broken.write_bytes(data[:cut])
        fails((main(["convert", str(broken), str(tmp_path / "out")]), *capsys.readouterr()), "[GGUFFile]")
    assert os.listdir(tmp_path) == ["broken.gguf"]


def test_interrupt_exits_quietly_with_130(directory):
    code = "import signal, sys, isobit.cli as c, isobit.cli.streaming as s\n"
    # A runner in the background of a shell hands SIGINT down ignored.
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "def slow(*a, **k): print('started', flush=True); import time; time.sleep(60); return True\n"
    code += "s.digest = slow\n"
    code += f"sys.exit(c.main(['generate', {str(directory)!r}, '--ids', '1', '-n', '1']))"
    assert signalled(code, signal.SIGINT) == (130, "")


def test_termination_during_a_conversion_leaves_nothing(gguf_file, tmp_path):
    def half_built():
        assert len(os.listdir(tmp_path)) == 1

    code = slow_conversion(gguf_file, tmp_path / "out")
    assert signalled(code, signal.SIGTERM, half_built) == (143, "")
    assert os.listdir(tmp_path) == []


def test_a_closed_pipe_is_silent(directory):
    process = spawn("generate", directory, "--prompt", "the", "-n", "200", "--ignore-eos")
    process.stdout.close()
    err = process.stderr.read()
    assert (process.wait(60), err) == (141, "")


def test_numpy_is_not_imported(directory):
    lines = [
        "import sys, isobit.cli",
        f"isobit.cli.main(['generate', {str(directory)!r}, '--chat', 'x', '-n', '2', '--digest'])",
        f"isobit.cli.main(['info', {str(directory)!r}])",
        "isobit.cli.main(['doctor'])",
        "sys.exit('numpy' in sys.modules)",
    ]
    assert (
        subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, check=False).returncode
        == 0
    )


def test_doctor(capsys):
    before = isobit.active_isa()
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "self-test         OK" in out
    assert f"instruction sets  {', '.join(isobit.available_isas())} (in use: {before})" in out
    assert isobit.active_isa() == before
    assert main(["doctor", "--json", "--threads", "1"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["threads"], facts["first_difference"]) == (1, None)
    assert facts["bandwidth_gb_per_second"] > 0 and facts["gflop_per_second"] > 0


def test_doctor_names_the_first_difference(capsys, monkeypatch):
    stages = [("exp", "aa", "aa"), ("tanh", "bb", "cc"), ("erf", "dd", "ee")]
    monkeypatch.setattr(isobit, "self_test", lambda: stages)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert f"self-test         DIFFERS first in tanh with {isobit.available_isas()[0]}" in out
    assert "expected bb, got cc" in out


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_bar(monkeypatch):
    for stream, expected in ((Terminal(), True), (io.StringIO(), False)):
        with contextlib.redirect_stderr(stream), ProgressBar("loading") as progress:
            progress(0, 4)
            progress(1, 4)  # too soon to draw
            progress(4, 4)
        text = stream.getvalue()
        assert ("100%" in text and text.endswith("\r\x1b[K")) == expected
        assert (text == "") == (not expected)
        assert " 25%" not in text


def test_loading_reports_progress(directory, monkeypatch):
    stream = Terminal()
    with contextlib.redirect_stderr(stream):
        assert main(["generate", str(directory), "--ids", "1", "-n", "1"]) == 0
    assert "loading [" in stream.getvalue() and "100%" in stream.getvalue()


def test_the_module_runs(directory):
    process = spawn("generate", directory, "--ids", "1 2", "-n", "3")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert len(out.split()) == 3


@pytest.mark.parametrize(
    ("absent", "extra", "arguments"),
    [
        ("gguf", "gguf", ["convert", "x.gguf", "out"]),
        ("numpy", "gguf", ["convert", "x.gguf", "out"]),
        ("tokenizers", "text", ["generate", "x", "--prompt", "y"]),
        ("jinja2", "text", ["generate", "x", "--chat", "y"]),
    ],
)
def test_missing_extras_are_named(absent, extra, arguments):
    code = f"import sys; sys.modules[{absent!r}] = None\n"
    code += f"import isobit.cli; sys.exit(isobit.cli.main({arguments!r}))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert process.stderr.startswith("isobit: error: ") and process.stderr.count("\n") == 1
    assert f"{absent}: not installed (pip install 'isobit[{extra}]')" in process.stderr


def test_ids_need_no_extra(directory):
    code = "import sys; sys.modules['tokenizers'] = sys.modules['jinja2'] = sys.modules['numpy'] = None\n"
    arguments = ["generate", str(directory), "--ids", "1", "-n", "2"]
    code += f"import isobit.cli; sys.exit(isobit.cli.main({arguments!r}))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr, len(process.stdout.split())) == (0, "", 2)

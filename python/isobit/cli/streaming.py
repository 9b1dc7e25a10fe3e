# SPDX-License-Identifier: Apache-2.0
"""Greedy generation that hands out text as it appears and remembers what a report needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isobit.cli.common import digest
from isobit.models import CausalLM

if TYPE_CHECKING:
    from isobit.text import Tokenizer


@dataclass
class Answer:
    """What one generation produced. Times are in seconds; the first token's time is that of the prompt."""

    prompt: list[int]
    ids: list[int] = field(default_factory=list)  # generated, the stop id included
    text: str = ""
    stop: str = "length"
    digest: str = ""
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0

    @property
    def prefill_rate(self) -> float:
        return len(self.prompt) / max(self.prefill_seconds, 1e-9)

    @property
    def decode_rate(self) -> float:
        """Tokens a second after the first; 0 when there is only one."""
        return (len(self.ids) - 1) / self.decode_seconds if self.decode_seconds > 0 else 0.0


def answer(
    model: CausalLM,
    tokenizer: Tokenizer | None,
    prompt: list[int],
    max_new_tokens: int,
    *,
    stop_ids: Collection[int],
    on_text: Callable[[str], None] = lambda text: None,
) -> Answer:
    """Generates up to `max_new_tokens`, ending after a stop id. Without a tokenizer there is no text."""
    result = Answer(list(prompt))
    stream = tokenizer.stream(replace_unknown=True) if tokenizer is not None else None
    begin = time.perf_counter()
    first = begin

    def emit(text: str) -> None:
        if text:
            result.text += text
            on_text(text)

    def on_token(step: int, column: list[int], logits: object) -> bool:
        nonlocal first
        if step == 0:
            first = time.perf_counter()
        result.ids.append(column[0])
        stopped = column[0] in stop_ids
        if stopped:
            result.stop = "eos"
        elif stream is not None:
            emit(stream.next(column[0]))
        if stopped or step + 1 == max_new_tokens:
            result.digest = digest([*result.prompt, *result.ids], logits)
        return not stopped

    model._generate_stream([prompt], max_new_tokens, on_token)
    result.prefill_seconds = first - begin
    result.decode_seconds = time.perf_counter() - first if len(result.ids) > 1 else 0.0
    if stream is not None:
        emit(stream.finish())
    return result

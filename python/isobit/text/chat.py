# SPDX-License-Identifier: Apache-2.0
"""Chat templates: the Jinja programs of checkpoint directories that turn a conversation into one text.

The environment is the one templates are written for (trimmed blocks, loop controls, `raise_exception`,
`strftime_now`, `tojson` without HTML escapes, the `generation` tag), in Jinja's immutable sandbox, since a
template comes with a download. The sandbox keeps it from files and objects; how long it runs and how much it
writes are bounded here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError as error:
    raise ImportError("[ChatTemplate] jinja2: not installed (pip install 'isobit[text]')") from error

# Private-use characters put around special tokens in messages, so that they are told from those a template
# writes.
_MARK_BEGIN, _MARK_END = "\U0010fff0", "\U0010fff1"
# Far above what a template of a conversation needs.
_MAX_STEPS = 3_000_000
_MAX_LENGTH = 1 << 24  # characters of a text or elements of a list
_MAX_BITS = 1 << 12  # of an integer


class ChatTemplate:
    """Templates by name ("default", and perhaps "tool_use") with the special tokens they may mention."""

    def __init__(self, templates: dict[str, str], special_tokens: dict[str, str]) -> None:
        self._special_tokens = special_tokens
        self._compiled = {}
        for name, text in templates.items():
            try:
                self._compiled[name] = _ENVIRONMENT.from_string(text)
            except (jinja2.TemplateError, RecursionError) as error:
                raise ValueError(f"[ChatTemplate] {name}: expected a Jinja template, got: {error}") from None

    def render(
        self, messages: list[dict[str, Any]], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """The text of the conversation.

        `variables` are passed on (`tools`, `documents`, `enable_thinking`, ...).
        """
        name = "tool_use" if variables.get("tools") and "tool_use" in self._compiled else "default"
        if name not in self._compiled:
            raise ValueError(
                f"[ChatTemplate] templates: expected one called default, got {sorted(self._compiled)}"
            )
        context = {"tools": None, "documents": None, **self._special_tokens, **_plain(variables)}
        context["messages"] = _plain_messages(messages)
        context["add_generation_prompt"] = add_generation_prompt
        try:
            with _bounded_steps():
                return "".join(_bounded(self._compiled[name].generate(context)))
        except Exception as error:  # a template is a program of someone else: it can raise anything
            reason = str(error) or type(error).__name__
            raise ValueError(
                f"[ChatTemplate] messages: expected ones that the template accepts, got: {reason}"
            ) from None

    def render_marked(
        self, messages: list[dict[str, Any]], special_texts: list[str], **options: Any
    ) -> list[tuple[str, bool]]:
        """The rendered text in pieces; True marks a special token of a message, to be read as plain text."""
        longest_first = sorted(filter(None, special_texts), key=len, reverse=True)
        special = "|".join(map(re.escape, longest_first)) or "(?!)"
        found = re.compile(special)
        text = self.render(_marked(_plain_messages(messages), found), **_marked(options, found))
        # One mark is enough, for a template may have cut the other off; a mark alone still keeps its two
        # sides apart.
        begin, end = _MARK_BEGIN, _MARK_END
        quoted = re.compile(f"{begin}(?:{special}){end}?|(?:{special}){end}|[{begin}{end}]")
        pieces, position = [], 0
        for match in quoted.finditer(text):
            pieces.append((text[position : match.start()], False))
            pieces.append((match.group().strip(begin + end), True))
            position = match.end()
        return [*pieces, (text[position:], False)]


def find_templates(directory: Path, config: dict[str, Any]) -> dict[str, str]:
    """Templates by name: chat_template.jinja and additional_chat_templates/ before tokenizer_config.json."""
    templates: dict[str, str] = {}
    stored = config.get("chat_template")
    entries = stored if isinstance(stored, list) else [{"name": "default", "template": stored}]
    for entry in entries:
        if (
            isinstance(entry, dict)
            and isinstance(entry.get("name"), str)
            and isinstance(entry.get("template"), str)
        ):
            templates[entry["name"]] = entry["template"]
    for path in sorted((directory / "additional_chat_templates").glob("*.jinja")):
        if path.is_file():
            templates[path.stem] = _read_template(path)
    if (directory / "chat_template.jinja").is_file():
        templates["default"] = _read_template(directory / "chat_template.jinja")
    return templates


def _read_template(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"[ChatTemplate] {path.name}: expected UTF-8 text, got other bytes") from None


@contextmanager
def _bounded_steps() -> Iterator[None]:
    """Ends a template after _MAX_STEPS lines of the Python that Jinja made of it, loops and macros alike."""
    steps = 0

    def trace(frame: Any, event: str, argument: Any) -> Callable[..., Any]:
        nonlocal steps
        steps += 1
        if steps > _MAX_STEPS:
            raise ValueError(f"more than {_MAX_STEPS} steps of the template")
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(previous)


def _bounded(pieces: Iterator[str]) -> Iterator[str]:
    length = 0
    for piece in pieces:
        length += len(piece)
        if length > _MAX_LENGTH:
            raise ValueError(f"more than {_MAX_LENGTH} characters")
        yield piece


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Refuses products and powers too large to compute: nothing could interrupt them."""

    intercepted_binops = frozenset(("*", "**"))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length()
            if (bits * right if operator == "**" else bits + right.bit_length()) > _MAX_BITS:
                raise ValueError(f"an integer of more than {_MAX_BITS} bits")
        for value, count in ((left, right), (right, left)):
            repeats = isinstance(value, str | list | tuple) and isinstance(count, int)
            if repeats and len(value) * count > _MAX_LENGTH:
                raise ValueError(f"more than {_MAX_LENGTH} elements")
        return super().call_binop(context, operator, left, right)


class _GenerationTag(jinja2.ext.Extension):
    """`{% generation %}` marks the answers for training; here its body is simply written."""

    tags = {"generation"}  # noqa: RUF012 (as the base class declares it)

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _environment() -> _Environment:
    environment = _Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


_ENVIRONMENT = _environment()


def _plain(value: Any) -> Any:
    """A copy made of JSON types only: objects with methods have no business in a template."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"[ChatTemplate] messages: expected strings, numbers, lists and dicts, got: {error}"
        ) from None


def _plain_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    plain = _plain(messages)
    if not isinstance(plain, list) or not all(isinstance(message, dict) for message in plain):
        raise TypeError(f"[ChatTemplate] messages: expected a list of dicts, got {type(messages).__name__}")
    # Absent rather than None: many templates write a None out.
    return [{key: value for key, value in message.items() if value is not None} for message in plain]


def _marked(value: Any, found: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        # Marks already in the text are dropped first, so that nobody can forge one.
        text = value.replace(_MARK_BEGIN, "").replace(_MARK_END, "")
        return found.sub(lambda match: _MARK_BEGIN + match.group() + _MARK_END, text)
    if isinstance(value, dict):
        return {key: _marked(item, found) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item, found) for item in value]
    return value

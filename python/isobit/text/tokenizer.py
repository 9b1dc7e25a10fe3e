# SPDX-License-Identifier: Apache-2.0
"""Text to token ids and back, from the tokenizer files of a checkpoint directory.

The work is done by the `tokenizers` package. This class decides what that package leaves open: special tokens
in a user's text are plain text unless asked for, the start and end tokens follow tokenizer_config.json, and
decoding can be streamed token by token.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from isobit.text.byte_level import CHAR_TO_BYTE
from isobit.text.chat import ChatTemplate, find_templates

try:
    import tokenizers
except ImportError as error:
    raise ImportError("[Tokenizer] tokenizers: not installed (pip install 'isobit[text]')") from error

_SPACE = "\u2581"
_MAX_IDS = 1 << 32  # the width of an id in the package
_REPLACEMENT = "\ufffd".encode()
_SPECIAL_KEYS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class Tokenizer:
    """Made by `Tokenizer.from_pretrained(directory)`. Safe to use from several threads."""

    def __init__(
        self, definition: str, config: dict[str, Any] | None = None, templates: dict[str, str] | None = None
    ) -> None:
        """`definition` is the text of tokenizer.json, `config` the object in tokenizer_config.json."""
        self._config = config or {}
        self._templates = templates or {}
        # Two objects, because whether special tokens are recognised is a setting of the object, not of a
        # call.
        parts = _parse(definition)
        self._parsing = _load(definition)
        self._plain = _load(definition)
        self._plain.encode_special_tokens = True
        self._added = self._parsing.get_added_tokens_decoder()
        self._special = {
            token.content: i for i, token in self._added.items() if token.special and token.content
        }
        _check_model(parts["model"])
        decoders = _steps(parts.get("decoder"), "decoders")
        self._is_byte_level = any(step["type"] == "ByteLevel" for step in decoders)
        # SentencePiece writes a space before the first word, which the decoder takes away again.
        self._strips_first_space = any(
            step["type"] == "Strip" or (step["type"] == "Metaspace" and step.get("prepend_scheme") != "never")
            for step in decoders
        )
        self.bos_ids, self.eos_ids = _around(_steps(parts.get("post_processor"), "processors"))
        if self._config.get("add_bos_token") is not None:
            self.bos_ids = self._one(self.bos_token_id) if self._config["add_bos_token"] else []
        if self._config.get("add_eos_token") is not None:
            self.eos_ids = self._one(self.eos_token_id) if self._config["add_eos_token"] else []

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """Reads a checkpoint directory, or a tokenizer.json and the files beside it."""
        path = Path(path)
        directory = path if path.is_dir() else path.parent
        file = directory / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise FileNotFoundError(f"[Tokenizer] path: expected a directory with tokenizer.json, got {path}")
        config = _read_object(directory / "tokenizer_config.json")
        return cls(_read_text(file), config, find_templates(directory, config))

    @cached_property
    def n_vocab(self) -> int:
        """One more than the largest id."""
        return max(self._parsing.get_vocab().values(), default=-1) + 1

    @property
    def bos_token_id(self) -> int | None:
        return self._special_id("bos_token")

    @property
    def eos_token_id(self) -> int | None:
        return self._special_id("eos_token")

    def encode(self, text: str, *, add_special_tokens: bool = True, allow_special: bool = False) -> list[int]:
        """The ids of `text`. Special tokens in it become their ids only with `allow_special`."""
        if not isinstance(text, str):
            raise TypeError(f"[Tokenizer] text: expected a str, got {type(text).__name__}")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"[Tokenizer] text: expected valid Unicode, got a lone surrogate at {error.start}"
            ) from None
        tokenizer = self._parsing if allow_special else self._plain
        with _package_errors("text: expected one that the tokenizer can read"):
            ids = tokenizer.encode(text, add_special_tokens=False).ids
        return [*self.bos_ids, *ids, *self.eos_ids] if add_special_tokens else ids

    def encode_bytes(self, data: bytes, *, allow_special: bool = False) -> list[int]:
        """The ids of UTF-8 text, nothing added."""
        try:
            text = bytes(data).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"[Tokenizer] data: expected UTF-8, got another byte at {error.start}") from None
        return self.encode(text, add_special_tokens=False, allow_special=allow_special)

    def decode(
        self, ids: Iterable[int], errors: str = "replace", *, skip_special_tokens: bool = False
    ) -> str:
        """The text of `ids`; bytes that are not UTF-8 go by `errors`, as in `bytes.decode`."""
        return self.decode_bytes(ids, skip_special_tokens=skip_special_tokens).decode("utf-8", errors)

    def decode_bytes(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> bytes:
        """The bytes that `ids` stand for, which a cut can leave in the middle of a character."""
        stream = self.stream(skip_special_tokens=skip_special_tokens)
        return b"".join(stream.next_bytes(token_id) for token_id in ids)

    def stream(self, *, skip_special_tokens: bool = True, replace_unknown: bool = False) -> TokenStream:
        """A decoder that is given one id at a time.

        An id without a token raises ValueError or, with `replace_unknown`, is U+FFFD: models have ids beyond
        those of their tokenizer where the vocabulary was padded.
        """
        return TokenStream(self, skip_special_tokens, replace_unknown)

    def pretokenize(self, text: str) -> list[str]:
        """The pieces of the normalised text within which merges happen."""
        if self._plain.normalizer is not None:
            text = self._plain.normalizer.normalize_str(text)
        if self._plain.pre_tokenizer is None:
            return [text] if text else []
        return [text[begin:end] for _, (begin, end) in self._plain.pre_tokenizer.pre_tokenize_str(text)]

    def render_chat(
        self, messages: list[dict[str, Any]], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """The text of a conversation by the checkpoint's chat template.

        ValueError when it has none or refuses.
        """
        return self._chat.render(messages, add_generation_prompt=add_generation_prompt, **variables)

    def encode_chat(
        self, messages: list[dict[str, Any]], *, add_generation_prompt: bool = True, **variables: Any
    ) -> list[int]:
        """Renders and encodes.

        Special tokens that the template writes become ids; those in messages stay text.
        """
        pieces = self._chat.render_marked(
            messages, list(self._special), add_generation_prompt=add_generation_prompt, **variables
        )
        if len(pieces) == 1:
            return self.encode(pieces[0][0], add_special_tokens=False, allow_special=True)
        return self._encode_quoted(pieces)

    def _encode_quoted(self, pieces: list[tuple[str, bool]]) -> list[int]:
        """Special tokens outside quoted pieces become ids; all that is between two of them is one text."""
        special = re.compile(
            "(" + "|".join(map(re.escape, sorted(self._special, key=len, reverse=True))) + ")"
        )
        ids: list[int] = []
        text, strip_next = "", False
        for piece, is_quoted in pieces:
            for part in [piece] if is_quoted else special.split(piece):
                token_id = None if is_quoted else self._special.get(part)
                if token_id is None:
                    text += part
                    continue
                token = self._added[token_id]
                text = text.lstrip() if strip_next else text
                ids += self.encode(text.rstrip() if token.lstrip else text, add_special_tokens=False)
                ids.append(token_id)
                text, strip_next = "", token.rstrip
        return ids + self.encode(text.lstrip() if strip_next else text, add_special_tokens=False)

    @cached_property
    def _chat(self) -> ChatTemplate:
        if not self._templates:
            raise ValueError("[Tokenizer] chat_template: expected one in the checkpoint directory, got none")
        texts = {key: self._special_text(key) for key in _SPECIAL_KEYS}
        return ChatTemplate(self._templates, {key: text for key, text in texts.items() if text is not None})

    def _special_text(self, key: str) -> str | None:
        entry = self._config.get(key)
        text = entry.get("content") if isinstance(entry, dict) else entry
        return text if isinstance(text, str) else None

    def _special_id(self, key: str) -> int | None:
        text = self._special_text(key)
        return None if text is None else self._parsing.token_to_id(text)

    @staticmethod
    def _one(token_id: int | None) -> list[int]:
        return [] if token_id is None else [token_id]

    def _token_bytes(self, token_id: int) -> bytes | None:
        """None where the tokenizer has no such id."""
        added = self._added.get(token_id)
        if added is not None:
            return bytes(added.content.encode("utf-8"))
        text = self._parsing.id_to_token(token_id) if 0 <= token_id < _MAX_IDS else None
        if text is None:
            return None
        if self._is_byte_level:
            known = all(char in CHAR_TO_BYTE for char in text)
            return bytes(CHAR_TO_BYTE[char] for char in text) if known else text.encode("utf-8")
        if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
            return bytes.fromhex(text[3:5])
        return text.replace(_SPACE, " ").encode("utf-8")


class TokenStream:
    """Decodes ids one at a time: `next` returns the text that has become certain, `finish` what is left."""

    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool, replace_unknown: bool) -> None:
        self._tokenizer = tokenizer
        self._skip = skip_special_tokens
        self._replace_unknown = replace_unknown
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._at_start = tokenizer._strips_first_space

    def next_bytes(self, token_id: int) -> bytes:
        tokenizer = self._tokenizer
        added = tokenizer._added.get(token_id)
        if self._skip and added is not None and added.special:
            return b""
        data = tokenizer._token_bytes(token_id)
        if data is None:
            if not self._replace_unknown:
                raise ValueError(f"[Tokenizer] ids: expected ids below {tokenizer.n_vocab}, got {token_id}")
            data = _REPLACEMENT
        if self._at_start:
            self._at_start = False
            return data.removeprefix(b" ")
        return data

    def next(self, token_id: int) -> str:
        """New text; a character whose bytes are spread over tokens appears with the last of them."""
        return self._decoder.decode(self.next_bytes(token_id))

    def finish(self) -> str:
        """U+FFFD for bytes that never became a character."""
        return self._decoder.decode(b"", final=True)


@contextmanager
def _package_errors(expected: str) -> Iterator[None]:
    """The package raises plain Exception, and a BaseException where its Rust code panics."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"[Tokenizer] {expected}, got: {reason}") from None


def _parse(definition: str) -> dict[str, Any]:
    try:
        parts = json.loads(definition)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"[Tokenizer] tokenizer.json: expected a tokenizer, got: {error}") from None
    if not isinstance(parts, dict):
        raise ValueError(f"[Tokenizer] tokenizer.json: expected a tokenizer, got: {type(parts).__name__}")
    # Belongs to SentencePiece; one that is malformed makes the package panic, with words of its own on
    # stderr.
    if "Precompiled" in _types(parts.get("normalizer")):
        raise ValueError("[Tokenizer] normalizer: expected none of the type Precompiled, got one")
    return parts


def _types(part: Any) -> set[str]:
    """The types of a part of tokenizer.json that is not checked yet, and of all within it."""
    found, waiting = set(), [part]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            found.add(str(item.get("type")))
        waiting += item.values() if isinstance(item, dict) else item if isinstance(item, list) else []
    return found


def _load(definition: str) -> tokenizers.Tokenizer:
    with _package_errors("tokenizer.json: expected a tokenizer"):
        tokenizer = tokenizers.Tokenizer.from_str(definition)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _steps(part: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """The steps of a part of tokenizer.json, which is absent, one step, or a sequence of them under `key`."""
    if part is None:
        return []
    return (
        [step for inner in part[key] for step in _steps(inner, key)] if part["type"] == "Sequence" else [part]
    )


def _check_model(model: dict[str, Any]) -> None:
    """Only BPE that gives the same ids every time and whose tokens are text as it stands."""
    if model.get("type", "BPE") != "BPE":
        raise ValueError(f"[Tokenizer] model.type: expected BPE, got {model['type']}")
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise ValueError(f"[Tokenizer] model.{key}: expected none, got {model[key]!r}")
    unknown = model.get("unk_token")
    if unknown is not None and unknown not in model["vocab"]:
        raise ValueError(f"[Tokenizer] model.unk_token: expected a token of the vocabulary, got {unknown!r}")


def _around(post_processors: list[dict[str, Any]]) -> tuple[list[int], list[int]]:
    """The ids that the post-processor's template for one text puts before and after it."""
    before: list[int] = []
    after: list[int] = []
    for step in post_processors:
        if step["type"] == "TemplateProcessing":
            side = before
            for part in step["single"]:
                if "Sequence" in part:
                    side = after
                    continue
                name = part["SpecialToken"]["id"]
                if name not in step["special_tokens"]:
                    raise ValueError(
                        f"[Tokenizer] post_processor: expected {name!r} among its special_tokens, got none"
                    )
                side += step["special_tokens"][name]["ids"]
    return before, after


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"[Tokenizer] {path.name}: expected UTF-8 text, got other bytes") from None


def _read_object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(_read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"[Tokenizer] {path.name}: expected JSON, got: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"[Tokenizer] {path.name}: expected a JSON object, got {type(content).__name__}")
    return content

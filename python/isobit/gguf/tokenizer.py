# SPDX-License-Identifier: Apache-2.0
"""Builds tokenizer.json and tokenizer_config.json from the tokens, merges and options that a GGUF file
carries.

Two kinds exist: "gpt2" (byte-level BPE, whose text splitting GGUF only names) and "llama" (SentencePiece BPE,
whose merges GGUF does not store but which follow from the scores).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from isobit.gguf.reader import GGUFFile

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_ADDED = (_UNKNOWN, _CONTROL, _USER_DEFINED)  # found in text before anything is split
_SPACE = "\u2581"
# Role in GGUF -> key in tokenizer_config.json
_TOKEN_KEYS = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
_LONGEST_PIECE = 512  # cutting a piece everywhere takes time with the square of its length

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


@dataclass(frozen=True)
class PreTokenizer:
    """What a `tokenizer.ggml.pre` name stands for. Without a pattern the GPT-2 pattern applies."""

    digits: bool = False  # digits are cut one by one first
    pattern: str | None = None
    nfc: bool = False
    whole_words: bool = False  # a piece that is a token is taken without merging
    bos: bool = False  # a start token is added when the file does not say


PRE_TOKENIZERS = {
    "gpt-2": PreTokenizer(),
    "phi-2": PreTokenizer(),
    "mpt": PreTokenizer(nfc=True),
    "olmo": PreTokenizer(nfc=True),
    "smollm": PreTokenizer(digits=True),
    "starcoder": PreTokenizer(digits=True),
    "refact": PreTokenizer(digits=True),
    "command-r": PreTokenizer(digits=True, nfc=True),
    "llama-bpe": PreTokenizer(pattern=_LLAMA3, whole_words=True, bos=True),
    "qwen2": PreTokenizer(pattern=_QWEN2, nfc=True),
    "deepseek-r1-qwen": PreTokenizer(pattern=_QWEN2, nfc=True),
}


@dataclass(frozen=True)
class TokenizerFiles:
    """The JSON objects to write, and the ids that the model's configuration repeats."""

    tokenizer: dict[str, Any]
    config: dict[str, Any]
    bos_id: int | None
    eos_ids: list[int]
    pad_id: int | None


def map_tokenizer(file: GGUFFile, vocab_size: int, max_positions: int) -> TokenizerFiles:
    """ValueError when the vocabulary is inconsistent or its kind is not known."""
    kind = file.get("tokenizer.ggml.model", "string")
    tokens, types = _tokens(file, vocab_size)
    special = _special_ids(file, len(tokens))
    if kind == "gpt2":
        pre = _pre_tokenizer(file)
        model, add_bos = _byte_level(file, tokens, types, pre), pre.bos
    elif kind == "llama":
        model, add_bos = _sentencepiece(file, tokens, types), True
    else:
        raise ValueError(f"[convert] tokenizer.ggml.model: expected gpt2 or llama, got {kind!r}")
    add_bos = file.get("tokenizer.ggml.add_bos_token", "boolean", add_bos) and "bos" in special
    add_eos = file.get("tokenizer.ggml.add_eos_token", "boolean", False) and "eos" in special
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(i, tokens[i], t) for i, t in enumerate(types) if t in _ADDED],
        **model,
        "post_processor": _post_processor(
            tokens, special["bos"] if add_bos else None, special["eos"] if add_eos else None
        ),
    }
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": add_bos,
        "add_eos_token": add_eos,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_positions,
    }
    for name, key in _TOKEN_KEYS.items():
        if name in special:
            config[key] = tokens[special[name]]
    if "tokenizer.chat_template" in file.metadata:
        config["chat_template"] = file.get("tokenizer.chat_template", "string")
    eos_ids = list(dict.fromkeys(special[name] for name in ("eos", "eot", "eom") if name in special))
    return TokenizerFiles(tokenizer, config, special.get("bos"), eos_ids, special.get("padding"))


def _tokens(file: GGUFFile, vocab_size: int) -> tuple[list[str], list[int]]:
    tokens = file.get("tokenizer.ggml.tokens", "list of strings")
    types = file.get("tokenizer.ggml.token_type", "list of integers", [_NORMAL] * len(tokens))
    if not 0 < len(tokens) <= vocab_size:
        raise ValueError(
            f"[convert] tokenizer.ggml.tokens: expected 1 to {vocab_size} tokens, got {len(tokens)}"
        )
    if len(types) != len(tokens) or not set(types) <= set(range(_NORMAL, _BYTE + 1)):
        raise ValueError(
            f"[convert] tokenizer.ggml.token_type: expected {len(tokens)} numbers in 1..6, got {len(types)}"
        )
    if len(set(tokens)) != len(tokens) or "" in tokens:
        [(token, count)] = Counter(tokens).most_common(1)
        wrong = f"{token!r} {count} times"
        raise ValueError(f"[convert] tokenizer.ggml.tokens: expected different texts, got {wrong}")
    return tokens, types


def _special_ids(file: GGUFFile, count: int) -> dict[str, int]:
    """The ids that the file names, by role."""
    ids = {}
    for name in (*_TOKEN_KEYS, "eot", "eom"):
        key = f"tokenizer.ggml.{name}_token_id"
        if key in file.metadata:
            ids[name] = file.get(key, "integer")
            if not 0 <= ids[name] < count:
                raise ValueError(f"[convert] {key}: expected an id below {count}, got {ids[name]}")
    return ids


def _pre_tokenizer(file: GGUFFile) -> PreTokenizer:
    name = file.get("tokenizer.ggml.pre", "string")
    if name not in PRE_TOKENIZERS:
        known = ", ".join(PRE_TOKENIZERS)
        raise ValueError(f"[convert] tokenizer.ggml.pre: expected one of {known}, got {name!r}")
    return PRE_TOKENIZERS[name]


def _byte_level(file: GGUFFile, tokens: list[str], types: list[int], pre: PreTokenizer) -> dict[str, Any]:
    vocab = {token: i for i, token in enumerate(tokens) if types[i] != _UNUSED}
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": file.get("tokenizer.ggml.add_space_prefix", "boolean", False),
        "trim_offsets": True,
        "use_regex": pre.pattern is None,
    }
    steps: list[dict[str, Any]] = []
    if pre.digits:
        steps.append({"type": "Digits", "individual_digits": True})
    if pre.pattern is not None:
        steps.append(
            {"type": "Split", "pattern": {"Regex": pre.pattern}, "behavior": "Isolated", "invert": False}
        )
    return {
        "normalizer": {"type": "NFC"} if pre.nfc else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*steps, byte_level]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": _bpe(vocab, _merges(file, vocab), ignore_merges=pre.whole_words),
    }


def _merges(file: GGUFFile, vocab: dict[str, int]) -> list[list[str]]:
    merges = []
    for index, line in enumerate(file.get("tokenizer.ggml.merges", "list of strings")):
        cut = line.find(" ", 1)
        left, right = line[:cut], line[cut + 1 :]
        unknown = [t for t in (left, right, left + right) if t not in vocab]
        if cut < 0 or unknown:
            raise ValueError(
                f"[convert] tokenizer.ggml.merges: expected two tokens that make one, got {line!r} at {index}"
            )
        merges.append([left, right])
    return merges


def _sentencepiece(file: GGUFFile, tokens: list[str], types: list[int]) -> dict[str, Any]:
    scores = file.get("tokenizer.ggml.scores", "list of numbers")
    if len(scores) != len(tokens):
        raise ValueError(
            f"[convert] tokenizer.ggml.scores: expected {len(tokens)} numbers, got {len(scores)}"
        )
    vocab = {token: i for i, token in enumerate(tokens) if types[i] != _UNUSED}
    missing = [f"<0x{byte:02X}>" for byte in range(256) if f"<0x{byte:02X}>" not in vocab]
    if missing:
        raise ValueError(
            f"[convert] tokenizer.ggml.tokens: expected every single byte, got none called {missing[0]}"
        )
    unknown = [token for token, kind in zip(tokens, types, strict=True) if kind == _UNKNOWN]
    prefix = file.get("tokenizer.ggml.add_space_prefix", "boolean", True)
    to_space = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    from_space = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    decoders = [from_space, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    model = _bpe(vocab, _merges_by_score(tokens, types, scores), byte_fallback=True, fuse_unk=True)
    normalizers = [{"type": "Prepend", "prepend": _SPACE}, to_space] if prefix else [to_space]
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": model | {"unk_token": unknown[0] if unknown else None},
    }


def _merges_by_score(tokens: list[str], types: list[int], scores: list[float]) -> list[list[str]]:
    """SentencePiece joins the neighbours that score highest: all splits of a token, best token first."""
    pieces = {token: i for i, token in enumerate(tokens) if types[i] == _NORMAL}
    longest = max(pieces, key=len, default="")
    if len(longest) > _LONGEST_PIECE:
        raise ValueError(
            f"[convert] tokenizer.ggml.tokens: expected at most {_LONGEST_PIECE} letters, got {len(longest)}"
        )
    ranked = []
    for token, index in pieces.items():
        for cut in range(1, len(token)):
            left, right = pieces.get(token[:cut]), pieces.get(token[cut:])
            if left is not None and right is not None:
                ranked.append((-scores[index], index, -cut, left, right))
    return [[tokens[left], tokens[right]] for *_, left, right in sorted(ranked)]


def _bpe(vocab: dict[str, int], merges: list[list[str]], **options: bool) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        **options,
        "vocab": vocab,
        "merges": merges,
    }


def _added_token(token_id: int, content: str, kind: int) -> dict[str, Any]:
    return {
        "id": token_id,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": kind != _USER_DEFINED,
    }


def _post_processor(tokens: list[str], bos: int | None, eos: int | None) -> dict[str, Any] | None:
    if bos is None and eos is None:
        return None
    before = [{"SpecialToken": {"id": tokens[bos], "type_id": 0}}] if bos is not None else []
    after = [{"SpecialToken": {"id": tokens[eos], "type_id": 0}}] if eos is not None else []

    def sequence(name: str) -> list[dict[str, Any]]:
        return [*before, {"Sequence": {"id": name, "type_id": 0}}, *after]

    ids = {
        tokens[i]: {"id": tokens[i], "ids": [i], "tokens": [tokens[i]]} for i in (bos, eos) if i is not None
    }
    return {
        "type": "TemplateProcessing",
        "single": sequence("A"),
        "pair": sequence("A") + sequence("B"),
        "special_tokens": ids,
    }

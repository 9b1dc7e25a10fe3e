# SPDX-License-Identifier: Apache-2.0
"""isobit on the rows of the comparison. Usage: isobit_engine.py CHECKPOINT THREADS ROW ..."""

import itertools
import sys
import time

from workload import run

import isobit
from isobit.models import CausalLM

checkpoint, threads, *rows = sys.argv[1:]
isobit.set_num_threads(int(threads))
model = CausalLM.load(checkpoint)


def prefill(ids):
    begin = time.perf_counter()
    model.generate([ids], 1)
    return time.perf_counter() - begin


def decode(ids, n):
    times = []

    def on_token(step, column, logits):
        times.append(time.perf_counter())
        return True

    model._generate_stream([ids], n + 1, on_token)
    return [b - a for a, b in itertools.pairwise(times)]


run(prefill, decode, rows)

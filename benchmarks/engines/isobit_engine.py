# SPDX-License-Identifier: Apache-2.0
"""isobit on a checkpoint directory. Arguments: see workload.py."""

import itertools
import time

from workload import main

import isobit
from isobit.cli import bench
from isobit.models import CausalLM


class Engine:
    def __init__(self, model, threads):
        isobit.set_num_threads(threads)
        self.model = CausalLM.load(model)

    def generate(self, prompts, n):
        marks = [time.perf_counter()]

        def on_token(step, column, logits):
            marks.append(time.perf_counter())
            return True

        ids = self.model._generate_stream(prompts, n, on_token).tolist()
        first, *rest = [b - a for a, b in itertools.pairwise(marks)]
        return first, rest, [row[-n:] for row in ids]

    def logits(self, prompt):
        return self.model.forward([prompt], last_only=True).tolist()[0]

    def counts(self, row):
        return bench.counts(self.model, row.kind, row.length, row.batch)

    def machine(self):
        return isobit.measure()


main(Engine)

# SPDX-License-Identifier: Apache-2.0
"""transformers with torch, float32, sdpa, on a checkpoint directory. Arguments: see workload.py."""

import time

import torch
from transformers import AutoModelForCausalLM
from workload import main


class Engine:
    def __init__(self, model, threads):
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        # The default attention is sdpa; Mamba models take no other default.
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()

    def forward(self, ids, cache=None):
        return self.model(ids, cache=cache, use_cache=True, logits_to_keep=1)

    def generate(self, prompts, n):
        column, cache, columns, times = torch.tensor(prompts), None, [], []
        for _ in range(n):
            begin = time.perf_counter()
            out = self.forward(column, cache)
            cache, column = out.cache, out.logits[:, -1:].argmax(-1)
            times.append(time.perf_counter() - begin)
            columns.append(column)
        return times[0], times[1:], torch.cat(columns, 1).tolist()

    def logits(self, prompt):
        return self.forward(torch.tensor([prompt])).logits[0, -1].tolist()


main(Engine)

# SPDX-License-Identifier: Apache-2.0
"""transformers with torch, float32, sdpa. Usage: transformers_engine.py CHECKPOINT THREADS ROW ..."""

import sys
import time

import torch
from transformers import AutoModelForCausalLM
from workload import run

checkpoint, threads, *rows = sys.argv[1:]
torch.set_num_threads(int(threads))
model = AutoModelForCausalLM.from_pretrained(
    checkpoint, dtype=torch.float32, attn_implementation="sdpa"
).eval()


def forward(ids, cache=None):
    out = model(torch.tensor([ids]), past_key_values=cache, use_cache=True, logits_to_keep=1)
    return out.past_key_values, int(out.logits[0, -1].argmax())


def prefill(ids):
    begin = time.perf_counter()
    forward(ids)
    return time.perf_counter() - begin


def decode(ids, n):
    cache, token = forward(ids)
    times = []
    for _ in range(n):
        begin = time.perf_counter()
        cache, token = forward([token], cache)
        times.append(time.perf_counter() - begin)
    return times


with torch.inference_mode():
    run(prefill, decode, rows)

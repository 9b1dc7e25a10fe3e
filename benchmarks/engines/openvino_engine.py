# SPDX-License-Identifier: Apache-2.0
"""OpenVINO GenAI, precision hint f32, float32 cache. Usage: openvino_engine.py EXPORTED THREADS ROW ..."""

import sys

import numpy as np
import openvino
import openvino_genai
from workload import run

exported, threads, *rows = sys.argv[1:]
pipeline = openvino_genai.LLMPipeline(
    exported,
    "CPU",
    {
        "INFERENCE_NUM_THREADS": int(threads),
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        "ATTENTION_BACKEND": "SDPA",
        "NUM_STREAMS": 1,
    },
)


def generate(ids, n):
    """Seconds to the first token, and of each later one."""
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = n
    config.ignore_eos = True
    config.do_sample = False
    inputs = openvino_genai.TokenizedInputs(
        openvino.Tensor(np.array([ids], np.int64)), openvino.Tensor(np.ones((1, len(ids)), np.int64))
    )
    metrics = pipeline.generate(inputs, config).perf_metrics
    return metrics.get_ttft().mean / 1000, metrics.get_tpot().mean / 1000


run(lambda ids: generate(ids, 1)[0], lambda ids, n: [generate(ids, n + 1)[1]], rows)

# SPDX-License-Identifier: Apache-2.0
"""OpenVINO GenAI on an exported directory: precision hint f32, float32 cache. Arguments: see workload.py.

It keeps its logits to itself.
"""

import itertools

import numpy as np
import openvino
import openvino_genai
from workload import main


class Engine:
    def __init__(self, model, threads):
        options = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "KV_CACHE_PRECISION": "f32",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
            "ATTENTION_BACKEND": "SDPA",
            "NUM_STREAMS": 1,
        }
        self.pipeline = openvino_genai.LLMPipeline(model, "CPU", options)

    def generate(self, prompts, n):
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = n
        config.ignore_eos = True
        config.do_sample = False
        ids = np.array(prompts, np.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
        result = self.pipeline.generate(inputs, config)
        marks = result.perf_metrics.raw_metrics.m_new_token_times  # milliseconds, one a step
        steps = [(b - a) / 1000 for a, b in itertools.pairwise(marks)]
        return result.perf_metrics.get_ttft().mean / 1000, steps, [list(row) for row in result.tokens]


main(Engine)

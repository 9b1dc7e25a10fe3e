# SPDX-License-Identifier: Apache-2.0
"""Writes rope_cases.h: frequencies, attention factors, cos and sin that transformers computes at float32.

usage: python make_rope_cases.py > rope_cases.h    (needs torch and transformers)
"""

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.utils import logging

DIM = 16
MAX = 131072
ORIGINAL = {"original_max_position_embeddings": 4096}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LISTS = {
    "short_factor": [1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.25, 1.5],
    "long_factor": [1.0, 1.5, 2.25, 4.5, 9.0, 18.0, 30.5, 48.0],
}
# name in C++, theta, rope parameters, positions in use
CASES = [
    ("kDefault", 10000.0, {"rope_type": "default"}, MAX),
    ("kLinear", 10000.0, {"rope_type": "linear", "factor": 4.0}, MAX),
    ("kLlama3", 500000.0, {"rope_type": "llama3", **LLAMA3}, MAX),
    ("kYarn", 1000000.0, {"rope_type": "yarn", "factor": 32.0, **ORIGINAL}, MAX),
    (
        "kYarnScaled",
        10000.0,
        {
            "rope_type": "yarn",
            "factor": 40.0,
            "truncate": False,
            "mscale": 0.707,
            "mscale_all_dim": 1.0,
            **ORIGINAL,
        },
        MAX,
    ),
    ("kLongRopeLong", 10000.0, {"rope_type": "longrope", **LISTS, **ORIGINAL}, MAX),
    ("kLongRopeShort", 10000.0, {"rope_type": "longrope", **LISTS, **ORIGINAL}, 4096),
]
POSITIONS = [0, 1, 255, 4095]


def frequencies(theta, parameters, positions):
    config = LlamaConfig(
        hidden_size=DIM,
        num_attention_heads=1,
        head_dim=DIM,
        max_position_embeddings=MAX,
        rope_parameters={"rope_theta": theta, **parameters},
    )
    kind = parameters["rope_type"]
    if kind == "default":
        return LlamaRotaryEmbedding(config).inv_freq, 1.0
    return ROPE_INIT_FUNCTIONS[kind](config, None, seq_len=positions if kind == "longrope" else None)


def numbers(tensor):
    return ", ".join(f"{x:.9g}" for x in tensor.flatten().tolist())


def main():
    logging.set_verbosity_error()
    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Written by make_rope_cases.py: what transformers computes at float32, rope_dim 16.")
    print("#pragma once\n")
    print("// clang-format off")
    print("namespace isobit::rope_cases {\n")
    print(f"constexpr long kPositions[] = {{{', '.join(map(str, POSITIONS))}}};\n")
    print("struct Case {\n  double inv_freq[8];\n  double attention_factor;")
    print(f"  double cos[{len(POSITIONS)}][8];\n  double sin[{len(POSITIONS)}][8];\n}};\n")
    for name, theta, parameters, positions in CASES:
        inv, factor = frequencies(theta, parameters, positions)
        angles = torch.tensor(POSITIONS).float()[:, None] * inv[None]
        print(f"constexpr Case {name} = {{")
        print(f"    {{{numbers(inv)}}}, {factor:.9g},")
        for table in (angles.cos() * factor, angles.sin() * factor):
            print("    {" + ",\n     ".join("{" + numbers(row) + "}" for row in table) + "},")
        print("};\n")
    print("}  // namespace isobit::rope_cases")


main()

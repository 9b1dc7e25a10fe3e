#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One block, one sequence, five ways to compute it: all give the same bytes.

The whole sequence at once, in two calls, token by token, in a decode session, and as a row of a ragged batch.
Needs NumPy for the random weights only.
"""

import numpy as np

import isobit

D, HEADS, KV_HEADS, WIDE, LENGTH = 64, 4, 2, 128, 40
rng = np.random.default_rng(0)


def weight(*shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


head_dim = D // HEADS
block = isobit.TransformerBlock(
    {
        "input_layernorm.weight": np.ones(D, np.float32),
        "post_attention_layernorm.weight": np.ones(D, np.float32),
        "q_proj.weight": weight(HEADS * head_dim, D),
        "k_proj.weight": weight(KV_HEADS * head_dim, D),
        "v_proj.weight": weight(KV_HEADS * head_dim, D),
        "o_proj.weight": weight(D, HEADS * head_dim),
        "gate_proj.weight": weight(WIDE, D),
        "up_proj.weight": weight(WIDE, D),
        "down_proj.weight": weight(D, WIDE),
    },
    n_heads=HEADS,
    n_kv_heads=KV_HEADS,
    window=16,
)
x = rng.standard_normal((1, LENGTH, D)).astype(np.float32)
whole = np.asarray(block.forward(x))

state = block.allocate_state(1, LENGTH)
halves = [np.asarray(block.forward(part, state)) for part in (x[:, :23], x[:, 23:])]

state = block.allocate_state(1, LENGTH)
steps = [np.asarray(block.step(x[:, t : t + 1], state)) for t in range(LENGTH)]

state = block.allocate_state(1, LENGTH)
with block.decode_session(state) as session:
    in_session = [np.asarray(session.step(x[:, t : t + 1])) for t in range(LENGTH)]

batch = np.concatenate([x, rng.standard_normal(x.shape).astype(np.float32)])
ragged = np.asarray(block.forward(batch, lengths=[LENGTH, 7]))[:1]

for name, result in {
    "two calls": np.concatenate(halves, axis=1),
    "token by token": np.concatenate(steps, axis=1),
    "session": np.concatenate(in_session, axis=1),
    "ragged batch": ragged,
}.items():
    if result.tobytes() != whole.tobytes():
        raise SystemExit(f"{name}: the bits differ")
    print(f"{name}: {whole.size} values, the same bits")

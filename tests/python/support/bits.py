# SPDX-License-Identifier: Apache-2.0
"""Comparison of float32 results as bits."""

import numpy as np


def bits(values):
    return np.ascontiguousarray(np.asarray(values), np.float32).view(np.uint32)


def same(a, b):
    a, b = bits(a), bits(b)
    return a.shape == b.shape and np.array_equal(a, b)


def in_calls(thing, x, lengths):
    """x, hidden states or ids, through a state of a block or model, cut into calls of these lengths."""
    state, done, parts = thing.allocate_state(len(x), x.shape[1]), 0, []
    for n in lengths:
        parts.append(np.asarray(thing.forward(x[:, done : done + n], state)))
        done += n
    return np.concatenate(parts, axis=1)


def by_steps(step, x, *state):
    """x, token by token, by step of a block or model with its state, or of a session."""
    return np.stack([np.asarray(step(x[:, i], *state)) for i in range(x.shape[1])], axis=1)


def next_up(value):
    """The float32 neighbour away from zero."""
    return (np.float32(value).view(np.uint32) + np.uint32(1)).view(np.float32)

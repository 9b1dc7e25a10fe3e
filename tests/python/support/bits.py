# SPDX-License-Identifier: Apache-2.0
"""Comparison of float32 results as bits."""

import numpy as np


def bits(values):
    return np.ascontiguousarray(np.asarray(values), np.float32).view(np.uint32)


def same(a, b):
    a, b = bits(a), bits(b)
    return a.shape == b.shape and np.array_equal(a, b)


def next_up(value):
    """The float32 neighbour away from zero."""
    return (np.float32(value).view(np.uint32) + np.uint32(1)).view(np.float32)

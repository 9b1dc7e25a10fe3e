# SPDX-License-Identifier: Apache-2.0
"""The model of the demo: one digest for any instruction set, thread count and split of the prompt."""

import hashlib

import numpy as np
import pytest

import isobit
from isobit.models import CausalLM

SHORT = [504, 3575, 282, 4649, 314]
LONG = [*SHORT, *range(1000, 1300)]
NEW = 2


@pytest.fixture(scope="module")
def model(demo_model):
    return CausalLM.load(demo_model)


def continuation(model, prompt, calls):
    """Greedy ids, prompt included, and the logits that gave the last; the prompt is cut into these calls."""
    state, ids = model.allocate_state(1, len(prompt) + NEW), []
    for n in calls:
        logits = np.asarray(model.forward([prompt[len(ids) : len(ids) + n]], state, last_only=True))
        ids += prompt[len(ids) : len(ids) + n]
    for i in range(NEW):
        ids.append(int(logits[0].argmax()))
        if i < NEW - 1:
            logits = np.asarray(model.step([ids[-1]], state))
    return ids, logits


def digest(model, prompt, calls):
    ids, logits = continuation(model, prompt, calls)
    return hashlib.sha256(np.array(ids, "<i4").tobytes() + logits.astype("<f4").tobytes()).hexdigest()


def test_instruction_sets(model):
    """The scalar kernels take seconds for a token, hence a short prompt."""
    wanted = digest(model, SHORT, [5])
    for isa in isobit.available_isas():
        isobit.set_isa(isa)
        assert digest(model, SHORT, [1, 4]) == wanted, isa


def test_threads_and_cuts(model):
    n = len(LONG)
    wanted = digest(model, LONG, [n])
    for isa in isobit.available_isas()[:-1]:
        isobit.set_isa(isa)
        for threads, calls in ((1, [n]), (3, [1, 4, n - 5]), (7, [256, n - 256])):
            isobit.set_num_threads(threads)
            assert digest(model, LONG, calls) == wanted, (isa, threads, calls)


def test_generate_chooses_the_same(model):
    ids, _ = continuation(model, LONG, [len(LONG)])
    assert np.asarray(model.generate([LONG], NEW))[0].tolist() == ids

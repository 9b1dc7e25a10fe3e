# SPDX-License-Identifier: Apache-2.0
"""The model of the demo, SmolLM2-135M-Instruct, against transformers: logits and greedy continuations."""

import numpy as np
import pytest

from isobit.models import CausalLM

oracle = pytest.importorskip("support.oracle", exc_type=ImportError)

PROMPTS = {
    "The capital of France is": [504, 3575, 282, 4649, 314],
    "any ids": np.random.default_rng(1).integers(0, 49152, 280).tolist(),
}


@pytest.fixture(scope="module")
def models(demo_model):
    return CausalLM.load(demo_model), oracle.load_oracle(demo_model)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_logits(models, prompt):
    ours, theirs = models
    ids = np.array([PROMPTS[prompt]])
    wanted = oracle.oracle_logits(theirs, ids)
    oracle.assert_close(np.asarray(ours.forward(ids)), wanted)
    _, steps = oracle.our_logits(ours, ids[:, :12])
    oracle.assert_close(steps, wanted[:, :12])


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_continuation(models, prompt):
    ours, theirs = models
    ids = np.array([PROMPTS[prompt][:40]])
    assert np.array_equal(ours.generate(ids, 12), oracle.greedy(theirs, ids, 12))

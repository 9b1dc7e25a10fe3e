# SPDX-License-Identifier: Apache-2.0
"""transformers at float32 as the oracle for whole models."""

import warnings

import numpy as np
import pytest

import isobit

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

torch.set_num_threads(1)  # small models, and a machine that may be busy

TOLERANCE = 2e-5  # of the largest |logit|


def random_model(folder, family, fields, seed=0):
    """A checkpoint whose every tensor is random, so that none can be left out unseen."""
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(family, **fields)
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    for name, value in model.named_parameters():
        with torch.no_grad():
            if name.endswith("A_log"):
                value.uniform_(-1.0, 2.0)
            elif "norm" in name and name.endswith("weight"):
                value.uniform_(0.5, 1.5)
            elif name.endswith("embeddings.weight") or name.endswith("embed_tokens.weight"):
                value.normal_(0.0, 1.0)
            elif value.dim() > 1:
                value.normal_(0.0, 1.0 / value.shape[-1] ** 0.5)
            else:
                value.uniform_(-1.0, 1.0)
    model.save_pretrained(folder)
    return model


def load_oracle(folder):
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", local_files_only=True
        ).eval()


def oracle_logits(oracle, ids):
    """One full forward pass without a cache: [B, L, vocab]."""
    with torch.no_grad():
        return oracle(torch.tensor(ids), use_cache=False).logits.numpy()


def greedy(oracle, ids, new_tokens):
    """The ids that transformers' own greedy loop gives, with its cache."""
    ids = torch.tensor(ids)
    return oracle.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=new_tokens,
        do_sample=False,
        eos_token_id=None,
    ).numpy()


def our_logits(model, ids):
    """The same from one forward pass, and from single steps on a cache."""
    full = np.asarray(model.forward(ids))
    state = model.allocate_state(ids.shape[0], ids.shape[1])
    steps = [np.asarray(model.step(ids[:, i], state)) for i in range(ids.shape[1])]
    return full, np.stack(steps, axis=1)


def assert_close(ours, theirs):
    error = np.abs(ours - theirs).max() / np.abs(theirs).max()
    assert error <= TOLERANCE, f"logits differ by {error:.2e} of the largest"
    # Where the best two are further apart than that, the greedy choice must be theirs.
    best = np.sort(theirs, axis=-1)
    sure = best[..., -1] - best[..., -2] > 4 * TOLERANCE * np.abs(theirs).max()
    assert np.array_equal(ours.argmax(-1)[sure], theirs.argmax(-1)[sure])
    assert sure.mean() > 0.8


def assert_parity(folder, length=40, batch=2, seed=1, **load):
    """isobit and transformers on the same folder and ids, prefill and cached decode."""
    model = isobit.models.CausalLM.load(folder, **load)
    ids = np.random.default_rng(seed).integers(0, model.vocab_size, (batch, length))
    theirs = oracle_logits(load_oracle(folder), ids)
    full, steps = our_logits(model, ids)
    assert_close(full, theirs)
    assert_close(steps, theirs)
    return model

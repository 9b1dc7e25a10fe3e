# SPDX-License-Identifier: Apache-2.0
"""Sections 2, 3, 4, 6 and 7 of docs/contract.md, written from its text in NumPy: the bits, a second time.

NumPy's float32 operators round once each, and elementwise they have no order to choose; nothing here calls
np.sum, np.dot, @ or a mathematical function. Arrays stand for many independent numbers at once.
"""

import operator

import numpy as np

from .contract_functions import ACTIVATIONS, exp, fma, tanh

f32 = np.float32
ZERO = f32(0)
BLOCK, LANES = 256, 16


# Section 2


def tree(nodes, join):
    """Joins {block number: node} level by level; a node without sibling moves up unchanged."""
    while len(nodes) > 1:
        parents = {}
        for i in sorted({number // 2 for number in nodes}):
            left, right = nodes.get(2 * i), nodes.get(2 * i + 1)
            parents[i] = right if left is None else left if right is None else join(left, right)
        nodes = parents
    (root,) = nodes.values()
    return root


def blocks(n):
    """(block number, its indices) of 0..n-1."""
    return [(begin // BLOCK, range(begin, min(begin + BLOCK, n))) for begin in range(0, n, BLOCK)]


# Section 3


def dot(a, b):
    """DOT over the last axis; the other axes are broadcast."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    if shape[-1] == 0:
        return np.zeros(shape[:-1], f32)
    sums = {}
    for number, indices in blocks(shape[-1]):
        acc = np.zeros(shape[:-1], f32)
        for k in indices:
            acc = fma(a[..., k], b[..., k], acc)
        sums[number] = acc
    return tree(sums, operator.add) + ZERO


def halve(lanes):
    """The 16 lanes in the last axis become one number."""
    for half in (8, 4, 2, 1):
        lanes = lanes[..., :half] + lanes[..., half : 2 * half]
    return lanes[..., 0]


def row_sum(x, step):
    """SUM or SUMSQ over the last axis: step(lane, element) adds one element."""
    sums = {}
    for number, indices in blocks(x.shape[-1]):
        lanes = np.zeros((*x.shape[:-1], LANES), f32)
        for i in indices:
            lanes[..., i % LANES] = step(lanes[..., i % LANES], x[..., i])
        sums[number] = lanes
    return halve(tree(sums, operator.add)) + ZERO


def total(x):
    return row_sum(x, operator.add)


def squares(x):
    return row_sum(x, lambda lane, element: fma(element, element, lane))


# Section 6


def inverse_root(x, eps):
    return f32(1) / np.sqrt(squares(x) / f32(x.shape[-1]) + eps)


def rms_norm(x, weight, eps):
    return (x * inverse_root(x, eps)[..., None]) * weight


def layer_norm(x, weight, bias, eps):
    n = f32(x.shape[-1])
    first = total(x) / n
    mean = first + total(x - first[..., None]) / n
    centered = x - mean[..., None]
    y = (centered * inverse_root(centered, eps)[..., None]) * weight
    return y if bias is None else y + bias


def rotate(x, cos, sin):
    """x: [..., tokens, head_dim]; cos, sin: [tokens, rope_dim / 2]."""
    half = cos.shape[-1]
    u, v = x[..., :half], x[..., half : 2 * half]
    return np.concatenate([fma(u, cos, -(v * sin)), fma(v, cos, u * sin), x[..., 2 * half :]], axis=-1)


# Section 4


def block_node(scores, visible, v, indices):
    """(exists, m, den, num) of one block for every query: scores, visible: [queries, keys]; v: [keys, D]."""
    columns = slice(indices.start, indices.stop)
    exists = visible[:, columns].any(axis=1)
    m = np.where(visible, scores, f32(-np.inf))[:, columns].max(axis=1)
    m = np.where(exists, m, ZERO)
    lanes = np.zeros((len(scores), LANES), f32)
    num = np.zeros((len(scores), v.shape[-1]), f32)
    for j in indices:
        sees = visible[:, j]
        e = exp(np.where(sees, scores[:, j] - m, ZERO))
        lanes[:, j % LANES] = np.where(sees, lanes[:, j % LANES] + e, lanes[:, j % LANES])
        num = np.where(sees[:, None], fma(e[:, None], v[j], num), num)
    return exists, m, halve(lanes), num


def join_nodes(left, right):
    """The node of both where both exist; where one does not, the other unchanged."""
    both = left[0] & right[0]
    m = np.maximum(left[1], right[1])
    fl = exp(np.where(both, left[1] - m, ZERO))
    fr = exp(np.where(both, right[1] - m, ZERO))
    den = fma(left[2], fl, right[2] * fr)
    num = fma(left[3], fl[:, None], right[3] * fr[:, None])

    def choose(joined, a, b):
        mask = (lambda x: x[:, None]) if joined.ndim == 2 else (lambda x: x)
        return np.where(mask(both), joined, np.where(mask(left[0]), a, b))

    return (
        left[0] | right[0],
        choose(m, left[1], right[1]),
        choose(den, left[2], right[2]),
        choose(num, left[3], right[3]),
    )


def attention(q, k, v, *, window, cap, multiply):
    """One query head: q, k, v: [tokens, head_dim], positions 0..tokens-1."""
    tokens, head_dim = q.shape
    scores = multiply(q, k) * f32(1 / np.sqrt(np.float64(head_dim)))
    if cap is not None:
        scores = f32(cap) * tanh(scores / f32(cap))
    p, j = np.arange(tokens)[:, None], np.arange(tokens)
    visible = (j <= p) & (j >= p - window + 1 if window else True)
    nodes = {number: block_node(scores, visible, v, indices) for number, indices in blocks(tokens)}
    _, _, den, num = tree(nodes, join_nodes)
    return (num + ZERO) / den[:, None]


# Sections 7 and 7c


def matrix_product(a, b):
    """a b^T by DOT."""
    return dot(a[:, None], b[None])


def int15_codes(x):
    top = np.abs(x).max(axis=1).astype(np.float64)
    e = np.where(top > 0, np.frexp(top)[1] - 1 - 13, 0)
    return np.clip(np.rint(np.ldexp(x.astype(np.float64), -e[:, None])), -16383, 16383).astype(np.int64), e


def int15_product(a, b):
    """a b^T by section 7c.1; in binary64 the scaling is exact, so that float32 rounds once."""
    (left, e_left), (right, e_right) = int15_codes(a), int15_codes(b)
    sums = (left[:, None] * right[None]).sum(axis=2).astype(f32)
    with np.errstate(over="ignore"):
        return np.ldexp(sums.astype(np.float64), e_left[:, None] + e_right[None]).astype(f32)


def int8_blocks(x):
    padded = np.pad(x, ((0, 0), (0, -x.shape[1] % 32))).reshape(len(x), -1, 32)
    scale = np.abs(padded).max(axis=2) / f32(127)
    quotient = padded / np.where(scale > 0, scale, f32(1))[:, :, None]
    codes = np.clip(np.rint(quotient), -127, 127)
    return np.where(scale[:, :, None] > 0, codes, 0).astype(np.int64), scale


class FileBlocks:
    """A matrix of a file's blocks (7c.3): codes [n, blocks, 32], scale [n, blocks], minimum or None."""

    def __init__(self, codes, scale, minimum=None):
        self.codes, self.scale, self.minimum = codes.astype(np.int64), scale, minimum

    def widened(self):
        values = self.scale[:, :, None] * self.codes.astype(f32)
        if self.minimum is not None:
            values = values + self.minimum[:, :, None]
        return values.reshape(len(values), -1)


def int8x32_product(a, b):
    """a b^T by sections 7c.2 and 7c.3."""
    left, s_left = int8_blocks(a)
    right, s_right = (b.codes, b.scale) if isinstance(b, FileBlocks) else int8_blocks(b)
    minimum = b.minimum if isinstance(b, FileBlocks) else None
    sums = {}
    for i in range(left.shape[1]):
        d = (left[:, None, i] * right[None, :, i]).sum(axis=2).astype(f32)
        acc = sums.get(i // 8, np.zeros((len(left), len(right)), f32))
        acc = fma(d, s_right[None, :, i] * s_left[:, None, i], acc)
        if minimum is not None:
            total = left[:, i].sum(axis=1).astype(f32)[:, None]
            acc = fma(total, minimum[None, :, i] * s_left[:, None, i], acc)
        sums[i // 8] = acc
    return tree(sums, operator.add) + ZERO


def int8x32_head(a, b):
    """a b^T by section 7c.4: a in two terms."""
    codes, scale = int8_blocks(a)
    padded = np.pad(a, ((0, 0), (0, -a.shape[1] % 32))).reshape(codes.shape)
    rest = fma(-codes.astype(f32), scale[:, :, None], padded).reshape(len(a), -1)[:, : a.shape[1]]
    return int8x32_product(a, b) + int8x32_product(rest, b)


# profile: (projections, scores, head)
PRODUCTS = {
    "fp32_v1": (matrix_product, matrix_product, matrix_product),
    "fixed15_v1": (int15_product, int15_product, int15_product),
    "int8x32_v1": (int8x32_product, matrix_product, int8x32_head),
}


def forward(weights, options, x, cos, sin):
    """The block on one sequence: x: [tokens, d_model]; cos, sin: the rotary table of its positions."""
    project, score, _ = PRODUCTS[options.get("numeric_profile", "fp32_v1")]
    eps, kind = f32(options.get("norm_eps", 1e-6)), options.get("norm", "rmsnorm")
    head_dim, group = options["head_dim"], options["n_heads"] // options["n_kv_heads"]

    def offset(weight):
        return f32(1) + weight if kind == "rmsnorm_offset" else weight

    def norm(x, name):
        weight = weights[name + ".weight"]
        if kind == "layernorm":
            return layer_norm(x, weight, weights.get(name + ".bias"), eps)
        return rms_norm(x, offset(weight), eps)

    def linear(x, name):
        y = project(x, weights[name + ".weight"])
        return y + weights[name + ".bias"] if name + ".bias" in weights else y

    def heads(x):
        return [x[:, i : i + head_dim] for i in range(0, x.shape[1], head_dim)]

    n = norm(x, "input_layernorm")
    q, k, v = (heads(linear(n, name)) for name in ("q_proj", "k_proj", "v_proj"))
    if options.get("qk_norm"):
        q = [rms_norm(row, offset(weights["q_norm.weight"]), eps) for row in q]
        k = [rms_norm(row, offset(weights["k_norm.weight"]), eps) for row in k]
    k = [rotate(row, cos, sin) for row in k]
    context = [
        attention(
            rotate(row, cos, sin),
            k[i // group],
            v[i // group],
            window=options.get("window", 0),
            cap=options.get("attn_softcap"),
            multiply=score,
        )
        for i, row in enumerate(q)
    ]
    h = x + linear(np.concatenate(context, axis=1), "o_proj")
    n = norm(h, "post_attention_layernorm")
    activate = ACTIVATIONS[options.get("mlp", "swiglu")]
    if "gate_proj.weight" in weights:
        a = activate(linear(n, "gate_proj")) * linear(n, "up_proj")
    else:
        a = activate(linear(n, "up_proj"))
    return h + linear(a, "down_proj")


def model(config, weights, blocks, ids, profile="fp32_v1"):
    """Logits of one sequence: blocks are functions of [tokens, d_model]."""
    embedding = weights["model.embed_tokens.weight"]
    head = embedding if config["tie_word_embeddings"] else weights["lm_head.weight"]
    h = embedding[ids]
    for block in blocks:
        h = block(h)
    n = rms_norm(h, weights["model.norm.weight"], f32(config["rms_norm_eps"]))
    return PRODUCTS[profile][2](n, head)


def choose(row):
    """Section 9: the id of the largest logit, the lowest of equal ones."""
    best = 0
    for i, logit in enumerate(row):
        if logit > row[best]:
            best = i
    return best

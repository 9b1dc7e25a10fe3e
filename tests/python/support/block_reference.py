# SPDX-License-Identifier: Apache-2.0
"""A decoder block in float64 NumPy, from the formulas that Hugging Face users know.

Only the rotary frequencies and angles are rounded to float32, where transformers rounds them.
"""

import math

import numpy as np

ERF = np.vectorize(math.erf, otypes=[float])


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + ERF(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "swiglu": silu,
    "gelu": gelu,
    "geglu": gelu,
    "gelu_tanh": gelu_tanh,
    "geglu_tanh": gelu_tanh,
}


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def layer_norm(x, weight, bias, eps):
    centered = x - x.mean(axis=-1, keepdims=True)
    scaled = centered / np.sqrt(np.mean(centered**2, axis=-1, keepdims=True) + eps)
    return scaled * weight + bias


def yarn_frequencies(s, theta, periods, factor):
    dim = 2 * len(periods)
    original = s["original_max_position_embeddings"]

    def column(turns):
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = column(s.get("beta_fast") or 32), column(s.get("beta_slow") or 1)
    if s.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = np.clip((np.arange(len(periods)) - low) / (high - low if high != low else 0.001), 0, 1)
    inv = ramp / (factor * periods) + (1 - ramp) / periods

    def magnitude(m):
        return 0.1 * m * math.log(factor) + 1 if factor > 1 else 1.0

    if s.get("attention_factor"):
        return inv, s["attention_factor"]
    if s.get("mscale") and s.get("mscale_all_dim"):
        return inv, magnitude(s["mscale"]) / magnitude(s["mscale_all_dim"])
    return inv, magnitude(1)


def llama3_frequencies(s, inv):
    factor, low, high = s["factor"], s["low_freq_factor"], s["high_freq_factor"]
    original = s["original_max_position_embeddings"]
    turns = original * inv / (2 * math.pi)
    blend = (turns - low) / (high - low)
    middle = (1 - blend) * inv / factor + blend * inv
    return np.where(turns < low, inv / factor, np.where(turns > high, inv, middle))


def frequencies(options, dim):
    """inv_freq and the attention factor."""
    theta, s = options.get("rope_theta", 10000.0), options.get("rope_scaling")
    exponent = (np.arange(0, dim, 2) / np.float64(dim)).astype(np.float32)
    periods = (theta ** exponent.astype(float)).astype(np.float32).astype(float)
    inv = 1 / periods
    if not s:
        return inv, 1.0
    kind = s.get("rope_type", s.get("type"))
    if kind == "linear":
        return inv / s["factor"], 1.0
    if kind == "llama3":
        return llama3_frequencies(s, inv), 1.0
    if kind == "dynamic":
        return inv, 1.0
    original, positions = s["original_max_position_embeddings"], options["max_positions"]
    factor = s.get("factor") or positions / original
    if kind == "yarn":
        return yarn_frequencies(s, theta, periods, factor)
    extension = np.array(s["long_factor"] if positions > original else s["short_factor"])
    attention = s.get("attention_factor")
    if attention is None:
        attention = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return 1 / (extension * periods), attention


def rotate(x, options):
    """x: [heads, L, head_dim] at positions 0..L-1."""
    dim = options.get("rope_dim") or x.shape[-1]
    inv, attention = frequencies(options, dim)
    angle = np.arange(x.shape[1], dtype=np.float32)[:, None] * inv.astype(np.float32)
    cos, sin = np.cos(angle.astype(float)) * attention, np.sin(angle.astype(float)) * attention
    u, v = x[..., : dim // 2], x[..., dim // 2 : dim]
    return np.concatenate([u * cos - v * sin, v * cos + u * sin, x[..., dim:]], axis=-1)


def attention(q, k, v, options):
    """q: [H, L, D]; k, v: [K, L, D] -> [H, L, D]."""
    group = q.shape[0] // k.shape[0]
    k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    cap, window = options.get("attn_softcap"), options.get("window", 0)
    if cap:
        scores = cap * np.tanh(scores / cap)
    distance = np.arange(q.shape[1])[:, None] - np.arange(q.shape[1])
    hidden = (distance < 0) | (distance >= window if window else False)
    scores = np.where(hidden, -np.inf, scores)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def forward(weights, options, x):
    """x: [L, d_model], one sequence from position 0 -> the same shape."""
    w = {name: np.asarray(values, float) for name, values in weights.items()}
    eps, kind = options.get("norm_eps", 1e-6), options.get("norm", "rmsnorm")
    heads, head_dim = options["n_heads"], options["head_dim"]
    offset = 1.0 if kind == "rmsnorm_offset" else 0.0
    x = np.asarray(x, float)

    def norm(x, name):
        if kind == "layernorm":
            return layer_norm(x, w[name + ".weight"], w.get(name + ".bias", 0.0), eps)
        return rms_norm(x, offset + w[name + ".weight"], eps)

    def linear(x, name):
        return x @ w[name + ".weight"].T + w.get(name + ".bias", 0.0)

    def split(x):
        return x.reshape(len(x), -1, head_dim).transpose(1, 0, 2)

    n = norm(x, "input_layernorm")
    q, k, v = (split(linear(n, name)) for name in ("q_proj", "k_proj", "v_proj"))
    if options.get("qk_norm"):
        q = rms_norm(q, offset + w["q_norm.weight"], eps)
        k = rms_norm(k, offset + w["k_norm.weight"], eps)
    context = attention(rotate(q, options), rotate(k, options), v, options)
    h = x + linear(context.transpose(1, 0, 2).reshape(len(x), heads * head_dim), "o_proj")

    n = norm(h, "post_attention_layernorm")
    act = ACTIVATIONS[options.get("mlp", "swiglu")]
    a = act(linear(n, "gate_proj")) * linear(n, "up_proj") if "gate_proj.weight" in w else None
    return h + linear(act(linear(n, "up_proj")) if a is None else a, "down_proj")

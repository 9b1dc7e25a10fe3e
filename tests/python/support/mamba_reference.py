# SPDX-License-Identifier: Apache-2.0
"""Mamba 1, 2 and 3 as their recurrences over single tokens, in binary64 and in the papers' order of steps."""

import numpy as np

from support.block_reference import rms_norm, silu


def softplus(x):
    return np.logaddexp(0.0, x)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def convolve(window, taps, bias):
    """window (K, C) oldest first, taps (C, K)."""
    return silu(bias + np.einsum("kc,ck->c", window, taps))


def taps_of(w):
    return w["conv1d.weight"].reshape(w["conv1d.weight"].shape[0], -1)


def mamba1(w, x, eps=1e-5, inner_eps=None):
    """x (L, D) -> (L, D)."""
    w = {name: np.asarray(value, dtype=np.float64) for name, value in w.items()}
    taps, channels, states = taps_of(w), w["A_log"].shape[0], w["A_log"].shape[1]
    rank = w["dt_proj.weight"].shape[1]
    a, state = -np.exp(w["A_log"]), np.zeros((channels, states))
    window, out = np.zeros((taps.shape[1], channels)), []
    for token in np.asarray(x, dtype=np.float64):
        both = w["in_proj.weight"] @ rms_norm(token, w["norm.weight"], eps) + w.get("in_proj.bias", 0.0)
        window = np.vstack([window[1:], both[:channels]])
        u = convolve(window, taps, w.get("conv1d.bias", 0.0))
        dt, b, c = np.split(w["x_proj.weight"] @ u, [rank, rank + states])
        if inner_eps is not None:
            dt, b, c = (rms_norm(part, 1.0, inner_eps) for part in (dt, b, c))
        dt = softplus(w["dt_proj.weight"] @ dt + w["dt_proj.bias"])
        state = np.exp(dt[:, None] * a) * state + dt[:, None] * b[None, :] * u[:, None]
        y = (state @ c + w["D"] * u) * silu(both[channels:])
        out.append(token + w["out_proj.weight"] @ y + w.get("out_proj.bias", 0.0))
    return np.array(out)


def gated(y, z, weight, *, groups, eps, norm_before_gate):
    def norm(v):
        return (rms_norm(v.reshape(groups, -1), 1.0, eps)).reshape(-1) * weight

    if weight is None:
        return y * silu(z)
    return norm(y) * silu(z) if norm_before_gate else norm(y * silu(z))


def mamba2(w, x, *, groups=1, dt_limit=(0.0, np.inf), norm_before_gate=False, grouped=True, eps=1e-5):
    w = {name: np.asarray(value, dtype=np.float64) for name, value in w.items()}
    taps, heads, channels = taps_of(w), len(w["A_log"]), w["out_proj.weight"].shape[1]
    states = (taps.shape[0] - channels) // (2 * groups)
    a, width = -np.exp(w["A_log"]), channels // heads
    state, window, out = np.zeros((heads, width, states)), np.zeros((taps.shape[1], taps.shape[0])), []
    for token in np.asarray(x, dtype=np.float64):
        row = w["in_proj.weight"] @ rms_norm(token, w["block_norm.weight"], eps) + w.get("in_proj.bias", 0.0)
        z, conv_in, dt = np.split(row, [channels, channels + taps.shape[0]])
        window = np.vstack([window[1:], conv_in])
        inner = convolve(window, taps, w.get("conv1d.bias", 0.0))
        v, b, c = np.split(inner, [channels, channels + groups * states])
        v = v.reshape(heads, width)
        b, c = (np.repeat(part.reshape(groups, states), heads // groups, axis=0) for part in (b, c))
        dt = np.clip(softplus(dt + w["dt_bias"]), *dt_limit)
        state = np.exp(dt * a)[:, None, None] * state + np.einsum("h,hp,hn->hpn", dt, v, b)
        y = np.einsum("hpn,hn->hp", state, c) + w["D"][:, None] * v
        y = gated(
            y.reshape(-1),
            z,
            w.get("norm.weight"),
            groups=groups if grouped else 1,
            eps=eps,
            norm_before_gate=norm_before_gate,
        )
        out.append(token + w["out_proj.weight"] @ y + w.get("out_proj.bias", 0.0))
    return np.array(out)


def rotate(x, theta, split):
    """Turns pairs of the last axis of x (rank, heads, states) by theta (heads, angles)."""
    x, angles, half = x.copy(), theta.shape[1], x.shape[-1] // 2
    first = np.arange(angles) if split else 2 * np.arange(angles)
    second = first + half if split else first + 1
    u, v = x[..., first].copy(), x[..., second].copy()
    x[..., first] = u * np.cos(theta) - v * np.sin(theta)
    x[..., second] = u * np.sin(theta) + v * np.cos(theta)
    return x


def mamba3(w, x, *, rope_fraction=0.5, heavy_tail=True, a_floor=1e-4, eps=1e-5):
    w = {name: np.asarray(value, dtype=np.float64) for name, value in w.items()}
    heads, states, channels = len(w["dt_bias"]), len(w["B_norm.weight"]), w["out_proj.weight"].shape[1]
    width, mimo = channels // heads, "mimo_x" in w
    b_bias, c_bias = (w[name].reshape(heads, -1, states).transpose(1, 0, 2) for name in ("B_bias", "C_bias"))
    rank = b_bias.shape[0]
    angles = int(states * rope_fraction) // 2
    keys = (w["in_proj.weight"].shape[0] - 2 * channels - 3 * heads - angles) // 2
    groups = keys // (rank * states)
    mixes = {
        name: w[name].transpose(1, 0, 2) if mimo else np.ones((1, heads, width))
        for name in ("mimo_x", "mimo_z", "mimo_o")
    }
    theta, state = np.zeros((heads, angles)), np.zeros((heads, width, states))
    last_k, last_v, out = np.zeros((rank, heads, states)), np.zeros((heads, width)), []
    for token in np.asarray(x, dtype=np.float64):
        row = w["in_proj.weight"] @ rms_norm(token, w["block_norm.weight"], eps)
        ends = np.cumsum([channels, channels, keys, keys, heads, heads, heads])
        z, v, b, c, dt, a, trap, spin = np.split(row, ends)
        z, v = z.reshape(heads, width), v.reshape(heads, width)
        dt = softplus(dt + w["dt_bias"])
        a = (1.0 + np.maximum(a, 0.0)) / (1.0 - np.minimum(a, 0.0)) if heavy_tail else softplus(a)
        a, weight = np.minimum(-a, -a_floor), sigmoid(trap)
        theta = theta + dt[:, None] * np.pi * np.tanh(spin)[None, :]

        def key(raw, norm, bias, theta=theta):
            per_group = rms_norm(raw.reshape(rank, groups, states), norm, eps)
            return rotate(np.repeat(per_group, heads // groups, axis=1) + bias, theta, mimo)

        k, q = key(b, w["B_norm.weight"], b_bias), key(c, w["C_norm.weight"], c_bias)
        alpha = np.exp(a * dt)
        beta, gamma = (1.0 - weight) * dt * alpha, weight * dt
        inputs, before = mixes["mimo_x"] * v, mixes["mimo_x"] * last_v
        state = (
            alpha[:, None, None] * state
            + np.einsum("h,rhp,rhn->hpn", beta, before, last_k)
            + np.einsum("h,rhp,rhn->hpn", gamma, inputs, k)
        )
        y = np.einsum("hpn,rhn->rhp", state, q) + w["D"][:, None] * inputs
        if "norm.weight" in w:
            y = rms_norm(y, w["norm.weight"].reshape(heads, width), eps)
        y = (mixes["mimo_o"] * y * silu(mixes["mimo_z"] * z)).sum(axis=0)
        last_k, last_v = k, v
        out.append(token + w["out_proj.weight"] @ y.reshape(-1))
    return np.array(out)

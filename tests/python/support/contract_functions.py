# SPDX-License-Identifier: Apache-2.0
"""The functions of docs/functions.md that a block uses, written from its text over arrays of float32.

Lists of coefficients are read from the page, every formula is written down again.
"""

import re
from pathlib import Path

import numpy as np

f32 = np.float32
PAGE = Path(__file__).parents[3] / "docs" / "functions.md"


def hexadecimal(*literals):
    """float32 constants from C literals."""
    values = tuple(f32(float.fromhex(text)) for text in literals)
    return values if len(values) > 1 else values[0]


def coefficients(name):
    """`name = number, number, ...` in the page, over as many lines as end in a comma."""
    number = r"-?0x[0-9a-f.]+p[-+]?\d+"
    found = re.search(rf"\b{name}\s*= ({number}(?:,\s*{number})*)$", PAGE.read_text(), re.M)
    return [f32(float.fromhex(text)) for text in re.split(r",\s*", found[1])]


def fma(a, b, z):
    """a*b + z with one rounding: exact in binary64 up to a rounding to odd, then rounded to float32."""
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)  # 48 bits: exact
    z = np.asarray(z, np.float64)
    s = product + z
    with np.errstate(invalid="ignore"):
        t = s - product
        error = (product - (s - t)) + (z - t)
    bits = s.view(np.int64)
    # An inexact sum whose last bit is even moves to its odd neighbour on the side of the error.
    step = np.where((error > 0) == (s > 0), 1, -1)
    inexact = np.isfinite(s) & (error != 0) & (bits % 2 == 0)
    with np.errstate(over="ignore"):
        return np.where(inexact, bits + step, bits).view(np.float64).astype(f32)


def horner(coefficients, x):
    """k[0] + k[1] x + ..., by fma from the highest one."""
    q = coefficients[-1]
    for k in reversed(coefficients[:-1]):
        q = fma(q, x, k)
    return q


def signed(x, y):
    """sign(x) y"""
    return np.where(np.signbit(x), -y, y)


def power(n):
    """2^n; 2^128 is no float32, so a product with it takes two factors."""
    return np.ldexp(f32(1), np.asarray(n, np.int32))


def scale(n, a):
    """2^n * a"""
    half = np.trunc(n / 2)
    return (a * power(half)) * power(n - half)


# E, the reduction of an exponential

MAGIC, LOG2E, LN2_HI, LN2_LO = hexadecimal("0x1.8p+23", "0x1.715476p+0", "0x1.62e4p-1", "0x1.7f7d1cp-20")
EXP = coefficients("kExp")


def nearest(x):
    return fma(x, LOG2E, MAGIC) - MAGIC


def reduced(x, n):
    return fma(-n, LN2_LO, fma(-n, LN2_HI, x))


def slope(r):
    return fma(horner(EXP, r), r, f32(1))


# The functions. Where a case distinction leaves an argument out, something harmless stands in for it.

EXP_MIN, EXP_MAX = hexadecimal("-0x1.5d589ep+6"), f32(89)
TANH = coefficients("kTanh")


def exp(x):
    inside = np.where((x < EXP_MIN) | (x > EXP_MAX), f32(0), x)
    n = nearest(inside)
    r = reduced(inside, n)
    with np.errstate(over="ignore"):
        y = scale(n, fma(slope(r), r, f32(1)))
    return np.where(x < EXP_MIN, f32(0), np.where(x > EXP_MAX, f32(np.inf), y))


def silu(x):
    return x / (f32(1) + exp(-x))


def tanh(x):
    a = np.abs(x)
    small = np.minimum(a, f32(1))
    s = small * small
    centre = fma(horner(TANH, s) * s, small, small)
    z = np.minimum(f32(20), a + a)
    n = nearest(z)
    r = reduced(z, n)
    tail = f32(1) - f32(2) / fma(slope(r) * r, power(n), power(n) + f32(1))
    return signed(x, np.where(a <= 1, centre, tail))


PHI = coefficients("kPhi")
TAIL, TAIL_0 = coefficients("kTailSlope"), hexadecimal("0x1.5948e2p+0")


def normal_tail(a, s, s_lo, m):
    """N, the tail of the normal distribution, in gelu's form."""
    shift, t0, t1, rest0, rest1 = hexadecimal("0x1.03p+1"), f32(-1), f32(4), f32(0.131), f32(-0.116)
    d = a + shift
    d_lo = shift - (d - a)
    q = m / d
    t = fma(q, t1, t0)
    rest = fma(-q, d_lo, fma(-q, d, m))
    q_lo = (rest * (f32(1) - t)) * fma(t, rest1, rest0)
    g = horner(TAIL, t)
    p = fma(g, t, TAIL_0)
    p_lo = fma(g, t, TAIL_0 - p)
    n = nearest(-s)
    r = fma(-n, LN2_HI, -s) - fma(n, LN2_LO, s_lo)
    c = fma(slope(r) * r, p, p_lo)
    v = p + c
    v_lo = c - (v - p)
    return np.where(s > 83, f32(0), scale(n, fma(v, q, fma(v, q_lo, v_lo * q))))


def gelu(x):
    small = np.clip(x, f32(-1), f32(1))
    centre = small * fma(horner(PHI, small * small), small, f32(0.5))
    a = np.clip(np.abs(x), f32(1), f32(13))  # s > 83 at 13 already
    h = f32(0.5) * a
    s = h * a
    tail = normal_tail(a, s, fma(h, a, -s), h)
    return np.where(np.abs(x) <= 1, centre, np.where(x < 0, f32(0), x) - tail)


A, A_LO, B, B_LO = hexadecimal("-0x1.988454p+0", "0x1.857936p-25", "-0x1.2444f2p-4", "-0x1.49b16ap-29")


def gelu_tanh(x):
    c = np.clip(x, f32(-10.06), f32(9.5))
    s = c * c
    s_lo = fma(c, c, -s)
    b = B * s
    w = b + A
    t = w - b
    w_lo = fma(B, s, -b) + ((b - (w - t)) + (A - t))
    w_lo = w_lo + fma(s, B_LO, A_LO)
    w_lo = fma(B, s_lo, w_lo)
    z = c * w
    z_lo = fma(c, w_lo, fma(c, w, -z))
    n = nearest(z)
    r = fma(-n, LN2_HI, z) + fma(-n, LN2_LO, z_lo)
    return np.where(x < f32(-10.06), f32(0), x / (f32(1) + scale(n, fma(slope(r), r, f32(1)))))


ACTIVATIONS = {
    "swiglu": silu,
    "gelu": gelu,
    "geglu": gelu,
    "gelu_tanh": gelu_tanh,
    "geglu_tanh": gelu_tanh,
}

# SPDX-License-Identifier: Apache-2.0
"""The functions of docs/functions.md that a block uses, written from its text over arrays of float32."""

import numpy as np

f32 = np.float32


def c(*literals):
    """float32 constants from C hexadecimal literals."""
    values = tuple(f32(float.fromhex(text)) for text in literals)
    return values if len(values) > 1 else values[0]


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


# exp

MAGIC = c("0x1.8p23")
LOG2E, LN2_HI, LN2_LO = c("0x1.715476p+0", "0x1.62e4p-1", "0x1.7f7d1cp-20")
EXP_MIN, EXP_MAX = c("-0x1.5d589ep+6", "0x1.64p+6")
EXP = c("0x1.fffffcp-2", "0x1.555492p-3", "0x1.5558f2p-5", "0x1.1239d6p-7", "0x1.6a2446p-10")


def exp_n(x):
    """The integer nearest x / ln 2, as float32."""
    return fma(x, LOG2E, MAGIC) - MAGIC


def exp_slope(r):
    """(exp(r) - 1) / r."""
    return fma(horner(EXP, r), r, f32(1))


def scale(a, n):
    """a 2^n in two factors."""
    n = n.astype(np.int32)
    half = np.trunc(n / 2).astype(np.int32)
    return np.ldexp(np.ldexp(a, half), n - half)


def exp(x):
    x = np.asarray(x, f32)
    inside = np.where((x < EXP_MIN) | (x > EXP_MAX), f32(0), x)
    n = exp_n(inside)
    r = fma(-n, LN2_LO, fma(-n, LN2_HI, inside))
    y = scale(fma(exp_slope(r), r, f32(1)), n)
    return np.where(x < EXP_MIN, f32(0), np.where(x > EXP_MAX, f32(np.inf), y))


# tanh

TANH_CUT, TANH_MAX = f32(1), f32(20)
TANH = c(
    "-0x1.55553cp-2",
    "0x1.110be4p-3",
    "-0x1.b9623ap-5",
    "0x1.6009a6p-6",
    "-0x1.045ff4p-7",
    "0x1.2da01ep-9",
    "-0x1.77cd58p-12",
)


def tanh(x):
    x = np.asarray(x, f32)
    a = np.abs(x)
    s = np.where(a <= TANH_CUT, a, f32(0)) ** 2
    centre = fma(horner(TANH, s) * s, a, a)
    twice = np.minimum(a + a, TANH_MAX)
    n = exp_n(twice)
    r = fma(-n, LN2_LO, fma(-n, LN2_HI, twice))
    power = np.ldexp(f32(1), n.astype(np.int32))
    tail = f32(1) - f32(2) / fma(exp_slope(r) * r, power, power + f32(1))
    return np.copysign(np.where(a <= TANH_CUT, centre, tail), x)


# silu, gelu_tanh, gelu


def silu(x):
    return x / (f32(1) + exp(-x))


GELU_A, GELU_A_LO = c("-0x1.988454p+0", "0x1.857936p-25")
GELU_B, GELU_B_LO = c("-0x1.2444f2p-4", "-0x1.49b16ap-29")
GELU_MIN, GELU_MAX = f32(-10.06), f32(9.5)


def gelu_tanh(x):
    x = np.asarray(x, f32)
    z = np.clip(x, GELU_MIN, GELU_MAX)
    s = z * z
    s_lo = fma(z, z, -s)
    b = GELU_B * s
    w = b + GELU_A
    t = w - b
    sum_lo = (b - (w - t)) + (GELU_A - t)
    w_lo = fma(GELU_B, s, -b) + sum_lo
    w_lo = w_lo + fma(s, GELU_B_LO, GELU_A_LO)
    w_lo = fma(GELU_B, s_lo, w_lo)
    y = z * w
    y_lo = fma(z, w_lo, fma(z, w, -y))
    n = exp_n(y)
    r = fma(-n, LN2_HI, y) + fma(-n, LN2_LO, y_lo)
    return np.where(x < GELU_MIN, f32(0), x / (f32(1) + scale(fma(exp_slope(r), r, f32(1)), n)))


PHI = c(
    "0x1.988454p-2",
    "-0x1.105862p-4",
    "0x1.46d558p-7",
    "-0x1.376eacp-10",
    "0x1.e26c8ep-14",
    "-0x1.122036p-17",
)
TAIL_MAX, TAIL_0 = f32(83), c("0x1.5948e2p+0")
TAIL = c(
    "-0x1.58ff32p-1",
    "0x1.12847ap-4",
    "0x1.29f0bcp-4",
    "-0x1.8ed1b8p-9",
    "-0x1.c2ddeep-7",
    "-0x1.af7a0ap-9",
    "0x1.43c316p-9",
    "0x1.beac7ep-11",
)
SHIFT, T0, T1, REST0, REST1 = c("0x1.03p+1"), f32(-1), f32(4), f32(0.131), f32(-0.116)


def normal_tail(a):
    """a Phi(-a), for a > 1."""
    numerator = f32(0.5) * a
    s = numerator * a
    s_lo = fma(numerator, a, -s)
    d = a + SHIFT
    d_lo = SHIFT - (d - a)
    quotient = numerator / d
    t = fma(quotient, T1, T0)
    rest = fma(-quotient, d_lo, fma(-quotient, d, numerator))
    quotient_lo = rest * (f32(1) - t) * fma(t, REST1, REST0)
    slope = horner(TAIL, t)
    p = fma(slope, t, TAIL_0)
    p_lo = fma(slope, t, TAIL_0 - p)
    n = exp_n(-s)
    r = fma(-n, LN2_HI, -s) - fma(n, LN2_LO, s_lo)
    change = fma(exp_slope(r) * r, p, p_lo)
    product = p + change
    product_lo = change - (product - p)
    y = scale(fma(product, quotient, fma(product, quotient_lo, product_lo * quotient)), n)
    return np.where(s > TAIL_MAX, f32(0), y)


def gelu(x):
    x = np.asarray(x, f32)
    a = np.abs(x)
    small = np.where(a <= 1, x, f32(0))
    centre = x * fma(horner(PHI, small * small), small, f32(0.5))
    bounded = np.clip(a, f32(1), f32(13.5))
    return np.where(a <= 1, centre, np.maximum(x, f32(0)) - normal_tail(bounded))


ACTIVATIONS = {
    "swiglu": silu,
    "gelu": gelu,
    "geglu": gelu,
    "gelu_tanh": gelu_tanh,
    "geglu_tanh": gelu_tanh,
}

# SPDX-License-Identifier: Apache-2.0
"""Sections 5.2 and 5.3 of docs/contract.md, written again from its text, against the digests of C++ tests.

Python's float is binary64 and CPython neither fuses nor reorders: a second implementation of the same bits.
"""

import hashlib
import math
import re
import struct
from fractions import Fraction
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

f32 = np.float32
LN2, LN2T = float.fromhex("0x1.62e42fefa2p-1"), float.fromhex("0x1.9ef35793c7673p-41")
LN2T_LOW = float.fromhex("0x1.f97b57a079a19p-103")
INVLN2, SQRT2 = float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.6a09e667f3bcdp+0")
PI4 = float.fromhex("0x1.921fb54442d18p-1")
PI2 = (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"))
PI = float.fromhex("0x1.921fb54442d18p+1")
THIRD = (1 / 3, float.fromhex("0x1.5555555555555p-56"))
FIFTH = (1 / 5, float.fromhex("-0x1.999999999999ap-57"))
SEVENTH = (1 / 7, float.fromhex("0x1.2492492492492p-57"))
DIGESTS = Path(__file__).parents[1] / "nn" / "rope_table_test.cc"


def two_over_pi_bits(bits):
    """floor(2/pi * 2^bits), from Machin's formula in integers."""
    guard = bits + 64

    def arctan_inverse(n):
        total, power, k = 0, (1 << guard) // n, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return (2 << (guard + bits)) // pi


TWO_OVER_PI = two_over_pi_bits(1216)


def fast2(a, b):
    s = a + b
    return s, b - (s - a)


def sum2(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def prod2(a, b):
    c = 2.0**27 + 1
    ca, cb = c * a, c * b
    a1, b1 = ca - (ca - a), cb - (cb - b)
    a2, b2 = a - a1, b - b1
    p = a * b
    return p, (((a1 * b1 - p) + a1 * b2) + a2 * b1) + a2 * b2


def add(x, y):
    s, t = sum2(x[0], y[0])
    return fast2(s, t + (x[1] + y[1]))


def mul(x, y):
    p, t = prod2(x[0], y[0])
    return fast2(p, t + (x[0] * y[1] + x[1] * y[0]))


def div(a, y):
    q = a / y[0]
    p, t = prod2(q, y[0])
    return fast2(q, (((a - p) - t) - q * y[1]) / y[0])


def horner(z, coefficients):
    r = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        r = c + z * r
    return r


def logpair(x):
    k = 0
    if x < 2.0**-1022:
        x, k = x * 2.0**54, -54
    m, j = math.frexp(x)
    m, k = m * 2, k + j - 1
    if m >= SQRT2:
        m, k = m * 0.5, k + 1
    s = div(m - 1, sum2(m, 1.0))
    z = mul(s, s)
    u = (z[0] * horner(z[0], [1 / n for n in range(9, 30, 2)]), 0.0)
    u = mul(z, add(SEVENTH, u))
    u = mul(z, add(FIFTH, u))
    u = mul(z, add(THIRD, u))
    u = mul(s, add((1.0, 0.0), u))
    return add((k * LN2, 0.0), add((k * LN2T, k * LN2T_LOW), (2 * u[0], 2 * u[1])))


def exppair(h, low):
    if h > 710:
        return math.inf
    if h < -746:
        return 0.0
    k = (h * INVLN2 + 1.5 * 2.0**52) - 1.5 * 2.0**52
    d, t = sum2(h - k * LN2, -(k * LN2T))
    r, c = fast2(d, t + low)
    p = 1 + (r + ((r * r) * horner(r, [1 / math.factorial(n) for n in range(2, 15)]) + (c + c * r)))
    half = int(k / 2)
    return (p * 2.0**half) * 2.0 ** (int(k) - half)


def log(x):
    return logpair(x)[0]


def power(x, y):
    high, low = logpair(x)
    if not -746 <= y * high <= 710:
        return math.inf if y * high > 710 else 0.0
    p, t = prod2(y, high)
    return exppair(p, t + y * low)


def sincos(x):
    a, quadrant, r, c = abs(x), 0, abs(x), 0.0
    if a > PI4:
        m, e = math.frexp(a)
        m, e = int(m * 2**53), e - 53
        shifted = TWO_OVER_PI >> (1216 - 190 - e)  # its last bit has the weight 2^-190 once multiplied by 2^e
        f = m * (shifted % 2**192) % 2**192
        quadrant, f = f >> 190, 4 * f % 2**192
        negate = f >> 191
        if negate:
            quadrant, f = (quadrant + 1) % 4, f ^ (2**192 - 1)
        n = 192 - f.bit_length()
        bits = (f << n) >> 86  # the first 106 bits from the first 1 on
        g = ((bits >> 53) * 2.0 ** (-53 - n), (bits % 2**53) * 2.0 ** (-106 - n))
        r, c = mul(g, PI2)
        if negate:
            r, c = -r, -c
    z = r * r
    sines = [(-1) ** (n // 2) / math.factorial(n) for n in range(3, 20, 2)]
    cosines = [(-1) ** (n // 2) / math.factorial(n) for n in range(4, 19, 2)]
    s = r + ((r * z) * horner(z, sines) + (c - c * (0.5 * z)))
    h = 0.5 * z
    w = 1 - h
    co = w + (((1 - w) - h) + ((z * z) * horner(z, cosines) - r * c))
    sine, cosine = [(s, co), (co, -s), (-s, -co), (-co, s)][quadrant]
    return (-sine if math.copysign(1, x) < 0 else sine), cosine


def periods(dim, theta):
    return [f32(power(float(f32(theta)), float(f32(2 * i) / f32(dim)))) for i in range(dim // 2)]


def llama3(inv, factor, low, high, original):
    factor, low, high = f32(factor), f32(low), f32(high)
    wave = (f32(1) / inv) * f32(2 * PI)
    if wave > f32(original / float(low)):
        return inv / factor
    if wave < f32(original / float(high)):
        return inv
    t = ((f32(1) / wave) * f32(original) - low) / (high - low)
    return ((f32(1) - t) * inv) / factor + t * inv


def yarn(p, theta, g, original, truncate):
    dim = 2 * len(p)
    g = f32(g)

    def column(r):
        return dim * log(original / (r * 2 * PI)) / (2 * log(float(f32(theta))))

    low, high = column(32.0), column(1.0)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    result = []
    for i, period in enumerate(p):
        ramp = min(max((f32(i) - f32(low)) / f32(high - low), f32(0)), f32(1))
        keep = f32(1) - ramp
        result.append((f32(1) / (g * period)) * (f32(1) - keep) + (f32(1) / period) * keep)
    return result


def scale_of(g, mscale):
    return 1.0 if g <= 1 else 0.1 * mscale * log(g) + 1


SHORT = [1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.25, 1.5]
LONG = [1.0, 1.5, 2.25, 4.5, 9.0, 18.0, 30.5, 48.0]


def longrope(factors):
    inv = [f32(1) / (f32(x) * p) for x, p in zip(factors, periods(16, 1e4), strict=True)]
    return inv, f32(math.sqrt(1 + log(32.0) / log(4096.0)))


def plain(dim, theta):
    return [f32(1) / p for p in periods(dim, theta)]


VARIANTS = {
    "default": lambda: (plain(16, 1e4), f32(1)),
    "linear": lambda: ([x / f32(4) for x in plain(16, 1e4)], f32(1)),
    "llama3": lambda: ([llama3(x, 8, 1, 4, 8192) for x in plain(16, 5e5)], f32(1)),
    "yarn": lambda: (yarn(periods(16, 1e6), 1e6, 32, 4096, True), f32(scale_of(32.0, 1.0))),
    "yarn scaled": lambda: (
        yarn(periods(16, 1e4), 1e4, 40, 4096, False),
        f32(scale_of(40.0, float(f32(0.707))) / scale_of(40.0, 1.0)),
    ),
    "longrope long": lambda: longrope(LONG),
    "longrope short": lambda: longrope(SHORT),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_rotary_table_from_the_text(name):
    inv, factor = VARIANTS[name]()
    digest = hashlib.sha256(np.array(inv, "<f4").tobytes())
    for position in range(512):
        pairs = [sincos(float(f32(position) * x)) for x in inv]
        digest.update(np.array([f32(c) * factor for _, c in pairs], "<f4").tobytes())
        digest.update(np.array([f32(s) * factor for s, _ in pairs], "<f4").tobytes())
    frozen = re.search(rf'{{"{name}",.*?"([0-9a-f]{{64}})"', DIGESTS.read_text(), re.DOTALL)
    assert frozen and digest.hexdigest() == frozen[1]


def test_reduction_of_a_huge_argument():
    # The binary64 number closest to a multiple of pi/2, against exact arithmetic on 2/pi.
    x = 6381956970095103.0 * 2.0**797
    turns = Fraction(TWO_OVER_PI, 2**1216) * Fraction(x)
    rest = turns - round(turns)
    _, cosine = sincos(x)
    assert abs(Fraction(cosine)) - abs(rest) * Fraction(PI) / 2 < Fraction(1, 2**110)
    assert struct.pack("<d", sincos(-0.0)[0]) == struct.pack("<d", -0.0)

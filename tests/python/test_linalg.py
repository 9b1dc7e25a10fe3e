# SPDX-License-Identifier: Apache-2.0
"""isobit.linalg: the bits of DOT, numbers in fewer bits, and what is refused."""

import numpy as np
import pytest
from support.bits import same
from support.checkpoints import to_bfloat16
from support.contract import dot
from support.refusals import refuses

import isobit
from isobit import linalg, lowbit


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (3, 5, 7), (13, 33, 300), (2, 70, 1025), (40, 2, 256)])
def test_matmul_is_the_contracts_dot(m, n, k):
    a, b = draw(m, k), draw(n, k, seed=1)
    expected = dot(a[:, None, :], b[None, :, :])
    assert same(linalg.matmul(a, b, transpose_b=True), expected)
    assert same(linalg.matmul(a, np.ascontiguousarray(b.T)), expected)
    assert same(linalg.matmul(np.ascontiguousarray(a.T), b.T.copy(), True), expected)
    assert same(linalg.matmul(a.T, b, transpose_a=True, transpose_b=True), expected)
    assert same(linalg.matmul(isobit.Array.from_buffer(a), b.T), expected)
    threads = isobit.num_threads()
    try:
        for count in (1, 3):
            isobit.set_num_threads(count)
            assert same(linalg.matmul(a, b.T), expected)
    finally:
        isobit.set_num_threads(threads)


def test_rows_and_columns_do_not_see_each_other():
    a, b = draw(17, 600), draw(600, 90, seed=2)
    whole = np.asarray(linalg.matmul(a, b))
    assert same(linalg.matmul(a[3:4], b), whole[3:4])
    assert same(linalg.matmul(a, b[:, 40:41]), whole[:, 40:41])
    order = np.random.default_rng(1).permutation(17)
    assert same(linalg.matmul(a[order], b), whole[order])


def test_empty_extents():
    assert np.asarray(linalg.matmul(draw(0, 3), draw(3, 2))).shape == (0, 2)
    assert np.asarray(linalg.matmul(draw(4, 3), draw(3, 0))).shape == (4, 0)
    assert same(linalg.matmul(draw(2, 0), draw(0, 3)), np.zeros((2, 3), np.float32))


def test_packed_operands_count_as_what_they_widen_to():
    a, w = draw(5, 70), draw(9, 70, seed=3)
    for fmt in ("bfloat16", "int8"):
        packed = lowbit.pack_one(w, fmt)
        wide = lowbit.materialize_one(packed)
        assert same(linalg.matmul(a, packed, transpose_b=True), linalg.matmul(a, wide, transpose_b=True))
        assert same(linalg.matmul(packed, a, transpose_b=True), linalg.matmul(wide, a, transpose_b=True))


def test_out():
    a, b = draw(6, 6), draw(6, 6, seed=4)
    expected = np.asarray(linalg.matmul(a, b))
    out = np.full((6, 6), 7, np.float32)
    assert linalg.matmul(a, b, out=out) is out and same(out, expected)
    own = a.copy()
    assert linalg.matmul(own, b, out=own) is own and same(own, expected)
    a[2, 3] = np.nan
    with refuses(ValueError, "[linalg.matmul] a", "finite"):
        linalg.matmul(a, b, out=out)
    assert same(out, expected)
    frozen = np.zeros((6, 6), np.float32)
    frozen.flags.writeable = False
    for bad in (np.zeros((6, 5), np.float32), np.zeros((6, 6), np.float32, order="F"), frozen):
        with refuses(ValueError, "[linalg.matmul] out", "row-major", "(6, 6)"):
            linalg.matmul(b, b, out=bad)
    with refuses(TypeError, "[linalg.matmul] out", "float32"):
        linalg.matmul(b, b, out=np.zeros((6, 6)))


def test_matmul_refusals():
    a = draw(2, 3)
    with refuses(TypeError, "[linalg.matmul] a", "float32", "F64"):
        linalg.matmul(a.astype(np.float64), a.T)
    with refuses(ValueError, "[linalg.matmul] b", "rank 2", "(3,)"):
        linalg.matmul(a, a[0])
    with refuses(ValueError, "[linalg.matmul] b", "3", "2"):
        linalg.matmul(a, a)
    with refuses(ValueError, "[linalg.matmul] b", "finite"):
        linalg.matmul(a, np.full((3, 2), np.inf, np.float32))
    with refuses(ValueError, "[linalg.matmul] result", "overflow"):
        linalg.matmul(np.full((1, 2), 3e38, np.float32), np.full((2, 1), 3e38, np.float32))
    with refuses(TypeError, "[linalg.matmul] a"):
        linalg.matmul(3, a)


def test_bf16():
    x = draw(4, 5, 6) * np.float32(2.0**-130)
    bits = linalg.to_bf16(x)
    assert np.array_equal(np.asarray(bits), to_bfloat16(x))
    assert same(linalg.from_bf16(bits), (to_bfloat16(x).astype(np.uint32) << 16).view(np.float32))
    patterns = np.arange(65536, dtype=np.uint16)
    wide = np.asarray(linalg.from_bf16(patterns))
    assert np.array_equal(wide.view(np.uint32), patterns.astype(np.uint32) << 16)
    finite = np.isfinite(wide)
    assert np.array_equal(np.asarray(linalg.to_bf16(wide[finite])), patterns[finite])
    with refuses(ValueError, "[linalg.to_bf16] x", "finite"):
        linalg.to_bf16(np.float32([np.nan]))
    with refuses(TypeError, "[linalg.from_bf16] bits", "uint16"):
        linalg.from_bf16(x)


def test_int8():
    x = draw(7, 40) * np.exp2(np.arange(-60, 80, 20)).astype(np.float32)[:, None]
    codes, exponents = linalg.quantize_int8(x)
    weight = lowbit.pack_one(x, "int8")
    assert same(codes, weight.codes) and same(exponents, weight.exponents)
    wide = np.asarray(linalg.dequantize_int8(codes, exponents))
    assert same(wide, lowbit.materialize_one(weight))
    assert np.all(np.abs(wide - x) <= np.abs(x).max(axis=1, keepdims=True) / 127)
    with refuses(ValueError, "[linalg.quantize_int8] x", "finite", "row 2"):
        linalg.quantize_int8(np.where(np.arange(7)[:, None] == 2, np.float32(np.inf), x))
    with refuses(ValueError, "[linalg.quantize_int8] x", "rank 2"):
        linalg.quantize_int8(x[0])
    with refuses(ValueError, "[linalg.dequantize_int8] exponents", "-155..121"):
        linalg.dequantize_int8(codes, np.full(7, 122, np.int32))


def int15_codes(x):
    """Codes and exponents in binary64, where every step but the rounding is exact."""
    top = np.abs(x).max(axis=1).astype(np.float64)
    e = np.where(top > 0, np.floor(np.log2(np.where(top > 0, top, 1))) - 13, 0).astype(np.int64)
    codes = np.clip(np.rint(x.astype(np.float64) * np.exp2(-e.astype(np.float64))[:, None]), -16383, 16383)
    return codes.astype(np.int64), e


def test_int15_codes():
    x = draw(9, 50) * np.exp2(np.arange(-126, 126, 28)).astype(np.float32)[:, None]
    x[4] = 0
    x[5, 3] = np.float32(2) ** -149
    hi, lo, exponents = linalg.quantize_int15(x)
    codes, e = int15_codes(x)
    assert np.array_equal(128 * np.asarray(hi).astype(np.int64) + np.asarray(lo), codes)
    assert np.asarray(lo).min() >= 0 and np.array_equal(np.asarray(exponents), e)
    assert (np.asarray(hi).dtype, np.asarray(lo).dtype) == (np.int8, np.int8)
    wide = linalg.dequantize_int15(hi, lo, exponents)
    assert same(wide, (codes * np.exp2(e.astype(np.float64))[:, None]).astype(np.float32))
    again = linalg.quantize_int15(wide)
    assert all(same(p, q) for p, q in zip(again, (hi, lo, exponents), strict=True))
    every = np.arange(-16383, 16384, dtype=np.int16)[None]
    planes = (np.floor_divide(every, 128).astype(np.int8), (every % 128).astype(np.int8))
    assert same(linalg.dequantize_int15(*planes, np.int32([0])), every.astype(np.float32))


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (3, 5, 7), (33, 70, 300), (2, 3, 65536)])
def test_matmul_int15(m, n, k):
    a, b = draw(m, k), draw(n, k, seed=5)
    codes_a, e_a = int15_codes(a)
    codes_b, e_b = int15_codes(b)
    sums = (codes_a @ codes_b.T).astype(np.float32).astype(np.float64)
    expected = (sums * np.exp2((e_a[:, None] + e_b[None]).astype(np.float64))).astype(np.float32)
    triple = linalg.quantize_int15(b)
    for right in (b, triple):
        assert same(linalg.matmul_int15(a, right), expected)
        assert same(linalg.matmul_int15(linalg.quantize_int15(a), right), expected)
    out = np.zeros((m, n), np.float32)
    assert linalg.matmul_int15(a, triple, out=out) is out and same(out, expected)
    for isa in isobit.available_isas():
        used = isobit.active_isa()
        isobit.set_isa(isa)
        assert same(linalg.matmul_int15(a, triple), expected)
        isobit.set_isa(used)


def test_int15_refusals():
    x = draw(2, 3)
    hi, lo, exponents = (np.array(p) for p in linalg.quantize_int15(x))
    with refuses(ValueError, "[linalg.quantize_int15] x", "finite"):
        linalg.quantize_int15(np.float32([[np.inf]]))
    with refuses(TypeError, "[linalg.quantize_int15] x", "float32"):
        linalg.quantize_int15(x.astype(np.float64))
    with refuses(ValueError, "[linalg.dequantize_int15] x lo", "0..127", "-1"):
        linalg.dequantize_int15(hi, lo * 0 - 1, exponents)
    with refuses(ValueError, "[linalg.dequantize_int15] x codes", "-16383..16383", "-16384"):
        linalg.dequantize_int15(np.full_like(hi, -128), lo * 0, exponents)
    for e in (-163, 115):
        with refuses(ValueError, "[linalg.dequantize_int15] x exponents", "-162..114", str(e)):
            linalg.dequantize_int15(hi, lo, exponents * 0 + np.int32(e))
    with refuses(ValueError, "[linalg.dequantize_int15] x codes", "float32", "1 * 2^-160"):
        linalg.dequantize_int15(hi * 0, lo * 0 + 1, exponents * 0 - 160)
    with refuses(ValueError, "[linalg.dequantize_int15] x exponents", "2 rows"):
        linalg.dequantize_int15(hi, lo, exponents[:1])
    with refuses(ValueError, "[linalg.dequantize_int15] x lo", "(2, 3)"):
        linalg.dequantize_int15(hi, lo[:, :2], exponents)
    with refuses(ValueError, "[linalg.matmul_int15] b", "3 columns", "2"):
        linalg.matmul_int15(x, draw(4, 2))
    with refuses(ValueError, "[linalg.matmul_int15] a", "(hi, lo, exponents)", "tuple of 2"):
        linalg.matmul_int15((hi, lo), x)
    with refuses(ValueError, "[linalg.matmul_int15] a", "65536", "65537"):
        linalg.matmul_int15(np.ones((1, 65537), np.float32), np.ones((1, 65537), np.float32))
    with refuses(ValueError, "[linalg.matmul_int15] result", "overflow"):
        linalg.matmul_int15(np.full((1, 1), 3e38, np.float32), np.full((1, 1), 3e38, np.float32))
    for bad, error in ((np.zeros((2, 3), np.float32), ValueError), (np.zeros((2, 2)), TypeError)):
        with refuses(error, "[linalg.matmul_int15] out"):
            linalg.matmul_int15(x, x, out=bad)

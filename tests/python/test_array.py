# SPDX-License-Identifier: Apache-2.0
"""isobit.Array: memory, shapes, element types, and the ways to NumPy, PyTorch and plain Python."""

import array
import copy
import hashlib
import math
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import refuses

import isobit
from isobit import Array

DTYPES = {
    "f4": np.float32,
    "f8": np.float64,
    "i4": np.int32,
    "i8": np.int64,
    "u4": np.uint32,
    "u1": np.uint8,
    "f2": np.float16,
    "u2": np.uint16,
    "i1": np.int8,
}


@pytest.mark.parametrize("code", DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_sees_the_same_memory(code, order):
    a = Array.zeros((2, 3), code, order)
    n = np.asarray(a)
    assert n.dtype == DTYPES[code] and n.shape == (2, 3) and n.strides == a.strides
    n[1, 2] = 7
    assert a[1, 2] == 7 and a.tolist() == [[0, 0, 0], [0, 0, 7]]
    assert a.itemsize == n.itemsize and a.nbytes == n.nbytes and a.size == 6 and a.ndim == 2
    assert a.order == order and a.dtype == code
    assert a.__array_interface__["data"] == (n.ctypes.data, False)
    assert a.__array_interface__["typestr"] == n.dtype.str and a.__array_interface__["version"] == 3


def test_new_memory_is_aligned():
    for n in range(1, 40):
        assert Array.empty(n, "u1").__array_interface__["data"][0] % 64 == 0


def test_names_of_element_types():
    names = ("f4", "<f4", "float32", np.float32, np.dtype("f4"))
    assert {Array.zeros(1, name).dtype for name in names} == {"f4"}
    for name in ("c8", "f16", ">f4", "bfloat16"):
        with refuses(TypeError, "[Array] dtype", "f4, f8", name):
            Array.zeros(1, name)
    with refuses(TypeError, "[Array] dtype", "int"):
        Array.zeros(1, 4)


def test_constructors():
    assert Array.full((2,), 3, "u1").tolist() == [3, 3]
    assert Array.full((), 2.5).tolist() == 2.5
    assert Array.from_list([[1, 2], [3, 4]]).dtype == "i8"
    assert Array.from_list([[1, 2], [3, 4.5]]).dtype == "f8"
    assert Array.from_list([], "f4").shape == (0,)
    assert Array.from_list((1, np.int64(2)), "i4").tolist() == [1, 2]
    assert Array.frombytes(struct.pack("<4h", 1, -1, 2, 3)[:8], "u2", (2, 2)).tolist() == [[1, 65535], [2, 3]]
    assert Array.frombytes(bytes(range(6)), "u1", (2, 3), "F").tolist() == [[0, 2, 4], [1, 3, 5]]
    assert Array.zeros(3).shape == (3,)
    assert Array.zeros([0, 5]).tolist() == []
    with pytest.raises(TypeError):
        Array()


def test_refused_shapes_and_values():
    with refuses(ValueError, "[Array] shape", "(2, -1)"):
        Array.zeros((2, -1))
    with refuses(ValueError, "[Array] shape", "2**63"):
        Array.zeros((2**62, 2**62))
    with refuses(ValueError, "[Array] shape", "2**63"):
        Array.zeros((2**61, 2), "f8")
    with pytest.raises(MemoryError):
        Array.zeros(2**55)
    with refuses(TypeError, "[Array] shape", "bool"):
        Array.zeros((True,))
    with refuses(ValueError, "[Array] order", "'X'"):
        Array.zeros(2, "f4", "X")
    with refuses(ValueError, "300", "u1"):
        Array.full(2, 300, "u1")
    with refuses(ValueError, "2.5", "i4"):
        Array.full(2, 2.5, "i4")
    with refuses(TypeError, "values", "bool"):
        Array.from_list([True])
    with refuses(TypeError, "values", "str"):
        Array.from_list(["1"])
    with refuses(ValueError, "[Array.from_list]", "equal length"):
        Array.from_list([[1], [2, 3]])
    with refuses(ValueError, "[Array.from_list]", "equal length"):
        Array.from_list([[1], 2])
    with refuses(ValueError, "[Array.from_list]", "equal length"):
        Array.from_list([1, [2]])
    endless = []
    endless.append(endless)
    with refuses(ValueError, "[Array.from_list]", "64 axes"):
        Array.from_list(endless)
    with refuses(ValueError, "[Array.frombytes]", "multiple of 4 bytes", "7"):
        Array.frombytes(b"1234567", "f4")
    with refuses(ValueError, "[Array.frombytes] shape", "2 elements", "(3,)"):
        Array.frombytes(b"12345678", "f4", 3)


def test_from_buffer_shares_memory():
    data = array.array("f", [1, 2, 3, 4])
    a = Array.from_buffer(data)
    data[0] = 9
    assert a.tolist() == [9, 2, 3, 4] and not a.flags["OWNDATA"]
    assert Array.from_buffer(bytes(8), "f4").shape == (2,)
    assert Array.from_buffer(data, shape=(2, 2)).tolist() == [[9, 2], [3, 4]]
    columns = Array.from_buffer(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert columns.order == "F" and columns.tolist() == [[0, 1, 2], [3, 4, 5]]
    with refuses(ValueError, "[Array.from_buffer]", "contiguous"):
        Array.from_buffer(np.zeros((4, 4))[:, ::2])
    with refuses(TypeError, "[Array.from_buffer]", "'>f'"):
        Array.from_buffer(np.zeros(2, ">f4"))
    with refuses(TypeError, "[Array.from_buffer]", "BOOL"):
        Array.from_buffer(np.zeros(2, bool))
    with refuses(TypeError, "[Array.from_buffer]", "list"):
        Array.from_buffer([1.0])


def test_memory_outlives_its_owner():
    a = Array.from_buffer(np.arange(5, dtype=np.float32))
    part = a[1:4]
    del a
    view = memoryview(part)
    n = np.asarray(part)
    del part
    assert view.tolist() == [1, 2, 3] and n.tolist() == [1, 2, 3]


def test_array_interface_is_read():
    class OnlyInterface:
        def __init__(self, values, **change):
            self.values = values
            self.__array_interface__ = dict(values.__array_interface__) | change

    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = Array.from_buffer(OnlyInterface(values))
    values[0, 0] = 5
    assert a.tolist() == [[5, 1, 2], [3, 4, 5]]
    assert Array.from_buffer(OnlyInterface(values.T)).tolist() == values.T.tolist()
    for change in ({"typestr": ">f4"}, {"typestr": "|V4"}, {"data": None}, {"strides": (4,)}):
        with refuses(TypeError, "[Array.from_buffer] buffer"):
            Array.from_buffer(OnlyInterface(values, **change))


def test_buffer_protocol():
    a = Array.from_list([[1, 2], [3, 4]], "i4")
    view = memoryview(a)
    assert view.format == "i" and view.shape == (2, 2) and not view.readonly and view.c_contiguous
    view[0, 1] = 9
    assert a[0, 1] == 9
    assert bytes(a) == a.tobytes() == struct.pack("<4i", 1, 9, 3, 4)
    columns = Array.frombytes(bytes(range(6)), "u1", (2, 3), "F")
    assert memoryview(columns).strides == (1, 2)
    assert columns.tobytes() == bytes([0, 2, 4, 1, 3, 5])
    with pytest.raises(BufferError, match="column-major"):
        hashlib.sha256(columns)  # asks for plain bytes
    assert hashlib.sha256(a).digest() == hashlib.sha256(a.tobytes()).digest()
    if sys.version_info >= (3, 12):
        plain = a.__buffer__(0)  # a request without a shape
        assert plain.ndim == 1 and plain.nbytes == 16
    fixed = Array.from_buffer(bytes(4), "f4")
    assert memoryview(fixed).readonly and not fixed.flags["WRITEABLE"]
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(fixed)[0] = 1


def test_dlpack():
    torch = pytest.importorskip("torch")
    for order in ("C", "F"):
        a = Array.zeros((2, 3), "f4", order)
        t = torch.from_dlpack(a)
        t[1, 0] = 4
        assert a[1, 0] == 4 and tuple(t.shape) == (2, 3)
        assert np.from_dlpack(a).tolist() == a.tolist()
    assert a.__dlpack_device__() == (1, 0)
    source = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    b = Array.from_buffer(source)
    source[0, 0] = 8
    assert b.tolist() == [[8, 1, 2], [3, 4, 5]]
    np.asarray(b)[1, 2] = 9
    assert source[1, 2] == 9
    with refuses(ValueError, "[Array.from_buffer]", "contiguous"):
        Array.from_buffer(source[:, ::2])
    with refuses(TypeError, "[Array.from_buffer]", "BF16"):
        Array.from_buffer(source.bfloat16())
    with refuses(TypeError, "[Array.from_buffer]", "type"):
        Array.from_buffer(source.to(torch.complex64))
    with pytest.raises(ValueError, match="meta"):
        Array.from_buffer(torch.zeros(2, device="meta"))


def test_indexing():
    a = Array.from_list([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "i4")
    assert a[1, 0, 1] == 6 and a[-1, -1, -1] == 8 and isinstance(a[0, 0, 0], int)
    assert a[1].tolist() == [[5, 6], [7, 8]] and a[1, 1].tolist() == [7, 8]
    assert len(a) == 2 and [row.tolist() for row in a] == a.tolist()
    np.asarray(a[1])[0, 0] = 50
    assert a[1, 0, 0] == 50
    assert a[np.int64(1)].tolist() == a[1].tolist()
    columns = Array.frombytes(bytes(range(6)), "u1", (2, 3), "F")
    assert columns[1].tolist() == [1, 3, 5] and columns[1, 2] == 5
    for key in (2, -3, (0, 2), (0, 0, 0, 0)):
        with refuses(IndexError, "[Array] index"):
            a[key]
    for key in ("x", 1.0, True, (0, slice(1)), None):
        with refuses(TypeError, "[Array] index"):
            a[key]
    with refuses(IndexError, "[Array] index", "axes"):
        Array.zeros(())[0]
    with refuses(TypeError, "[Array] len"):
        len(Array.zeros(()))


@given(st.integers(0, 6), st.slices(6), st.sampled_from("CF"))
def test_slices(rows, key, order):
    n = np.arange(rows * 3, dtype=np.int32).reshape(rows, 3)
    a = Array.from_buffer(np.asarray(n, order=order))
    assert a[key].tolist() == n[key].tolist()


def test_reshape():
    a = Array.from_list(list(range(6)), "i4")
    assert a.reshape(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert a.reshape((3, -1)).shape == (3, 2) and a.reshape([6, 1]).shape == (6, 1)
    np.asarray(a.reshape(2, 3))[0, 0] = 9
    assert a[0] == 9
    columns = Array.frombytes(bytes(range(6)), "u1", (2, 3), "F")
    assert columns.reshape(-1).tolist() == [0, 2, 4, 1, 3, 5]
    assert Array.zeros((0, 3)).reshape(3, -1).shape == (3, 0)
    for shape in ((4,), (-1, -1), (5, -1), (-2, 3)):
        with refuses(ValueError, "shape"):
            a.reshape(shape)


def test_copy():
    a = Array.from_buffer(bytes(8), "f4")
    b = a.copy()
    np.asarray(b)[0] = 1
    assert a.tolist() == [0, 0] and b.tolist() == [1, 0]
    assert b.flags["OWNDATA"] and b.flags["WRITEABLE"]
    assert Array.from_list([[1, 2], [3, 4]]).copy("F").strides == (8, 16)
    assert copy.copy(b).tolist() == [1, 0] and copy.deepcopy([b])[0].tolist() == [1, 0]


NUMBERS = st.one_of(
    st.floats(), st.floats(width=16), st.floats(-1e-7, 1e-7), st.integers(-(2**63), 2**63 - 1).map(float)
)


@given(st.lists(NUMBERS, max_size=20), st.sampled_from(["f2", "f4", "f8"]))
def test_float_conversions_round_as_numpy_does(values, code):
    source = np.array(values, np.float64)
    with np.errstate(all="ignore"):
        right = source.astype(code)
    made = np.asarray(Array.from_buffer(source).astype(code))
    assert np.array_equal(made, right, equal_nan=True)
    assert np.array_equal(np.signbit(made), np.signbit(right))


def test_every_half_widens_exactly():
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    assert np.array_equal(
        np.asarray(Array.from_buffer(halves).astype("f4")), halves.astype("f4"), equal_nan=True
    )


def test_halfway_between_two_halves():
    halves = np.arange(0x7C01, dtype=np.uint16).view(np.float16).astype(np.float64)
    halves[-1] = 65536.0  # where the next one would be
    middle = (halves[:-1] + halves[1:]) / 2
    for source in (middle, np.nextafter(middle, 0), np.nextafter(middle, 1e9), -middle):
        with np.errstate(over="ignore"):
            right = source.astype("f2")
        made = np.asarray(Array.from_buffer(source).astype("f2"))
        assert np.array_equal(made.view("u2"), right.view("u2"))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), st.sampled_from(list(DTYPES)))
def test_integers_convert_exactly_or_not_at_all(values, code):
    source = np.array(values, np.int64)
    if code.startswith("f"):
        with np.errstate(all="ignore"):
            right = source.astype(code)
        assert np.array_equal(np.asarray(Array.from_buffer(source).astype(code)), right)
    elif all(np.iinfo(code).min <= v <= np.iinfo(code).max for v in values):
        assert Array.from_buffer(source).astype(code).tolist() == values
    else:
        with refuses(ValueError, "dtype", code, "out of range"):
            Array.from_buffer(source).astype(code)


@pytest.mark.parametrize("value", [0.5, math.nan, math.inf, -math.inf, 2.0**63, 2147483648.0])
def test_floats_that_are_no_integers(value):
    with refuses(ValueError, "dtype", "i4", "flat index 1"):
        Array.from_list([0.0, value]).astype("i4")
    assert Array.from_list([-3.0, 2147483647.0]).astype("i4").tolist() == [-3, 2147483647]


def test_reductions():
    a = Array.from_list([[1.5, -2.0], [4.0, 4.0]], "f4")
    assert (a.min(), a.max(), a.sum(), a.argmax()) == (-2.0, 4.0, 7.5, 2)
    columns = Array.frombytes(bytes([1, 9, 5, 5]), "u1", (2, 2), "F")
    assert columns.argmax() == 2 and columns.max() == 9
    assert Array.full(3, 2**62, "i8").sum() == 3 * 2**62
    assert Array.full(3, -(2**63), "i8").sum() == -3 * 2**63
    assert Array.zeros((0,)).sum() == 0.0
    with_nan = Array.from_list([1.0, math.nan, 3.0])
    assert math.isnan(with_nan.max()) and math.isnan(with_nan.min()) and with_nan.argmax() == 1
    for name in ("min", "max", "argmax"):
        with refuses(ValueError, f"[Array.{name}]", "at least one element"):
            getattr(Array.zeros((0,)), name)()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("order", ["C", "F"])
def test_pickle(protocol, order):
    a = Array.from_buffer(np.asarray(np.arange(6, dtype=np.float32).reshape(2, 3), order=order))
    b = pickle.loads(pickle.dumps(a, protocol))
    assert type(b) is Array and b.tolist() == a.tolist() and b.order == order and b.dtype == "f4"
    assert b.flags["WRITEABLE"]


def test_pickle_out_of_band():
    a = Array.full((1000,), 3)
    buffers = []
    data = pickle.dumps(a, 5, buffer_callback=buffers.append)
    assert len(buffers) == 1 and len(data) < 300
    assert pickle.loads(data, buffers=buffers).tolist() == a.tolist()


def test_repr():
    assert repr(Array.from_list([1, 2])) == "isobit.Array(shape=(2,), dtype='i8', [1, 2])"
    assert repr(Array.zeros((3, 3))).endswith("[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ...])")


def test_works_without_numpy():
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "import isobit\n"
        "a = isobit.Array.from_list([[1.0, 2.0]], 'f4')\n"
        "assert memoryview(a).tolist() == [[1.0, 2.0]]\n"
        "assert not any(name.startswith('numpy.') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_process_functions():
    assert isobit.active_isa() in isobit.available_isas()
    assert isobit.available_isas()[-1] == "scalar"
    for isa in isobit.available_isas():
        isobit.set_isa(isa)
        assert isobit.active_isa() == isa
    with refuses(ValueError, "scalar", "mmx"):
        isobit.set_isa("mmx")
    isobit.set_num_threads(3)
    assert isobit.num_threads() == 3
    for n in (0, -1, 1025, 2**40):
        with refuses(ValueError, "1024"):
            isobit.set_num_threads(n)
    for n in (1.0, True, "2"):
        with refuses(TypeError, "n", type(n).__name__):
            isobit.set_num_threads(n)
    assert isobit.num_threads() == 3
    assert isobit.version() == isobit.__version__ and isobit.contract_version() == 1

# SPDX-License-Identifier: Apache-2.0
"""Memory and lists of other classes: exporters that leave fields away, say something wrong, or round."""

import ctypes
import platform

import numpy as np
import pytest
from support.bits import same
from support.blocks import case
from support.refusals import refuses

import isobit
from isobit import Array
from isobit.models import SafetensorsFile, write_safetensors

UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}


def test_ctypes_arrays_have_no_strides():
    flat = (ctypes.c_float * 3)(1.5, -2.0, 3.25)
    assert Array.from_buffer(flat).tolist() == [1.5, -2.0, 3.25]
    grid = ((ctypes.c_int32 * 3) * 2)((1, 2, 3), (4, 5, 6))
    assert Array.from_buffer(grid).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert Array.from_buffer(ctypes.c_double(2.5)).tolist() == 2.5
    assert Array.frombytes(flat, "f4").tolist() == [1.5, -2.0, 3.25]
    assert Array.from_buffer((ctypes.c_float * 0)()).shape == (0,)
    with refuses(TypeError, "[Array.from_buffer] buffer", "element type"):
        Array.from_buffer((ctypes.c_void_p * 2)())
    with refuses(TypeError, "[Array.from_buffer] buffer", "element type"):
        Array.from_buffer((ctypes.c_longdouble * 2)())


def test_ctypes_in_a_block_and_a_file(tmp_path):
    c = case()
    weights = c.weights()
    block = isobit.TransformerBlock(weights, **c.options)
    x = c.input(1, 3)
    foreign = np.ctypeslib.as_ctypes(np.ascontiguousarray(x))
    assert same(block.forward(foreign), block.forward(x))
    held = {name: np.ctypeslib.as_ctypes(np.ascontiguousarray(w)) for name, w in weights.items()}
    assert same(isobit.TransformerBlock(held, **c.options).forward(x), block.forward(x))
    write_safetensors(tmp_path / "a.safetensors", {"a": (ctypes.c_float * 2)(1, 2)})
    assert SafetensorsFile(tmp_path / "a.safetensors").read("a").tolist() == [1.0, 2.0]


class LongList(list):
    """Says that it is longer than it is."""

    def __len__(self):
        return 50


class ShortList(list):
    """Gives fewer items than it holds."""

    def __iter__(self):
        return iter(list.__getitem__(self, slice(0, 1)))


def test_lists_that_lie_about_their_length():
    assert Array.from_list(LongList([1, 2])).tolist() == [1, 2]
    assert Array.from_list([LongList([1, 2]), [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert Array.from_list(ShortList([1, 2])).tolist() == [1]
    with refuses(ValueError, "[Array.from_list] values", "ragged"):
        Array.from_list([[1, 2], ShortList([3, 4])])
    c = case()
    block = isobit.TransformerBlock(c.weights(), **c.options)
    x = c.input(1, 5)
    assert same(block.forward(x, lengths=LongList([5])), block.forward(x))


class Interface:
    def __init__(self, **fields):
        self.__array_interface__ = {
            "version": 3,
            "typestr": "<f4",
            "shape": (1,),
            "data": (8, True),
            **fields,
        }


@pytest.mark.parametrize(
    "fields",
    [
        {"typestr": None},
        {"typestr": 3},
        {"shape": None},
        {"shape": ("a",)},
        {"shape": [1]},
        {"strides": (4, 4)},
        {"strides": 4},
        {"data": None},
        {"data": ("x", True)},
        {"data": (8,)},
    ],
)
def test_malformed_array_interfaces(fields):
    with refuses(TypeError, "[Array.from_buffer] buffer"):
        Array.from_buffer(Interface(**fields))


def test_malformed_dlpack_devices():
    class Device:
        def __init__(self, device):
            self.device = device

        def __dlpack__(self, **_):
            raise AssertionError("the device is refused first")

        def __dlpack_device__(self):
            return self.device

    for device in (None, (1,), "ab", ("a", 0), [1, 0]):
        with refuses(TypeError, "[Array.from_buffer] buffer"):
            Array.from_buffer(Device(device))


@pytest.mark.skipif(platform.machine() not in UPWARD, reason="FE_UPWARD is not known here")
def test_array_rounds_as_the_library_does():
    values = [0.1, 0.2, 0.3, 1e-8, 16777217.0]

    def results():
        wide = Array.from_list(values, "f8")
        return [
            wide.astype("f4").tobytes(),
            wide.astype("f2").tobytes(),
            Array.from_list(values, "f4").tobytes(),
            Array.full(2, 0.1).tobytes(),
            np.float64(wide.sum()).tobytes(),
            np.float64(Array.from_list([2**62, 2**62, 2**62, 3]).sum()).tobytes(),
            Array.from_list([2**60 + 1], "i8").astype("f8").tobytes(),
            repr(wide),
        ]

    fenv = ctypes.CDLL("libm.so.6")
    nearest = results()
    before = fenv.fegetround()
    try:
        assert fenv.fesetround(UPWARD[platform.machine()]) == 0
        upward = results()
    finally:
        fenv.fesetround(before)
    assert upward == nearest

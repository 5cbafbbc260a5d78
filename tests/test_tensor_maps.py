"""The driver is asked to encode the right tensor map of a matrix: a stand-in writes down its arguments."""

import ctypes
import types

import ml_dtypes
import numpy as np
import pytest

from ptxsim.tensor_map import TensorMap
from sgemm_tutorial import ArgumentError, DeviceError, Kernel, gpu, operands
from sgemm_tutorial.compiler import Instance
from sgemm_tutorial.gpu import ENCODED, encode
from sgemm_tutorial.launch import Box, Division, Launch, Place


class Driver:
    """Encodes a map as the bytes 0 to 127, or fails."""

    def __init__(self, status=0):
        self.status = status

    def cuTensorMapEncodeTiled(self, place, *given):
        self.place, self.given = place.value, given
        ctypes.memmove(place.value, bytes(range(128)), 128)
        return self.status


def on_gpu(rows, columns, dtype=np.float16, place=0x7000_0000):
    """Return a stand-in with the parts of a CuPy array that count here."""
    array = types.SimpleNamespace(ndim=2, shape=(rows, columns), size=rows * columns, dtype=np.dtype(dtype))
    array.itemsize, array.data = array.dtype.itemsize, types.SimpleNamespace(ptr=place)
    return array


def test_what_the_driver_is_given():
    """Columns first, pitches in bytes, and the swizzle of 128 bytes; the place is a multiple of 64 bytes."""
    driver = Driver()
    encoded = encode(TensorMap(on_gpu(100, 72), 128, 64), driver)
    kind, rank, address, extents, pitches, box, steps, interleave, swizzle, _, fill = driver.given
    assert (kind.value, rank.value, address.value) == (6, 2, 0x7000_0000)
    assert [list(value) for value in (extents, pitches, box, steps)] == [[72, 100], [144], [64, 128], [1, 1]]
    assert (interleave.value, swizzle.value, fill.value) == (0, 3, 0)
    assert driver.place % 64 == 0
    assert encoded.dtype == ENCODED and encoded.tobytes() == bytes(range(128))


@pytest.mark.parametrize(("dtype", "columns", "number"), [(np.float32, 32, 7), (ml_dtypes.bfloat16, 64, 9)])
def test_other_types_have_other_numbers(dtype, columns, number):
    driver = Driver()
    encode(TensorMap(on_gpu(100, columns + 8, dtype), 128, columns), driver)
    kind, _, _, _, (pitch,), box, *_ = driver.given
    assert (kind.value, pitch, list(box)) == (number, (columns + 8) * np.dtype(dtype).itemsize, [columns, 128])


def test_a_launch_hands_maps_over_behind_the_arguments(monkeypatch):
    monkeypatch.setattr(gpu, "_driver", Driver)
    monkeypatch.setattr(gpu, "load", lambda instance: lambda *given: launches.append(given))
    monkeypatch.setattr(gpu, "_encode", lambda *what: encode(TensorMap(on_gpu(64, 64), *what[3:]), Driver()))
    A, B = on_gpu(8, 64), on_gpu(64, 64)
    problem = operands.Problem(8, 64, 64, np.float32(1), A, B, np.float32(0), "C", True, True)
    launches = []
    instance = Instance("probe", (), "probe", 384, (9, 0), 1024, True)
    boxes = Box("mapA", "A", 8, 64), Box("mapB", "B", 64, 64)
    kernel = Kernel("probe", "", {"THREADS": 384})
    launch = Launch(kernel, Place("sm_90", 132, 0), instance, (8, 64, 64), Division(5), boxes)
    gpu.launcher(launch, problem)()
    ((grid, block, values, shared),) = launches
    assert (grid, block, shared) == ((5,), (384,), 1024)
    assert values[:3] == (8, 64, 64) and values[7] == "C"
    assert [value.dtype for value in values[8:]] == [ENCODED, ENCODED]


def test_what_cannot_be_encoded():
    with pytest.raises(ArgumentError, match="float16 or float32"):
        encode(TensorMap(on_gpu(8, 16, np.float64), 8, 16), Driver())
    with pytest.raises(ArgumentError, match="multiple of 16 bytes"):
        encode(TensorMap(on_gpu(8, 64, place=0x7000_0008), 8, 64), Driver())
    with pytest.raises(DeviceError, match="error 1"):
        encode(TensorMap(on_gpu(8, 64), 8, 64), Driver(1))

"""cuBLASLt is asked for the right product, and what it offers is told apart. A stand-in answers for the library."""

import ctypes
import types

import cupy
import numpy as np
import pytest

from lab import cublaslt
from sgemm_tutorial import ArgumentError, DeviceError
from sgemm_tutorial.operands import FP16, FP32, FP64, Problem

N_HERE = 3  # algorithms that the stand-in offers: in FP32, on tensor cores, and one that failed


class Library:
    """Answers as the library does, and keeps what it was asked."""

    def __init__(self):
        self.made, self.destroyed, self.preferences, self.launched, self.status = [], [], {}, [], 0

    def __getattr__(self, name):
        if name.endswith("Create"):
            return lambda handle, *what: self._make(name, handle, what)
        if name.endswith("Destroy"):
            return lambda handle: self.destroyed.append(handle.value)
        raise AttributeError(name)

    def _make(self, name, handle, what):
        self.made.append((name, *(value.value for value in what)))
        handle._obj.value = len(self.made)
        return 0

    def cublasLtMatmulPreferenceSetAttribute(self, preference, attribute, value, size):
        assert size.value == ctypes.sizeof(value._obj)
        self.preferences[attribute.value] = value._obj.value
        return 0

    def cublasLtMatmulAlgoGetHeuristic(self, handle, operation, *rest):
        self.asked = [descriptor.value for descriptor in rest[:4]]
        number, found, count = rest[-3:]
        assert number.value == len(found)
        for i in range(N_HERE):
            found[i].algorithm[0] = i
            found[i].state = 15 * (i == 2)
        count._obj.value = N_HERE
        return self.status

    def cublasLtMatmulAlgoCapGetAttribute(self, algorithm, attribute, value, size, written):
        assert attribute.value == cublaslt.NUMERICAL
        value._obj.value = 0x0802_02 if algorithm._obj[0] else 0x0802_01
        return 0

    def cublasLtMatmulAlgoConfigGetAttribute(self, algorithm, attribute, value, size, written):
        value._obj.value = {0: 11, 1: 23, 6: 31, 2: 4}[attribute.value]
        return 0

    def cublasLtMatmul(self, *what):
        self.launched.append(what)
        return self.status

    def cublasLtGetStatusString(self, status):
        return b"it cannot"


@pytest.fixture
def library(monkeypatch):
    fake = Library()
    monkeypatch.setattr(cublaslt, "_library", lambda: fake)
    monkeypatch.setattr(cublaslt, "_handle", lambda device: ctypes.c_void_p(77))
    monkeypatch.setattr(cublaslt, "_workspace", lambda device: types.SimpleNamespace(ptr=4096))
    monkeypatch.setattr(cupy.cuda, "Device", lambda: types.SimpleNamespace(id=0))
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: types.SimpleNamespace(ptr=5))
    return fake


def problem(M=30, N=40, K=50, types_=FP32, on_gpu=True):
    at = (1 << 20, (2 << 20) + 16, (3 << 20) + 512)
    A, B, C = (
        types.SimpleNamespace(shape=shape, data=types.SimpleNamespace(ptr=where))
        for shape, where in zip(((M, K), (K, N), (M, N)), at, strict=True)
    )
    return Problem(M, N, K, np.float32(1.5), A, B, np.float32(0.5), C, False, on_gpu, types_)


def test_rows_are_its_columns(library):
    (candidate,) = cublaslt.candidates(problem())
    b, a, c = ((f"cublasLtMatrixLayout{'Create'}", 0, *size) for size in ((40, 50, 40), (50, 30, 50), (40, 30, 40)))
    assert library.made[:4] == [("cublasLtMatmulDescCreate", 68, 0), b, a, c]
    assert library.asked == [2, 3, 4, 4], "B first, then A, and C twice"
    assert library.preferences == {1: 32 * 2**20, 5: 16, 6: 256, 7: 256, 8: 256}
    assert candidate.text == "algorithm 11, tile 128x256, stages 8x3, split K 4"
    candidate.launch()
    ((handle, operation, alpha, B, _, A, _, beta, C, _, D, _, algorithm, space, size, stream),) = library.launched
    assert (handle.value, operation.value, A.value, stream.value) == (77, 1, 1 << 20, 5)
    assert (B.value, C.value, D.value) == ((2 << 20) + 16, (3 << 20) + 512, (3 << 20) + 512)
    assert [ctypes.c_float.from_address(scalar.value).value for scalar in (alpha, beta)] == [1.5, 0.5]
    assert (space.value, size.value) == (4096, 32 * 2**20) and algorithm._obj[0] == 0


def test_what_was_made_goes_with_the_last_candidate(library):
    found = cublaslt.candidates(problem())
    assert library.destroyed == [5], "of five, only the preference is no longer needed"
    del found
    assert sorted(library.destroyed) == [1, 2, 3, 4, 5]


def test_unaligned_rows_may_be_copied_first(library, monkeypatch):
    """The same algorithms are offered for 22's copies, and their launches copy."""
    own, copies = problem(types_=FP16), [types.SimpleNamespace(shape=shape) for shape in ((30, 64), (50, 40))]
    for copy, pointer in zip(copies, (4096, 8192), strict=True):
        copy.data = types.SimpleNamespace(ptr=pointer)
    made = own._replace(A=copies[0], B=copies[1])
    family, done = type(cublaslt.ANY_SHAPE.family), []
    monkeypatch.setattr(family, "fetchable", lambda self, of: (made, lambda: done.append(len(library.launched))))
    *plain, _, last = cublaslt.candidates(own)
    assert [of.text.endswith("after copies") for of in (*plain, last)] == [False, False, True]
    assert [of[1:] for of in library.made if "Layout" in of[0]][3:] == [
        (2, 40, 50, 40),
        (2, 50, 30, 64),
        (0, 40, 30, 40),
    ]
    last.launch()
    assert done == [0] and [pointer.value for pointer in library.launched[0][3:6:2]] == [8192, 4096]
    monkeypatch.setattr(family, "fetchable", lambda self, of: (of, None))
    assert len(cublaslt.candidates(own)) == 2, "nothing is to be copied"


def test_there_may_be_none(library):
    library.status = 15
    assert cublaslt.candidates(problem()) == []


def test_a_failure_is_said(library):
    (candidate,) = cublaslt.candidates(problem())
    library.status = 14
    with pytest.raises(DeviceError, match="cublasLtMatmul failed: it cannot"):
        candidate.launch()


@pytest.mark.parametrize("of", [{"types_": FP64}, {"on_gpu": False}])
def test_what_it_is_not_for(library, of):
    with pytest.raises(ArgumentError, match=r"problem: got FP.. on the .PU, needs FP32, FP16 or BF16 on a GPU"):
        cublaslt.candidates(problem(**of))


def test_a_missing_library_is_said(monkeypatch):
    def missing(name):
        raise cublaslt.DynamicLibNotFoundError(f"no lib{name}\nanywhere")

    monkeypatch.setattr(cublaslt.cublas, "version", lambda: "13.1.0")
    monkeypatch.setattr(cublaslt, "load_nvidia_dynamic_lib", missing)
    cublaslt._library.cache_clear()
    with pytest.raises(DeviceError, match=r"cuBLASLt does not load: pip install nvidia-cublas \(no libcublasLt\)"):
        cublaslt._library()


def test_tiles_and_stages_have_their_numbers():
    """They are cublasLt.h's: sorted by size, more or less."""
    known = {8: "16x32", 15: "64x64", 20: "128x128", 24: "256x128", 28: "96x128", 32: "128x192", 35: "256x32"}
    assert {number: cublaslt.TILES[number - 1] for number in known} == known
    assert {1: "16x1", 12: "32x6", 13: "64x1", 24: "128x6", 31: "8x3"}.items() <= cublaslt.STAGES.items()
    assert ctypes.sizeof(cublaslt._Found) == 96

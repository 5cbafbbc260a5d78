"""cuBLASLt is asked for the right product, and what it offers is told apart. A stand-in answers for the library."""

import ctypes
import types

import cupy
import numpy as np
import pytest

from lab.measure import cublaslt
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


class Array:
    """Stands for a CuPy array: it has a shape and a place, and keeps what is stored to its columns."""

    def __init__(self, shape, dtype=None):
        self.shape, self.size, self.stored = shape, shape[0] * shape[1], []
        self.data = types.SimpleNamespace(ptr=id(self) % 2**40 // 256 * 256)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, columns):
        return self, columns

    def __setitem__(self, columns, value):
        self.stored.append((columns, value))


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_a_product_of_unaligned_rows_may_be_padded(library, monkeypatch, beta):
    """K and N are rounded up, and the launch copies A and B before, and C back; with β, C is copied before, too."""
    done, back = [], []
    room = types.SimpleNamespace(
        zeros=Array,
        empty=Array,
        cuda=cupy.cuda,
        RawKernel=lambda source, name: (
            lambda grid, block, arguments: back.append((source, name, grid, block, arguments))
        ),
    )
    monkeypatch.setattr(cublaslt, "cupy", room)
    monkeypatch.setattr(
        cublaslt.any_shape, "padding", lambda of, copies: lambda: done.append((copies, len(library.launched)))
    )
    A, B, C = Array((30, 50)), Array((50, 41)), Array((30, 41))
    own = problem(types_=FP16)._replace(M=30, N=41, K=50, A=A, B=B, C=C, beta=np.float32(beta))
    *plain, _, last = cublaslt.candidates(own)
    assert [of.text.endswith("padded") for of in (*plain, last)] == [False, False, True]
    assert [of[1:] for of in library.made if "Layout" in of[0]][3:] == [
        (2, 48, 56, 64),  # Bᵀ: N and K, in rows of a whole line
        (2, 56, 30, 64),
        (0, 48, 30, 48),
    ]
    last.launch()
    ((copies, launched_before),) = done
    assert launched_before == 0 and {name: of.shape for name, of in copies.items()} == {"A": (30, 64), "B": (56, 64)}
    assert [pointer.value for pointer in library.launched[0][3:6:2]] == [copies[name].data.ptr for name in "BA"]
    ((source, name, grid, block, (wide, to, *extents)),) = back
    assert wide.shape == (30, 48) and to is C and extents == [48, 30, 41] and not C.stored
    assert (grid, block) == ((4, 1), (32, 8)) and f"void {name}(const unsigned int* from" in source
    assert wide.stored == ([((slice(None), slice(41)), C)] if beta else [])


@pytest.mark.parametrize(("N", "K", "copied"), [(40, 50, "AB"), (41, 48, "B")])
def test_only_what_must_be_is_padded(monkeypatch, N, K, copied):
    seen = []
    monkeypatch.setattr(cublaslt, "cupy", types.SimpleNamespace(zeros=Array, empty=Array, RawKernel=lambda *of: None))
    monkeypatch.setattr(cublaslt.any_shape, "padding", lambda of, copies: seen.extend(copies))
    own = problem(types_=FP16)._replace(N=N, K=K, A=Array((30, K)), B=Array((K, N)), C=Array((30, N)))
    padded, _, _ = cublaslt._padded(own)
    assert "".join(seen) == copied and padded.shape == (30, -(-N // 8) * 8, -(-K // 8) * 8)
    assert (padded.C is own.C) == (N % 8 == 0)


def test_the_quickest_takes_least_in_a_brief_look(library, monkeypatch):
    monkeypatch.setattr(cublaslt, "DeviceClock", lambda: None)
    monkeypatch.setattr(cublaslt, "candidates", lambda of: [cublaslt.Candidate(str(ms), ms) for ms in (3, 1, 2)])
    monkeypatch.setattr(cublaslt, "brief", lambda launch, clock: launch)
    best, offered = cublaslt.quickest(problem())
    assert (best.text, offered) == ("1", 3) and cublaslt.Quickest("x", FP16).launcher(problem()) == 1
    monkeypatch.setattr(cublaslt, "candidates", lambda of: [])
    assert cublaslt.quickest(problem()) == (None, 0)


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

"""Bad input is refused with one message that names the argument, what came and what is needed, before compilation."""

import decimal
import fractions
from types import SimpleNamespace

import numpy as np
import pytest

from sgemm_tutorial import (
    ArgumentError,
    DeviceError,
    compiler,
    find,
    gpu,
    operands,
    simulate,
)
from sgemm_tutorial import operands as operands_module
from sgemm_tutorial.launch import Division, Launch, Place

from .examples import floats


class FakeCupyArray:
    """A NumPy array that passes for CuPy's on a machine without a GPU."""

    def __init__(self, array):
        self.array, self.data = array, SimpleNamespace(ptr=array.ctypes.data)

    def __getattr__(self, name):
        return getattr(self.array, name)


@pytest.fixture
def fake_cupy(monkeypatch):
    """Let `arguments` take FakeCupyArray for CuPy's; return the function that makes one."""
    overlap = lambda one, other: np.may_share_memory(one.array, other.array)  # noqa: E731
    empty = lambda *what: FakeCupyArray(np.empty(*what))  # noqa: E731
    monkeypatch.setattr(
        operands_module, "cupy", SimpleNamespace(ndarray=FakeCupyArray, may_share_memory=overlap, empty=empty)
    )
    return FakeCupyArray


BUILD = compiler.build


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch):
    def refuse(*_):
        pytest.fail("something was compiled before the arguments were checked")

    for module in (compiler, gpu):
        monkeypatch.setattr(module, "build", refuse)


def message(*operands, **more):
    """Call a kernel and `simulate` with what they must refuse; return the message, which must be the same."""
    with pytest.raises(ArgumentError) as refused:
        find("01")(*operands, **more)
    with pytest.raises(ArgumentError) as refused_too:
        simulate(find("01"), *operands, **more)
    assert str(refused.value) == str(refused_too.value)
    error = refused.value
    assert isinstance(error, ValueError)
    assert str(error) == f"{error.argument}: got {error.got}, needs {error.needs}"
    return str(error)


A, B, C = floats(3, 4), floats(4, 5), floats(3, 5)


@pytest.mark.parametrize(
    ("operands", "text"),
    [
        ((A.astype(np.float64), B), "A: got dtype <f8, needs float32: A.astype(np.float32)"),
        ((A, B.astype(np.float16)), "B: got dtype <f2, needs float32: B.astype(np.float32)"),
        ((A, B.astype(int)), "B: got dtype <i8, needs float32: B.astype(np.float32)"),
        ((A.astype(">f4"), B), "A: got dtype >f4, needs float32: A.astype(np.float32)"),
        ((A, B, C.astype(complex)), "C: got dtype <c16, needs float32: C.astype(np.float32)"),
        ((A[0], B), "A: got 1 dimension(s), shape (4,), needs 2 dimensions, rows and columns"),
        ((A, B[None]), "B: got 3 dimension(s), shape (1, 4, 5), needs 2 dimensions, rows and columns"),
        ((A, B, C[0, 0, ...]), "C: got 0 dimension(s), shape (), needs 2 dimensions, rows and columns"),
        (
            (np.asfortranarray(A), B),
            "A: got Fortran (column-major) order, needs row-major contiguous memory: np.ascontiguousarray(A)",
        ),
        ((B.T, A.T), "A: got Fortran (column-major) order, needs row-major contiguous memory: np.ascontiguousarray(A)"),
        (
            (A, floats(4, 10)[:, ::2]),
            "B: got strides (40, 8), needs row-major contiguous memory: np.ascontiguousarray(B)",
        ),
        ((A, B, C[::-1]), "C: got strides (-20, 4), needs row-major contiguous memory: np.ascontiguousarray(C)"),
        ((A, floats(3, 5)), "B: got shape (3, 5), needs (4, N), as A is (3, 4)"),
        ((A, B, floats(5, 3)), "C: got shape (5, 3), needs (3, 5), as A is (3, 4) and B is (4, 5)"),
        ((A.tolist(), B), "A: got list, needs a CuPy array (GPU) or a NumPy array (simulator)"),
        ((A, None), "B: got NoneType, needs a CuPy array (GPU) or a NumPy array (simulator)"),
        ((A, B, 0), "C: got int, needs a CuPy array (GPU) or a NumPy array (simulator)"),
        ((A, B, None, 1.0, 0.5), "C: got none, needs an array of shape (3, 5), as beta is 0.5, not 0"),
        ((A, B, None, 1.0, float("nan")), "C: got none, needs an array of shape (3, 5), as beta is nan, not 0"),
        ((A, B, C, 1j), "alpha: got complex 1j, needs a real number"),
        ((A, B, C, 1.0, "0"), "beta: got str '0', needs a real number"),
        ((A, B, C, None), "alpha: got NoneType None, needs a real number"),
        ((A, B, C, np.ones(1)), "alpha: got ndarray array([1.]), needs a real number"),
        ((A, B, C, decimal.Decimal(1)), "alpha: got Decimal Decimal('1'), needs a real number"),
        (
            (np.broadcast_to(np.float32(0), (1, 2**31)), np.broadcast_to(np.float32(0), (2**31, 1))),
            "A: got strides (0, 0), needs row-major contiguous memory: np.ascontiguousarray(A)",
        ),
    ],
)
def test_refused(operands, text):
    assert message(*operands) == text


def test_too_many_rows():
    tall = np.empty((2**31, 0), np.float32)
    assert message(tall, floats(0, 5)) == "A: got shape (2147483648, 0), needs at most 2147483647 rows and columns"


def test_c_overlaps():
    memory = floats(100)
    a, b = memory[:16].reshape(4, 4), memory[16:32].reshape(4, 4)
    assert message(a, b, a) == "C: got memory shared with A, needs memory of its own"
    assert message(a, b, memory[30:46].reshape(4, 4)) == "C: got memory shared with B, needs memory of its own"
    operands.check(a, b, memory[32:48].reshape(4, 4), 1, 1)  # next to one another is fine
    operands.check(a, a, memory[32:48].reshape(4, 4), 1, 1)  # and A may be B


def test_c_cannot_be_written():
    locked = C.copy()
    locked.flags.writeable = False
    assert message(A, B, locked) == "C: got a read-only array, needs an array to write to: C.copy()"
    operands.check(np.broadcast_to(A, A.shape), B, C, 1, 1)  # A and B may be read-only


def test_numpy_and_cupy_do_not_mix(fake_cupy):
    gpu_A, gpu_B, gpu_C = fake_cupy(A), fake_cupy(B), fake_cupy(C)
    assert message(A, gpu_B) == "B: got a CuPy array, needs a NumPy array, as A is"
    assert message(gpu_A, B) == "B: got a NumPy array, needs a CuPy array, as A is"
    assert message(gpu_A, gpu_B, C) == "C: got a NumPy array, needs a CuPy array, as A is"
    assert message(A, B, gpu_C) == "C: got a CuPy array, needs a NumPy array, as A is"
    assert message(gpu_A, gpu_B, gpu_A) == "C: got shape (3, 4), needs (3, 5), as A is (3, 4) and B is (4, 5)"
    square = fake_cupy(floats(4, 4))
    assert message(square, square, square) == "C: got memory shared with A, needs memory of its own"


def test_the_simulator_takes_no_cupy_arrays(fake_cupy):
    with pytest.raises(ArgumentError, match=r"A: got a CuPy array, needs a NumPy array: A\.get\(\)"):
        simulate(find("01"), fake_cupy(A), fake_cupy(B))


@pytest.mark.parametrize(("name", "here", "needs"), [("01", (5, 2), r"6\.0"), ("11", (7, 0), r"8\.0")])
def test_a_gpu_that_is_too_old(fake_cupy, monkeypatch, name, here, needs):
    has = r"{}\.{}".format(*here)
    monkeypatch.setattr(gpu, "capability", lambda: here)
    monkeypatch.setattr(gpu, "place", lambda: Place("sm_{}{}".format(*here), 80, 0))
    with pytest.raises(
        DeviceError, match=rf"{name}_\w+: this GPU has compute capability {has}, the kernel needs {needs}"
    ):
        find(name)(fake_cupy(A), fake_cupy(B))


def test_a_gpu_that_cuda_13_does_not_know(fake_cupy, monkeypatch):
    monkeypatch.setattr(gpu, "capability", lambda: (7, 0))
    monkeypatch.setattr(gpu, "place", lambda: Place("sm_70", 80, 0))
    monkeypatch.setattr(gpu, "build", BUILD)
    with pytest.raises(
        ArgumentError, match=r"needs sm_75 or later with CUDA 13\.0; .* install the CUDA 12 extra: make CUDA=12"
    ):
        find("01")(fake_cupy(A), fake_cupy(B))


def test_no_gpu(fake_cupy, monkeypatch):
    monkeypatch.setattr(gpu, "available", lambda: False)
    with pytest.raises(DeviceError, match="no GPU: none is visible to CuPy; pass NumPy arrays to use the simulator"):
        find("01")(fake_cupy(A), fake_cupy(B))


def test_more_tiles_than_a_grid_holds(fake_cupy):
    flat = fake_cupy(np.empty((2**31 - 1, 0), np.float32))
    wide = fake_cupy(np.empty((0, 2**31 - 1), np.float32))
    problem = operands.Problem(
        2**31 - 1,
        2**31 - 1,
        0,
        np.float32(1),
        flat,
        wide,
        np.float32(0),
        SimpleNamespace(shape=(2**31 - 1, 2**31 - 1)),
        False,
        True,
    )
    naive = find("01")
    naive_division = Division(naive.grid(2**31 - 1, 2**31 - 1))
    with pytest.raises(ArgumentError, match=r"C: got shape .* tiles, needs at most 2147483647 tiles"):
        gpu.launcher(Launch(naive, Place(), naive.instance, (2**31 - 1,) * 2 + (0,), naive_division, ()), problem)


@pytest.mark.parametrize(
    "value",
    [
        2,
        0.5,
        True,
        np.float64(0.5),
        np.int8(3),
        np.array(0.25),
        np.float16(2),
        fractions.Fraction(1, 2),
        float("inf"),
        -0.0,
    ],
)
def test_scalars_of_all_kinds(value):
    problem = operands.check(A, B, C, value, value)
    for scalar in (problem.alpha, problem.beta):
        assert isinstance(scalar, np.float32)
        assert float(scalar) == float(value)


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(1e39, np.inf), (-1e39, -np.inf), (10**400, np.inf), (-(10**400), -np.inf), (0.1, np.float32(0.1)), (1e-46, 0.0)],
)
def test_scalars_are_rounded(value, rounded):
    problem = operands.check(A, B, C, value, value)
    assert problem.alpha == problem.beta == rounded


def test_a_nan_stays_one():
    assert np.isnan(operands.check(A, B, C, float("nan"), float("nan")).beta)


def test_what_a_back_end_gets():
    problem = operands.check(A, B, C, 2, 0.5)
    assert (problem.M, problem.N, problem.K, problem.on_gpu, problem.fresh_C) == (3, 5, 4, False, False)
    assert problem.C is C
    assert list(problem.arguments) == ["M", "N", "K", "alpha", "A", "B", "beta", "C"]
    assert all(isinstance(problem.arguments[name], np.int32) for name in "MNK")
    fresh = operands.check(A, B, None, 1, 0)
    assert fresh.fresh_C
    assert (fresh.C.shape, fresh.C.dtype, fresh.C.flags.c_contiguous) == ((3, 5), np.float32, True)


@pytest.mark.parametrize("shape", [(0, 0, 0), (0, 5, 4), (3, 0, 4), (3, 5, 0)])
def test_empty_matrices_are_valid(shape):
    M, N, K = shape
    problem = operands.check(floats(M, K), floats(K, N), floats(M, N), 1, 1)
    assert shape == (problem.M, problem.N, problem.K)


def test_subclasses_of_ndarray(monkeypatch):
    """NumPy's matrix, and an array mapped from a file, are arrays like others."""
    monkeypatch.undo()
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.asmatrix(A)
    assert np.array_equal(simulate(find("01"), matrix, B).C, simulate(find("01"), A, B).C)


def test_masked_and_unaligned_arrays_are_refused():
    good = np.ones((4, 4), np.float32)
    with pytest.raises(ArgumentError, match="A: got MaskedArray"):
        find("01")(np.ma.masked_array(good), good)
    unaligned = np.frombuffer(bytearray(65), np.uint8)[1:].view(np.float32).reshape(4, 4)
    with pytest.raises(ArgumentError, match=r"B: got memory not at a multiple of 4 bytes, needs .*B\.copy"):
        find("01")(good, unaligned)

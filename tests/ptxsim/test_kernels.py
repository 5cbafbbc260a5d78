"""Kernels in the style that people write, each against NumPy, in other orders too, and with a bug that is found."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import ptxsim

FOLDER = Path(__file__).parent / "kernels"
RECORDED = FOLDER / "h200.npz"
"""The arrays of the cases as an H200 left them; `record` writes them."""
APPROXIMATE = {"softmax": 1e-6, "n_body": 1e-6, "flash_attention": 1e-6}
"""Kernels that take an exponential or the reciprocal of a root, and how far results may be apart, of the largest."""
RANDOM = np.random.default_rng(29)
START = RANDOM.bit_generator.state


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


@dataclass
class Case:
    """A kernel's launch, the array that it should leave, and a bug: the text, its replacement, and the finding.

    The last is the kind of a fault, or "wrong".
    """

    grid: int | tuple
    block: int | tuple
    arguments: dict
    expected: dict
    bug: tuple
    tolerance: float = 1e-5
    name: str | None = None
    shared: int = 0
    variables: dict = field(default_factory=dict)


def reduction():
    x = floats(1000)
    arguments = {"in": x, "out": zeros(1), "n": np.int32(x.size)}
    return Case(3, 96, arguments, {"out": [x.sum(dtype=np.float64)]}, ("    __syncthreads();\n", "", "race"))


def scan():
    x = RANDOM.integers(-50, 50, 700).astype(np.int32)
    arguments = {"in": x, "out": zeros(700, dtype=np.int32), "state": zeros(6, dtype=np.int32)}
    arguments |= {"total": zeros(6, dtype=np.int32), "n": np.int32(700)}
    return Case(6, 128, arguments, {"out": np.cumsum(x)}, ("        __threadfence();\n        state", "state", "race"))


def histogram():
    x = RANDOM.integers(0, 40, 3000).astype(np.uint8)
    arguments = {"data": x, "bins": zeros(256, dtype=np.uint32), "n": np.int32(x.size)}
    bug = ("atomicAdd(&local[data[i]], 1u)", "++local[data[i]]", "race")
    return Case(4, 128, arguments, {"bins": np.bincount(x, minlength=256)}, bug)


def transpose():
    x = floats(70, 45)
    arguments = {"in": x, "out": zeros(45, 70), "width": np.int32(45), "height": np.int32(70)}
    bug = ("if (x < height && y + j < width)", "if (x < height)", "uninitialised")
    return Case((2, 3), (32, 8), arguments, {"out": x.T}, bug)


def softmax():
    x = floats(11, 75) * 30
    arguments = {"x": x, "y": zeros(11, 75), "rows": np.int32(11), "columns": np.int32(75)}
    exps = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    bug = ("sum = sum * expf(most - larger) + theirs", "sum = sum + theirs", "wrong")
    return Case(3, (32, 4), arguments, {"y": exps / exps.sum(1, keepdims=True)}, bug)


def layer_norm():
    x, gain, bias = floats(5, 200) * 3 + 1, floats(200), floats(200)
    arguments = {"x": x, "gain": gain, "bias": bias, "y": zeros(5, 200), "columns": np.int32(200)}
    wide = x.astype(np.float64)
    y = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * gain + bias
    bug = ("    block.sync();  // the scratch", "    // the scratch", "race")
    return Case(5, 128, arguments | {"epsilon": np.float32(1e-5)}, {"y": y}, bug, name="layer_norm")


def convolution():
    x, weights = floats(37, 50), floats(5, 5)
    arguments = {"in": x, "out": zeros(37, 50), "width": np.int32(50), "height": np.int32(37)}
    around = np.lib.stride_tricks.sliding_window_view(np.pad(x, 2), (5, 5)).astype(np.float64)
    bug = ("r < TILE + 2 * RADIUS", "r < TILE", "uninitialised")
    expected = {"out": np.einsum("yxrc,rc->yx", around, weights)}
    return Case((4, 3), (16, 16), arguments, expected, bug, variables={"weights": weights})


def n_body():
    bodies = np.abs(floats(128, 4))
    apart = bodies[None, :, :3].astype(np.float64) - bodies[:, None, :3]
    pull = (apart / ((apart**2).sum(2, keepdims=True) + 1e-2) ** 1.5 * bodies[None, :, 3:]).sum(1)
    arguments = {"bodies": bodies, "pulls": zeros(128, 3), "n": np.int32(128)}
    bug = ("sum);\n        __syncthreads();", "sum);", "race")
    return Case(2, 64, arguments, {"pulls": pull}, bug, shared=64 * 16, tolerance=1e-4)


def bitonic_sort():
    x = RANDOM.integers(-1000, 1000, (3, 128)).astype(np.int32)
    bug = ("            }\n            __syncthreads();", "                __syncthreads();\n            }", "race")
    return Case(3, 128, {"data": x.copy()}, {"data": np.sort(x)}, bug, shared=512)


def flash_attention():
    Q, K, V = (floats(2, 64, 16) for _ in range(3))
    scores = np.einsum("hqd,hkd->hqk", Q, K, dtype=np.float64) * 0.25 * 8
    weights = np.exp(scores - scores.max(2, keepdims=True))
    result = np.einsum("hqk,hkd->hqd", weights / weights.sum(2, keepdims=True), V)
    arguments = {"Q": Q, "K": K, "V": V, "O": zeros(2, 64, 16), "N": np.int32(64), "scale": np.float32(2)}
    bug = ("sums[d] *= shrink", "sums[d] *= 1.0f", "wrong")
    return Case((2, 2), 32, arguments, {"O": result}, bug, name="flash_attention<16, 32>", tolerance=1e-4)


def stencil():
    x = RANDOM.standard_normal((9, 12, 20))
    expected = np.zeros_like(x)
    sides = [np.roll(x, way, axis) for axis in range(3) for way in (-1, 1)]
    inside = (slice(1, -1),) * 3
    expected[inside] = (sum(sides) / 6 - x)[inside]
    arguments = {"in": x, "out": np.zeros_like(x), "nx": np.int32(20), "ny": np.int32(12), "nz": np.int32(9)}
    bug = ("z < nz - 1", "z < nz", "out of bounds")
    return Case((3, 3, 3), (8, 4, 4), arguments, {"out": expected}, bug, tolerance=1e-12)


def sparse_times_dense():
    A = np.where(RANDOM.random((21, 30)) < 0.2, floats(21, 30), np.float32(0))
    B, (rows, columns) = floats(30, 40), np.nonzero(A)
    starts = np.searchsorted(rows, np.arange(22)).astype(np.int32)
    arguments = {"starts": starts, "columns": columns.astype(np.int32), "values": A[rows, columns], "B": B}
    arguments |= {"C": zeros(21, 40), "rows": np.int32(21), "N": np.int32(40)}
    bug = ("if (row >= rows) return;", "if (row > rows) return;", "out of bounds")
    return Case(6, 128, arguments, {"C": A.astype(np.float64) @ B}, bug)


CASES = {
    make.__name__: make
    for make in (
        *(reduction, scan, histogram, transpose, softmax, layer_norm),
        *(convolution, n_body, bitonic_sort, flash_attention, stencil, sparse_times_dense),
    )
}


def case_of(name):
    """Return a kernel's case, which has the same numbers whenever it is made."""
    RANDOM.bit_generator.state = START
    return CASES[name]()


def run(case, source, orders=0):
    compiled = ptxsim.compile(source, case.name)
    return ptxsim.run(
        *compiled, case.grid, case.block, case.arguments, case.shared, orders=orders, variables=case.variables
    )


def is_right(case):
    return all(
        np.allclose(case.arguments[name], expected, rtol=case.tolerance, atol=case.tolerance)
        for name, expected in case.expected.items()
    )


def source_of(name):
    return (FOLDER / f"{name}.cu").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_it_is_right_in_every_order(name):
    case = case_of(name)
    assert not is_right(case)
    assert not run(case, source_of(name), orders=5).findings
    assert is_right(case)


@pytest.mark.parametrize("name", CASES)
def test_a_gpu_computed_the_same(name):
    case = case_of(name)
    run(case, source_of(name))
    with np.load(RECORDED) as recorded:
        for of in case.expected:
            ours, theirs = case.arguments[of], recorded[f"{name}.{of}"]
            if name in APPROXIMATE:  # PTX promises a bound on an instruction's error here, not its bits
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=APPROXIMATE[name] * np.abs(theirs).max())
            else:
                np.testing.assert_array_equal(ours.view(np.uint8), theirs.view(np.uint8))


@pytest.mark.parametrize("name", CASES)
def test_the_bug_is_found(name):
    case = case_of(name)
    old, new, kind = case.bug
    assert source_of(name).count(old) == 1
    buggy = source_of(name).replace(old, new)
    if kind == "wrong":
        run(case, buggy)
        assert not is_right(case)
        return
    with pytest.raises(ptxsim.SimulationFault) as caught:
        run(case, buggy, orders=1)
    assert caught.value.kind == kind


def test_every_file_has_a_case():
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(CASES)

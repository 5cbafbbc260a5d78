"""Judges a kernel's result against float64, element by element, with an a-priori error bound.

In float32, whatever the order of the sum and with or without fused multiply-adds,

    |C − C_ref| ≤ γ(K+2) · (|α||A||B| + |β||C|),   γ(n) = n·u / (1 − n·u),   u = 2⁻²⁴

(N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, §3.5), where K
roundings come from the sum, one from α and one from adding βC. Results below the normal range add
at most 2⁻¹⁵⁰ per operation. A kernel that keeps inside the bound is as right as float32 allows; one
wrong index exceeds it by orders of magnitude, and so does arithmetic in TF32.

The theorem holds in any precision; other types have another u:

- float64: 2⁻⁵², twice the unit roundoff. The reference is in float64 itself, so that it and the
  |A||B| of the bound may be off by γ(n) too: 2γ(n) / (1 − γ(n)), which is γ(n) with u doubled.
- float16 in, float32 out: 2⁻²³. The products are exact in float32, 11 bits times 11 bits, but PTX says
  neither in what order tensor cores add them nor how they round, only that it is done with at least single
  precision; they cut off where float32 rounds to nearest, which doubles u (PTX ISA, "wmma.mma"; M. Fasi,
  N. J. Higham, M. Mikaitis, S. Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ CS 7:e330, 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from . import gpu, operands
from .errors import ArgumentError, SimulationFault
from .kernel import Kernel
from .operands import FP16, FP32, FP64, Types, types_of
from .table import Table

ALIGNMENT = 512  # bytes: what CuPy aligns an allocation to
GUARD_ROWS = 128
GUARD_LIMITS = (1 << 12, 1 << 20)  # elements
GUARD_OF_INPUT = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}  # NaN, by bytes of an element
GUARD_OF_C = {4: 0x7FC5A3E1, 8: 0x7FF85A3E17C5A3E1}  # a NaN with bits that no arithmetic makes
EXTREMES = {FP32: (1e-42, -1e-45, 1e38, 1e-41), FP64: (1e-310, -5e-324, 1e300, 1e-309), FP16: (3e-6, -6e-8, 6e4, 1e-6)}
"""Of each type a subnormal number, the least one, a large one, and a factor that makes products vanish or turn
subnormal; those of FP16, exact in FP32, do neither."""


@dataclass(frozen=True, repr=False)
class CheckResult:
    """The verdict on one run of a kernel.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    M, N, K, alpha, beta, seed, shift, special
        As given to `check`.
    on_gpu : bool
        Whether it ran on the GPU, not simulated.
    worst_ratio : float
        Largest error as a fraction of its bound; infinity where one is finite and the other is not.
    worst_at : tuple of int or None
        Row and column of that element; None where there is no error at all.
    max_abs_error : float
        Largest absolute error among finite elements.
    wrong : int
        Elements whose error exceeds the bound.
    guards_intact : bool
        Whether A, B and the memory around all three matrices came out as they went in.
    fault : str
        What the simulator reported, if it stopped the kernel.
    """

    kernel: str
    M: int
    N: int
    K: int
    alpha: float
    beta: float
    seed: int
    shift: int
    special: bool
    on_gpu: bool
    worst_ratio: float = 0.0
    worst_at: tuple[int, int] | None = None
    max_abs_error: float = 0.0
    wrong: int = 0
    guards_intact: bool = True
    fault: str = ""

    @property
    def passed(self) -> bool:
        """Whether every element is within its bound and nothing else was touched."""
        return self.wrong == 0 and self.guards_intact and not self.fault

    def table(self) -> Table:
        """Return the verdict as a table of one row."""
        return _table([self], f"{self.kernel} against float64")

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


@dataclass(frozen=True, repr=False)
class SuiteResult:
    """The verdicts on all cases of a suite."""

    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether all cases passed."""
        return all(result.passed for result in self.results)

    def failures(self) -> SuiteResult:
        """Return the cases that did not pass."""
        return SuiteResult(tuple(result for result in self.results if not result.passed))

    def table(self) -> Table:
        """Return one row per case."""
        good = sum(result.passed for result in self.results)
        return _table(self.results, f"{self.results[0].kernel}: {good} of {len(self.results)} cases pass")

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def matrices(M: int, N: int, K: int, seed: int = 0, on_gpu: bool | None = None, types: Types = FP32) -> tuple[Any, Any]:
    """Return standard-normal A and B, the same values on any machine.

    Parameters
    ----------
    M, N, K : int
        A is M × K, B is K × N.
    seed : int
        Of NumPy's default generator.
    on_gpu : bool, optional
        CuPy arrays or NumPy arrays; CuPy where there is a GPU, unless given.
    types : Types
        Of a kernel that takes others than float32.

    Returns
    -------
    A, B : array of ``types.operand``
    """
    A, B, _ = _draw(M, N, K, seed, types)
    if not _where(on_gpu):
        return A, B
    with gpu.reported("copying A and B to the GPU"):
        return cupy.asarray(A), cupy.asarray(B)


def excess(got: Any, A: Any, B: Any, C: Any, alpha: float, beta: float) -> Any:
    """Return each element's error as a fraction of its bound: at most 1 is right.

    Parameters
    ----------
    got : array, shape (M, N)
        The result to judge: NumPy or CuPy, like the others, and judged where it lies.
    A, B, C : array, shapes (M, K), (K, N) and (M, N)
        What went in. C is not looked at where β = 0, nor A and B where α = 0. The dtype of A tells the `Types`.
    alpha, beta : float
        Exact in the type of the result.

    Returns
    -------
    array of float64, shape (M, N)
        Infinity where one of result and reference is finite and the other is not, or both are not
        and differ in kind (NaN, +∞, −∞). Where the result's type may overflow on the way, any
        non-finite result is as good as another.
    """
    return _compare(got, A, B, C, alpha, beta)[1]


def check(
    kernel: Kernel | Callable[..., Any],
    M: int,
    N: int,
    K: int,
    alpha: float = 1.0,
    beta: float = 0.0,
    seed: int = 0,
    on_gpu: bool | None = None,
    *,
    shift: int = 0,
    special: bool = False,
) -> CheckResult:
    """Run a kernel on random matrices and judge the result.

    A, B and C lie inside larger buffers: around A and B there are NaNs, so that reading past an edge
    shows, and around C a pattern that must survive. Where β = 0, C itself is NaN before the run, and
    where α = 0, A and B are: BLAS says they are not read.

    Parameters
    ----------
    kernel : Kernel or callable
        Anything that is called like a `Kernel`, for example `cublas.sgemm`; float32 unless it has `types`.
    M, N, K : int
        Sizes, 0 allowed.
    alpha, beta : float
        Rounded to the result's type.
    seed : int
        Of the random matrices.
    on_gpu : bool, optional
        On the GPU or simulated; on the GPU where there is one, unless given.
    shift : int
        Elements by which each matrix starts past a 512-byte boundary.
    special : bool
        Also put infinities, NaNs, zeros and subnormals into some rows of A and C and columns of B.

    Returns
    -------
    CheckResult
        A fault that the simulator reports is part of the verdict.

    Raises
    ------
    ArgumentError
        A size is negative, or K is past the bound's validity ((K + 2)·u < 1).
    DeviceError, CompileError, UnsupportedInstruction
        The kernel could not be run.
    """
    for name, size in (("M", M), ("N", N), ("K", K)):
        if size < 0:
            raise ArgumentError(name, str(size), "0 or more")
    types = getattr(kernel, "types", FP32)
    if (K + 2) * types.roundoff >= 1:
        raise ArgumentError("K", str(K), f"less than {int(1 / types.roundoff) - 2}, where the error bound still holds")
    on_gpu = _where(on_gpu)
    alpha, beta = (
        float(operands.scalar(name, value, types.result)) for name, value in (("alpha", alpha), ("beta", beta))
    )
    A, B, C = _draw(M, N, K, seed, types)
    if special:
        _make_special(A, B, C, seed)
    if alpha == 0:
        A[:], B[:] = np.nan, np.nan
    if beta == 0:
        C[:] = np.nan
    name = getattr(kernel, "name", None) or kernel.__name__
    settings = (name, M, N, K, alpha, beta, seed, shift, special, on_gpu)

    with gpu.reported(f"checking {name}"):
        inside_A = _Guarded(A, GUARD_OF_INPUT, shift, on_gpu)
        inside_B = _Guarded(B, GUARD_OF_INPUT, shift, on_gpu)
        inside_C = _Guarded(C, GUARD_OF_C, shift, on_gpu)
        try:
            kernel(inside_A.view, inside_B.view, inside_C.view, alpha, beta)
        except SimulationFault as fault:
            return CheckResult(*settings, fault=str(fault))
        got = inside_C.contents()
        intact = inside_A.intact(all_of_it=True) and inside_B.intact(all_of_it=True) and inside_C.intact()
    return _verdict(settings, got, (A, B, C, alpha, beta), intact)


def suite(kernel: Kernel, on_gpu: bool | None = None) -> SuiteResult:
    """Check a kernel on the sizes, scalars and values where kernels go wrong.

    Sizes 0 and 1, primes, tall, flat and deep shapes, multiples of the kernel's tile and one more or
    less; general and trivial α and β; matrices that start off a 16-byte boundary; infinities and NaNs.
    """
    return SuiteResult(tuple(check(kernel, on_gpu=on_gpu, **case) for case in cases(kernel)))


def summary(suites: Sequence[SuiteResult]) -> Table:
    """Return one row per suite."""
    rows = []
    for suite in suites:
        worst = max(suite.results, key=lambda result: result.worst_ratio)
        where = "GPU" if worst.on_gpu else "simulator"
        passed = sum(result.passed for result in suite.results)
        verdict = "passed" if suite.passed else "FAILED"
        rows.append((worst.kernel, where, len(suite.results), passed, worst.worst_ratio, verdict))
    return Table(("kernel", "ran on", "cases", "passed", "worst error / bound", "verdict"), rows)


def cases(kernel: Kernel) -> list[dict[str, Any]]:
    """Return the arguments of `check` for each case of the suite."""
    BM, BN = kernel.parameters["BM"], kernel.parameters["BN"]
    BK = kernel.parameters.get("BK", 8)
    shapes = [
        (0, 0, 0),
        (0, 5, 3),
        (5, 0, 3),
        (5, 3, 0),
        (1, 1, 1),
        (1, 1, 7),
        (1, 7, 1),
        (7, 1, 1),
        (37, 41, 43),
        (131, 3, 5),
        (3, 131, 5),
        (3, 5, 131),
        (BM, BN, BK),
        (BM + 1, BN + 1, BK + 1),
        (BM - 1, BN - 1, BK - 1),
        (2 * BM, 2 * BN, 2 * BK),
        (BM + 1, BN - 1, 2 * BK - 1),
        (BM - 1, 2 * BN + 1, 3 * BK + 1),
    ]
    shapes = list(dict.fromkeys(shapes))  # a small tile makes some of them the same
    scalars = ((1.0, 0.0), (-1.5, 0.75))
    listed = [_case(shape, *pair) for shape in shapes for pair in scalars]
    listed += [_case((37, 41, 43), *pair) for pair in ((1.0, 1.0), (0.0, 2.0), (0.0, 0.0), (0.1, -1e-3))]
    listed += [_case((BM, BN, 2 * BK), *pair, shift=1) for pair in scalars]
    listed += [_case((37, 41, 43), *pair, special=True) for pair in (*scalars, (0.0, 2.0))]
    return [case | {"seed": number} for number, case in enumerate(listed)]


def _case(shape: tuple[int, int, int], alpha: float, beta: float, **more: Any) -> dict[str, Any]:
    return dict(zip("MNK", shape, strict=True)) | {"alpha": alpha, "beta": beta} | more


def _where(on_gpu: bool | None) -> bool:
    """Return whether to use the GPU; raise DeviceError where it is asked for and missing."""
    if on_gpu is None:
        return gpu.available()
    if on_gpu:
        gpu.capability()
    return on_gpu


def _draw(M: int, N: int, K: int, seed: int, types: Types) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return standard-normal A, B and C, drawn in this order and in the result's type."""
    random = np.random.default_rng(seed)
    A, B, C = (random.standard_normal(shape, types.result) for shape in ((M, K), (K, N), (M, N)))
    return A.astype(types.operand, copy=False), B.astype(types.operand, copy=False), C


def _make_special(A: np.ndarray, B: np.ndarray, C: np.ndarray, seed: int) -> None:
    """Put special values into a few rows of A, columns of B and elements of C, and leave most finite."""
    random = np.random.default_rng([seed, 1])
    *values, least = EXTREMES[types_of(A.dtype)]
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, *values])
    for matrix in (A, B.T, C):
        if matrix.size:
            rows = random.permutation(len(matrix))[: values.size]
            matrix[rows, random.integers(matrix.shape[1], size=rows.size)] = values[: rows.size]
    if len(A) > 1:
        zero, tiny = random.permutation(len(A))[:2]
        A[zero] = 0.0
        A[tiny] *= A.dtype.type(least)


def guard_band(columns: int, width: int) -> tuple[int, int]:
    """Return the elements of a guard band, and where the matrix behind it begins: aligned as CuPy aligns memory.

    A band is as wide as `GUARD_ROWS` rows, so that a block that runs over an edge lands in it.

    Parameters
    ----------
    columns : int
        Of the matrix.
    width : int
        Bytes of an element.
    """
    band = min(max(GUARD_ROWS * columns, GUARD_LIMITS[0]), GUARD_LIMITS[1])
    return band, -(-band * width // ALIGNMENT) * ALIGNMENT // width


class _Guarded:
    """A matrix inside a larger buffer, on the host or on the GPU, with guard bands before and after it."""

    def __init__(self, matrix: np.ndarray, guards: dict[int, int], shift: int, on_gpu: bool) -> None:
        width = matrix.itemsize
        band, start = guard_band(matrix.shape[1], width)
        start += shift
        self.shape, self.place = matrix.shape, slice(start, start + matrix.size)
        self.before = np.full(start + matrix.size + band, guards[width], f"u{width}").view(matrix.dtype)
        self.before[self.place] = matrix.ravel()
        self.buffer = cupy.empty(self.before.size, matrix.dtype) if on_gpu else self.before.copy()
        if on_gpu:
            self.buffer.set(self.before)
        self.view = self.buffer[self.place].reshape(self.shape)
        """What the kernel is given."""

    def contents(self) -> np.ndarray:
        """Return a copy of the matrix as it is now, on the host."""
        return self._now()[self.place].reshape(self.shape).copy()

    def intact(self, all_of_it: bool = False) -> bool:
        """Whether the guards are bit for bit as they were; with `all_of_it`, the matrix too."""
        now, before = (memory.view(f"u{memory.itemsize}") for memory in (self._now(), self.before))
        if all_of_it:
            return np.array_equal(now, before)
        start, stop = self.place.start, self.place.stop
        return np.array_equal(now[:start], before[:start]) and np.array_equal(now[stop:], before[stop:])

    def _now(self) -> np.ndarray:
        return self.buffer if isinstance(self.buffer, np.ndarray) else self.buffer.get()


def _compare(
    got: np.ndarray, A: np.ndarray, B: np.ndarray, C: np.ndarray, alpha: float, beta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the absolute error of each element, and the error as a fraction of its bound (see `excess`)."""
    K = A.shape[1] if alpha != 0 else 0
    types = types_of(A.dtype)
    limits = np.finfo(types.result)
    n = (K + 2) * types.roundoff
    lost = float(limits.smallest_subnormal) * (types.roundoff / float(limits.eps))  # by an operation that underflows
    reference, product, rest = (np.zeros_like(got, dtype=np.float64) for _ in range(3))  # CuPy's if `got` is
    with np.errstate(all="ignore"):
        if K:
            wide_A, wide_B = A.astype(np.float64), B.astype(np.float64)
            reference += alpha * (wide_A @ wide_B)
            product += _finite_size(wide_A) @ _finite_size(wide_B)
        if beta != 0:
            wide_C = C.astype(np.float64)
            reference += beta * wide_C
            rest += abs(beta) * _finite_size(wide_C)
        magnitude = abs(alpha) * product + rest if K else rest
        bound = n / (1 - n) * magnitude + lost * (2 * K * abs(alpha) + 2)
        error = np.abs(got - reference)
        ratio = np.where(np.isfinite(error), error / bound, np.inf)

        alike = (got == reference) | (np.isnan(got) & np.isnan(reference))
        may_overflow = ~(np.maximum(magnitude, product) * (1 + n) <= float(limits.max))  # or is NaN
        excused = ~np.isfinite(got) & (may_overflow | alike)
    return error, np.where(excused, 0.0, ratio)


def _finite_size(matrix: np.ndarray) -> np.ndarray:
    """Return |matrix| with 0 for what is not finite."""
    return np.where(np.isfinite(matrix), np.abs(matrix), 0.0)


def _verdict(settings: tuple, got: np.ndarray, inputs: tuple, intact: bool) -> CheckResult:
    """Reduce the element-wise comparison to a result."""
    if not got.size:
        return CheckResult(*settings, guards_intact=intact)
    error, ratio = _compare(got, *inputs)
    worst = np.unravel_index(np.argmax(ratio), ratio.shape)
    return CheckResult(
        *settings,
        worst_ratio=float(ratio[worst]),
        worst_at=(int(worst[0]), int(worst[1])) if ratio[worst] > 0 else None,
        max_abs_error=float(np.max(error, where=np.isfinite(error), initial=0.0)),
        wrong=int(np.count_nonzero(~(ratio <= 1))),
        guards_intact=intact,
    )


def _table(results: Sequence[CheckResult], title: str) -> Table:
    """Return the results as a table, one row each."""
    columns = ("M", "N", "K", "α", "β", "inputs", "error / bound", "at", "wrong", "verdict")
    rows = [
        (
            *(result.M, result.N, result.K, f"{result.alpha:g}", f"{result.beta:g}"),
            "special values" if result.special else f"shifted by {result.shift}" if result.shift else "",
            result.worst_ratio,
            "" if result.worst_at is None else "{}, {}".format(*result.worst_at),
            result.wrong,
            _words(result),
        )
        for result in results
    ]
    where = "Run on the GPU" if results[0].on_gpu else "Simulated"
    return Table(columns, rows, title, f"{where}. The bound is γ(K+2)·(|α||A||B| + |β||C|), element by element.")


def _words(result: CheckResult) -> str:
    """Return the verdict in words."""
    if result.fault:
        return result.fault
    if result.wrong:
        return "wrong values"
    return "passed" if result.guards_intact else "wrote outside C"

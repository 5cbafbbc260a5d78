"""Judges a kernel's result against float64, element by element, with an a-priori error bound.

In float32, whatever the order of the sum and with or without fused multiply-adds::

    |C − C_ref| ≤ γ(K+2) · (|α||A||B| + |β||C|),   γ(n) = n·u / (1 − n·u),   u = 2⁻²⁴

(N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, §3.5), where K
roundings come from the sum, one from α and one from adding βC. Results below the normal range add
at most 2⁻¹⁵⁰ per operation. A kernel that keeps inside the bound is as right as float32 allows; one
wrong index exceeds it by orders of magnitude, and so does arithmetic in TF32.

The theorem holds in any precision; other types have another u:

- float64: 2⁻⁵², twice the unit roundoff. The reference is in float64 itself, so that it and the
  ``|A||B|`` of the bound may be off by γ(n) too: 2γ(n) / (1 − γ(n)), which is γ(n) with u doubled.
- float16 in, float32 out: 2⁻²³. The products are exact in float32, 11 bits times 11 bits, but PTX says
  neither in what order tensor cores add them nor how they round, only that it is done with at least single
  precision; they cut off where float32 rounds to nearest, which doubles u (PTX ISA, "wmma.mma"; M. Fasi,
  N. J. Higham, M. Mikaitis, S. Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ CS 7:e330, 2021).
- bfloat16 in, float32 out: 2⁻²³ too. 8 bits times 8 bits are exact all the more, within float32's range, and the rest
  is the same.
- a C of 16 bits: the sum as above, and one more rounding, by half a unit of the result or of the least subnormal one.
- sums in float16: 2⁻¹¹, which is its unit roundoff; beyond γ's validity nu, which holds for any n where each operation
  rounds to nearest (C.-P. Jeannerod, S. M. Rump, Improved error bounds for inner products in floating-point arithmetic,
  SIAM J. Matrix Anal. Appl. 34, 2013).
- sums in float16 on tensor cores: 2⁻¹³. PTX promises no more than half precision, one by one. In all GPUs so far an
  instruction adds four products or more at once and rounds their sum to nearest, by 2⁻¹¹: 2⁻¹³ for each product (Fasi
  et al.). Beyond float16's range any result is as good as another.
- products in 16 bits, sums in float32: each product is rounded once more, by h = 2⁻¹¹ in float16 and 2⁻⁸ in bfloat16 or
  half of the least subnormal number, before plain arithmetic adds it with u = 2⁻²⁴. The products differ by h|A||B|, and
  γ(K+2) is of the rounded ones: h + γ(1 + h) takes the place of γ, for the products alone.
- float32 split into two numbers of 11 bits: 2⁻²². A number and its parts differ by 2⁻²³ of it at most, and the product
  of two small parts, which is left out, is 2⁻²² of the whole at most: together 2⁻²¹, and tensor cores cut off what
  they add besides. For one product that is less than γ(3), for more each counts once and γ(K+2) for each. A number
  below 2⁻¹¹⁶ counts as that: TF32 has no bits below 2⁻¹³⁶.
"""

import dataclasses
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import cupy
import ml_dtypes
import numpy as np

from ptxsim import BUDGET, Counts
from sgemm_tutorial import compiler, gpu, operands, simulator
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.compiler import ARCHITECTURE
from sgemm_tutorial.errors import ArgumentError, DeviceError, SimulationFault
from sgemm_tutorial.inputs import draw
from sgemm_tutorial.kernel import TILES, Kernel
from sgemm_tutorial.launch import SIMULATOR, Family, Launch, trial
from sgemm_tutorial.operands import ALIGNMENT, BF16, FP16, FP32, FP64, IN_16_BITS, SPLIT, Problem, Types, natural
from sgemm_tutorial.table import Table, Tabular

IN_MEMORY = "/dev/shm"  # where Linux keeps files that take no disk, and so no time either
CHECKED = 24  # bytes of memory that a check takes at least, besides the matrices, for each of their elements
GUARD_ROWS = 128
GUARD_LIMITS = (1 << 12, 1 << 20)  # elements
GUARD_OF_INPUT = {2: 0x7FFF, 4: 0x7FC00000, 8: 0x7FF8000000000000}  # NaN, of any type of so many bytes
GUARD_OF_C = {2: 0x7FDB, 4: 0x7FC5A3E1, 8: 0x7FF85A3E17C5A3E1}  # a NaN with bits that no arithmetic makes
EXTREMES = {
    np.dtype(np.float32): (1e-42, -1e-45, 1e38, 1e-41),
    np.dtype(np.float64): (1e-310, -5e-324, 1e300, 1e-309),
    FP16.operand: (3e-6, -6e-8, 6e4, 1e-6),
    BF16.operand: (1e-39, -1e-40, 1e38, 1e-38),
}
"""Extreme elements of A and B: a subnormal number, the least one, a large one, and a factor that makes products vanish
or turn subnormal. Products of float16, exact in float32, do neither."""


@dataclass(frozen=True)
class Case:
    """A problem to check a kernel on.

    Attributes
    ----------
    M, N, K : int
        Sizes, 0 allowed.
    alpha, beta : float
        Rounded to the result's type.
    seed : int
        Of the random matrices.
    shift : int or three of them
        Elements by which each matrix, or A, B and C in turn, starts past a 512-byte boundary.
    special : bool
        Also put infinities, NaNs, zeros and subnormals into some rows of A and C and columns of B.
    last_tile : bool
        Compute the last tile of C alone, on the simulator. The matrices are files with holes, so that they may have
        more than 2³² elements; what the tile does not need is zero, and there are no guards.
    races : bool
        Also look for races in global memory, on the simulator, which takes two to six times as long. Races in shared
        memory are looked for in every case that is simulated.
    setting : sequence of int
        Template arguments in the source's order, T left out, for a kernel that would choose them.
    division : two of int, optional
        How many tiles have a block each, and how many blocks share the others, for a kernel that would choose that.
    budget : int
        Instructions that a thread may execute on the simulator; more are a loop that never ends. If 0, as many as the
        sizes call for.
    """

    M: int
    N: int
    K: int
    alpha: float = 1.0
    beta: float = 0.0
    seed: int = 0
    shift: int | Sequence[int] = 0
    special: bool = False
    last_tile: bool = False
    races: bool = False
    setting: Sequence[int] = ()
    division: Sequence[int] | None = None
    budget: int = 0

    def of(self, types: Types) -> Self:
        """Return this case as a kernel of these types has it: sizes and scalars checked, the scalars rounded.

        Raises
        ------
        ArgumentError
            A size, a shift or the seed is no whole number or negative, a scalar is no number or not finite where it
            is multiplied with, or K is past the bound's validity ((K + 2)·u < 1).
        """
        M, N, K, seed = (natural(name, getattr(self, name)) for name in ("M", "N", "K", "seed"))
        shifts = self.shift if isinstance(self.shift, Sequence) else (self.shift,) * 3
        if len(shifts) != 3:
            raise ArgumentError("shift", repr(self.shift), "a number, or one each for A, B and C")
        shift = tuple(natural("shift", by) for by in shifts)
        if (K + 2) * types.roundoff >= 1:
            most = int(1 / types.roundoff) - 2
            raise ArgumentError("K", str(K), f"less than {most}, where the error bound still holds")
        scalars = {name: float(operands.scalar(name, getattr(self, name), types.scalar)) for name in ("alpha", "beta")}
        for name, value in scalars.items():
            if not np.isfinite(value) and (K or name == "beta"):  # where every result would be as good as another
                given = getattr(self, name)
                infinite = "" if given == value or value != value else f", which is {value:g} in {types.scalar}"
                raise ArgumentError(name, f"{given:g}{infinite}", "a finite number: else any result is right")
        division = None if self.division is None else tuple(self.division)
        return dataclasses.replace(
            self, M=M, N=N, K=K, seed=seed, shift=shift, setting=tuple(self.setting), division=division, **scalars,
        )  # fmt: skip

    def applied_to(self, kernel: Any) -> Any:
        """Return the kernel itself, with this case's template arguments and division, where there are any.

        Raises
        ------
        ArgumentError
            They are given for a kernel that has no choice, or they are not as many as it takes.
        """
        if self.setting:
            names = [name for name in kernel.parameters if name != "T"] if _family(kernel).chooses else []
            if len(self.setting) != len(names):
                raise ArgumentError("setting", repr(self.setting), "all template arguments of a kernel that chooses")
            kernel = kernel.variant(**dict(zip(names, self.setting, strict=True)))
        if self.division is not None:
            if not _family(kernel).trials or len(self.division) != 2:
                raise ArgumentError("division", repr(self.division), "two numbers, for a kernel whose work is divided")
            kernel = kernel.divided(*self.division)
        return _family(kernel).itself(kernel)


@dataclass(frozen=True, repr=False)
class CheckResult(Tabular, Case):
    """The verdict on one run of a kernel: the case, and what came of it. It is true if the kernel passed.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    on_gpu : bool
        Whether it ran on the GPU, not simulated.
    worst_ratio : float
        Largest error as a fraction of its bound; infinity where one is finite and the other is not.
    worst_at : tuple of int or None
        Row and column of that element; None where there is no error at all.
    wrong : int
        Elements whose error exceeds the bound, or that were never written.
    example : str
        What that element is and what it should be, in words, if it is wrong.
    guards_intact : bool
        Whether A, B and the memory around all three matrices came out as they went in.
    fault : str
        What the simulator reported, if it stopped the kernel.
    notes : tuple of str
        What the simulator noted that is no fault.
    """

    kernel: str = ""
    on_gpu: bool = False
    worst_ratio: float = 0.0
    worst_at: tuple[int, int] | None = None
    wrong: int = 0
    example: str = ""
    guards_intact: bool = True
    fault: str = ""
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.passed

    @property
    def passed(self) -> bool:
        """Whether every element is within its bound and nothing else was touched."""
        return self.wrong == 0 and self.guards_intact and not self.fault

    @property
    def endless(self) -> bool:
        """Whether the kernel would never have ended, on the simulator."""
        return self.fault.startswith("endless")

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return self.fault or ("wrong values" if self.wrong else "passed" if self.guards_intact else "wrote outside C")

    def table(self) -> Table:
        """Return the verdict as a table of one row, and an element that is wrong."""
        table = _table([self], f"{self.kernel} against float64")
        return dataclasses.replace(table, note="\n".join(filter(None, (table.note, self.example))))


@dataclass(frozen=True, repr=False)
class SuiteResult(Tabular):
    """The verdicts on all cases of a suite. It is true if the kernel passed them all."""

    results: tuple[CheckResult, ...]

    def __bool__(self) -> bool:
        return self.passed

    @property
    def passed(self) -> bool:
        """Whether all cases passed."""
        return all(result.passed for result in self.results)

    def failures(self) -> "SuiteResult":
        """Return the cases that did not pass."""
        return SuiteResult(tuple(result for result in self.results if not result.passed))

    def table(self) -> Table:
        """Return one row per case."""
        good = sum(result.passed for result in self.results)
        return _table(self.results, f"{self.results[0].kernel}: {good} of {len(self.results)} cases pass")


HALF_SUMS = {
    (types, many): dataclasses.replace(types, roundoff=2.0**-11 / many)
    for types in (FP16, IN_16_BITS[FP16])
    for many in (1, 4)
}
"""FP16 with sums in FP16, by how many products are added to one rounding: 1 by plain arithmetic, 4 on tensor cores."""
SHORT_PRODUCTS = {types: dataclasses.replace(types, roundoff=2.0**-24) for types in (*IN_16_BITS, *IN_16_BITS.values())}
"""Types of 16 bits whose products are rounded to them, and then added in float32 by plain arithmetic."""
LEAST_FELT = {FP16: 2.0**-14, BF16: 2.0**-126, SPLIT: 2.0**-116} | dict.fromkeys(HALF_SUMS.values(), 2.0**-14)
"""The least size that the bound takes a factor for, unless the factor is 0."""


def excess(got: Any, A: Any, B: Any, C: Any, alpha: float, beta: float, types: Types | None = None) -> Any:
    """Return each element's error as a fraction of its bound: at most 1 is right.

    Parameters
    ----------
    got : array, shape (M, N)
        The result to judge: NumPy or CuPy, like the others, and judged where it lies.
    A, B, C : array, shapes (M, K), (K, N) and (M, N)
        What went in. C is not looked at where β = 0, nor A and B where α = 0.
    alpha, beta : float
        Exact in the type of the result.
    types : Types, optional
        Those of A's dtype unless given.

    Returns
    -------
    array of float64, shape (M, N)
        Infinity where one of result and reference is finite and the other is not, or both are not
        and differ in kind (NaN, +∞, −∞). Where the type of the sums may overflow on the way, any
        non-finite result is as good as another.
    """
    types = types or next(types for types in (FP32, FP64, FP16, BF16) if types.operand == A.dtype)
    K = A.shape[1] if alpha != 0 else 0
    limits, stored = (
        np.finfo(np.float16 if types in HALF_SUMS.values() else types.scalar),
        ml_dtypes.finfo(types.result),
    )
    of_product = ml_dtypes.finfo(types.operand) if types in SHORT_PRODUCTS.values() else None
    n = (K + 2) * types.roundoff
    lost = float(limits.smallest_subnormal) * (types.roundoff / float(limits.eps))  # by an operation that underflows
    reference, product, rest = (np.zeros_like(got, dtype=np.float64) for _ in range(3))  # CuPy's if `got` is
    with np.errstate(all="ignore"):
        if K:
            wide_A, wide_B = A.astype(np.float64), B.astype(np.float64)
            reference += alpha * (wide_A @ wide_B)
            product += _felt_size(wide_A, types) @ _felt_size(wide_B, types)
        if beta != 0:
            wide_C = C.astype(np.float64)
            reference += beta * wide_C
            rest += abs(beta) * _finite_size(wide_C)
        magnitude = abs(alpha) * product + rest if K else rest
        gamma = n / (1 - n) if n < 1 else n
        bound = gamma * magnitude + lost * (2 * K * abs(alpha) + 2 if K else 2)
        if of_product:
            rounded = float(of_product.eps) / 2 * product + K * float(of_product.smallest_subnormal) / 2
            bound += (1 + gamma) * abs(alpha) * rounded
        most = np.abs(reference) + bound  # that is stored
        if types.result != types.scalar:
            bound = bound + most * (float(stored.eps) / 2) + float(stored.smallest_subnormal) / 2
        error = np.abs(got.astype(np.float64) - reference)
        ratio = np.where(np.isfinite(error), error / bound, np.inf)

        alike = (got == reference) | (np.isnan(got) & np.isnan(reference))
        alike |= (got == np.copysign(np.inf, reference)) & (most > float(stored.max))
        may_overflow = ~(product * (1 + n) <= float((of_product or limits).max))  # or is NaN
        may_overflow |= ~(magnitude * (1 + n) <= float(limits.max))
        excused = ~np.isfinite(got) & (may_overflow | alike)
    return np.where(excused, 0.0, ratio)


def check(
    kernel: Kernel | str | Callable[..., Any],
    M: int,
    N: int,
    K: int,
    alpha: float = 1.0,
    beta: float = 0.0,
    seed: int = 0,
    on_gpu: bool | None = None,
    *,
    shift: int | Sequence[int] = 0,
    special: bool = False,
    last_tile: bool = False,
    races: bool = False,
    setting: Sequence[int] = (),
    division: Sequence[int] | None = None,
    budget: int = 0,
) -> CheckResult:
    """Run a kernel on random matrices and judge the result.

    A, B and C lie inside larger buffers: around A and B there are NaNs, so that reading past an edge
    shows, and around C a pattern that must survive. Where β = 0, C itself is NaN before the run, and
    where α = 0, A and B are: BLAS says they are not read. On the simulator any access outside a matrix
    is a fault, and so is any read of what BLAS does not read, whatever becomes of the value. With `races`, two threads
    that write different values to the same element of C, in no certain order, are a fault on the simulator too;
    otherwise the last value counts. The simulator needs PTX alone, but a `Kernel` that passes there is compiled to
    machine code too: what ptxas refuses runs on no GPU.

    Parameters
    ----------
    kernel : Kernel, str or callable
        A kernel or its name, or anything that is called like one, for example `cublas.sgemm`; float32 unless it has
        `types`. Unlike a call, a kernel leaves nothing to a quicker one.
    M, N, K, alpha, beta, seed, shift, special, last_tile, races, setting, division, budget
        The case; see `Case`.
    on_gpu : bool, optional
        On the GPU or simulated; on the GPU where there is one, unless given.

    Returns
    -------
    CheckResult
        A fault that the simulator reports is part of the verdict.

    Raises
    ------
    ArgumentError
        The case is invalid; see `Case`. Or `last_tile` is asked for with a shift, special values, `races`, the GPU or
        what is no `Kernel`.
    DeviceError, CompileError, UnsupportedInstruction
        The kernel could not be run.
    """
    return judged(
        kernel,
        Case(M, N, K, alpha, beta, seed, shift, special, last_tile, races, setting, division, budget),
        on_gpu,
    )[0]


def judged(
    kernel: Kernel | str | Callable[..., Any],
    case: Case,
    on_gpu: bool | None = None,
    architecture: str = ARCHITECTURE,
) -> tuple[CheckResult, Counts]:
    """Return the result of `check`, and the simulator's counts: none on the GPU, or at a fault.

    A kernel's cost is no part of the verdict: a slow kernel may be right. A kernel that passes on the simulator is
    compiled for the architecture too, unless that is virtual.
    """
    kernel = case.applied_to(_callable(kernel))
    case = case.of(getattr(kernel, "types", FP32))
    if case.last_tile and (on_gpu or case.special or case.races or any(case.shift) or not isinstance(kernel, Kernel)):
        raise ArgumentError("last_tile", "True", "a Kernel on the simulator, no shift, special values or races")
    on_gpu = not case.last_tile and gpu.chosen(on_gpu)
    name = getattr(kernel, "name", None) or kernel.__name__
    case = dataclasses.replace(case, races=case.races and not on_gpu and isinstance(kernel, Kernel))
    begun = CheckResult(**vars(case), kernel=name, on_gpu=on_gpu)
    try:
        result, counts, launch = (_last_tile if case.last_tile else _whole)(kernel, begun)
    except SimulationFault as fault:
        return dataclasses.replace(begun, fault=str(fault)), Counts()
    if launch and result.passed:
        compiler.require(launch.instance, architecture)
    return result, counts


def suite(kernel: Kernel | str, on_gpu: bool | None = None) -> SuiteResult:
    """Check a kernel on the sizes, scalars and values where kernels go wrong; see `cases`.

    Raises
    ------
    ArgumentError, DeviceError, CompileError, UnsupportedInstruction
        As for `check`.
    """
    return SuiteResult(tuple(checked(kernel, cases(kernel, on_gpu), on_gpu)))


def checked(
    kernel: Kernel | str, listed: Iterable[dict[str, Any]], on_gpu: bool | None = None, budget: int = 0
) -> Iterator[CheckResult]:
    """Yield each case's result by `check`, up to the first in which the kernel never ends: each would take so long."""
    for case in listed:
        yield (result := check(kernel, on_gpu=on_gpu, **case, budget=budget))
        if result.endless:
            return


PLAIN, GENERAL = (1.0, 0.0), (-1.5, 0.75)
"""α and β that change nothing, and α and β that both change the result."""
LONG, WIDE = 2100, 1100
"""A K larger than anything that a kernel might hold at once, such as a row of A in an array; and more rows or columns
than a block has threads, for kernels that have a thread each for them."""


def cases(kernel: Kernel | str | Callable[..., Any], on_gpu: bool | None = None) -> list[dict[str, Any]]:
    """Return the arguments of `check` for each case of the suite, cheap and telling ones first.

    They follow from the kernel's tile (BM × BN, BK deep), its STAGES, and how many elements 16 bytes hold:

    - nothing, a single element, a row, a column;
    - whole tiles, fewer and more of them along K than there are stages;
    - one edge at a time past or short of a tile, by one, by two, and by what keeps rows at multiples of 16 bytes, or of
      8, because a kernel takes its fast paths only there;
    - half a tile, which leaves warps without work;
    - all edges at once, several tiles in both directions;
    - each matrix alone off its 512-byte boundary, to one that is a multiple of 16 bytes, of 8, or of one element;
    - trivial and general α and β; α = 0 and K = 0, where A and B are not read; infinities and NaNs;
    - a long sum; more rows, and more columns, than a block has threads;
    - the last tile of matrices with more than 2³² elements, on the simulator.

    A kernel that has a choice has cases of its own first: settings and divisions that it chooses for large problems
    only, made small; see `trials`.

    Parameters
    ----------
    kernel : Kernel, str or callable
        A callable without `parameters` is taken to have a tile of 32 × 32.
    on_gpu : bool, optional
        As for `check`.
    """
    kernel = _callable(kernel)
    listed = _cases(kernel)
    if isinstance(kernel, Kernel):
        listed = [*(() if kernel.settled else kernel.family.trials), *listed]
        if not gpu.chosen(on_gpu):
            listed += _far_cases(kernel)
        listed = kernel.family.claimed(listed)
    u = getattr(kernel, "types", FP32).roundoff
    # A small tile makes some sizes negative, and some cases the same. A sum may be too long for a bound.
    fine = (case for case in listed if min(case["M"], case["N"], case["K"]) >= 0 and (case["K"] + 2) * u < 1)
    unique = {str(Case(**case)): case for case in fine}
    return [case | {"seed": number} for number, case in enumerate(unique.values())]


def difficult(kernel: Kernel) -> dict[str, Any]:
    """Return the arguments of `check` for the case to take if there is time for one only.

    All edges meet, α and β are general, and each of the stages is used and filled again.
    """
    BM, BN, BK, stages, _ = _extents(kernel)
    case = trial((max(BM - 1, 1), 2 * BN + 1, (stages + 1) * BK + 1), GENERAL)
    return (_family(kernel).claimed([case]) or [case])[0]


def _family(kernel: Callable[..., Any]) -> Family:
    """Return the family of a kernel, or of what is called like one."""
    return getattr(kernel, "family", TILES)


def _extents(kernel: Callable[..., Any]) -> tuple[int, int, int, int, int]:
    """Return BM, BN and BK of a kernel, how many tiles of A and B it holds, and the elements in 16 bytes."""
    of = getattr(kernel, "parameters", {})
    wide = 16 // getattr(kernel, "types", FP32).operand.itemsize
    return *_family(kernel).tile(of), of.get("BK", 2 * wide), max(of.get("STAGES", 1), 1), wide


def _cases(kernel: Callable[..., Any]) -> list[dict[str, Any]]:
    """Return the cases that go through every block."""
    BM, BN, BK, stages, wide = _extents(kernel)
    half = wide // 2
    deep = 2 * stages + 1  # tiles, so that each of the stages is used and filled again
    shifts = [tuple(by * (matrix == which) for which in range(3)) for matrix in range(3) for by in (wide, half, 1)]
    return [
        trial((3, 5, 1), PLAIN),
        trial((BM + 1, BN + 1, BK + 1), GENERAL),
        *(trial((3, 5, 4), scalars) for scalars in ((0.0, 2.0), (0.0, 0.0))),
        *(trial((5, 3, 0), scalars) for scalars in (PLAIN, GENERAL, (np.nan, 2.0), (np.inf, 0.0))),
        trial((BM, BN, BK), PLAIN),
        trial((BM, BN, BK), GENERAL),
        # Nothing, single elements, rows and columns.
        *(
            trial(shape, GENERAL)
            for shape in ((0, 0, 0), (0, 5, 3), (5, 0, 3), (1, 1, 1), (1, 1, 7), (1, 7, 1), (7, 1, 1))
        ),
        # One edge at a time past or short of a tile. Races are looked for in two blocks side by side, and then in two
        # one above the other.
        *(
            trial((BM, BN + by * across, BK + by * (1 - across)), GENERAL, races=by * across == wide)
            for by in (-wide, wide, -1, 1, half, 2)
            for across in (1, 0)
        ),
        trial((BM - 1, BN, BK), GENERAL),
        trial((BM - 1, BN - wide, BK + wide), PLAIN),
        trial((BM + 1, BN, BK), GENERAL),
        trial((BM + 1, BN - wide, BK + wide), PLAIN, races=True),
        # Half a tile, which leaves warps without work.
        trial((BM // 2, BN, BK), PLAIN),
        trial((BM, BN // 2, BK), PLAIN),
        *(trial((BM, BN, BK), GENERAL, shift=shift) for shift in shifts),
        # Several edges, several tiles.
        trial((BM - 1, BN - 1, BK - 1), PLAIN),
        trial((BM + 1, BN + 1, BK + 1), PLAIN, shift=1),
        trial((max(2 * BM + 3, WIDE), 3, 5), GENERAL),
        trial((3, max(2 * BN + 5, WIDE), 5), GENERAL),
        *(trial((BM, BN, tiles * BK), PLAIN) for tiles in range(2, stages + 1)),
        trial((2 * BM, 2 * BN, deep * BK), PLAIN),
        trial((2 * BM, BN - 1, 2 * BK - 1), GENERAL),
        trial((BM - 1, 2 * BN + wide, deep * BK - wide), GENERAL),
        difficult(kernel),
        # Scalars, and values that are not finite.
        trial((BM, BN, BK), (0.0, 2.0)),
        trial((37, 41, 2 * BK + 3), (1.0, 1.0)),
        trial((37, 41, 2 * BK + 3), (0.1, -1e-3)),
        *(trial((BM - 1, BN - 1, BK + 1), scalars, special=True) for scalars in (PLAIN, GENERAL, (0.0, 2.0))),
        trial((BM, BN, 2 * BK), GENERAL, special=True),
        # A sum that is far longer than a tile is deep.
        trial((3, 5, LONG), GENERAL),
    ]


def _far_cases(kernel: Kernel) -> list[dict[str, Any]]:
    """Return the cases past 2³² elements, of A and C and of B and C, with a last tile that is whole and one that isn't.

    They have more than 65,535 tiles in a direction, too.
    """
    BM, BN, BK, _, _ = _extents(kernel)
    many = 2**33  # so that the elements that one thread fetches may be as far apart
    rows, cols = (
        min(many // depth, operands.INT_MAX) // tile * tile for depth, tile in ((min(BK, BN), BM), (min(BK, BM), BN))
    )
    shapes = ((rows, BN, BK), (rows - 1, BN - 1, BK + 1), (BM, cols, BK), (BM - 1, cols - 1, BK + 1))
    return [trial(shape, GENERAL, last_tile=True) for shape in shapes if min(shape) > 0]


def _callable(kernel: Kernel | str | Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel of a name, and anything that can be called as it is."""
    if isinstance(kernel, str):
        return find(kernel)
    if not callable(kernel):
        raise ArgumentError("kernel", repr(kernel), "a Kernel, its name, or a function that is called like one")
    return kernel


def _simulate(
    launch: Launch, problem: Problem, case: CheckResult, blocks: Sequence[int] | None = None
) -> tuple[CheckResult, Counts]:
    """Run a launch on the simulator, which faults it for reading what BLAS does not; return notes and counts."""
    scalars = {"A": problem.alpha, "B": problem.alpha, "C": problem.beta}
    watched = not (blocks or launch.kernel.family.zeroed)  # matrices of which some blocks run are too large for it
    unread = {name for name, factor in scalars.items() if factor == 0 and watched}
    budget = case.budget or min((1 << 16) + 64 * case.M * case.N * (case.K + 1), BUDGET)  # one thread may do it all
    machine = simulator.run(launch, problem, blocks=blocks, unwritten=unread, races=case.races, budget=budget)
    return dataclasses.replace(case, notes=tuple(machine.notes)), machine.total


def _whole(kernel: Callable[..., Any], case: CheckResult) -> tuple[CheckResult, Counts, Launch | None]:
    """Return the verdict on a case, what was counted, and the launch that was simulated, if any was."""
    types = getattr(kernel, "types", FP32)
    A, B, C = draw(case.M, case.N, case.K, case.seed, types, CHECKED)
    if case.special:
        _make_special(A, B, C, case.seed)
    if case.alpha == 0:
        A[:], B[:] = np.nan, np.nan
    if case.beta == 0:
        C.view(f"u{C.itemsize}")[:] = 0 if _family(kernel).zeroed else GUARD_OF_C[C.itemsize]
    with gpu.reported(f"checking {case.kernel}"):
        guards = (GUARD_OF_INPUT, GUARD_OF_INPUT, GUARD_OF_C)
        inside = [
            _Guarded(matrix, guard, by, case.on_gpu)
            for matrix, guard, by in zip((A, B, C), guards, case.shift, strict=True)
        ]
        views = [one.view for one in inside]
        counts, launch = Counts(), None
        if isinstance(kernel, Kernel) and not case.on_gpu:
            problem = operands.check(*views, case.alpha, case.beta, types)
            launch = kernel.resolve(problem)
            case, counts = _simulate(launch, problem, case)
        else:
            kernel(*views, case.alpha, case.beta)
        got = inside[2].contents()
        intact = inside[0].intact() and inside[1].intact() and inside[2].intact(itself=False)
    return _verdict(case, got, (A, B, C), types, intact), counts, launch


def _last_tile(kernel: Kernel, case: CheckResult) -> tuple[CheckResult, Counts, Launch]:
    """Return what `_whole` returns, for the last tile of C alone."""
    M, N, K, types = case.M, case.N, case.K, kernel.types
    with tempfile.TemporaryDirectory(dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None) as folder:
        try:
            A, B, C = (
                np.memmap(f"{folder}/{name}", dtype, "w+", shape=shape)
                for name, dtype, shape in (
                    ("A", types.operand, (M, K)),
                    ("B", types.operand, (K, N)),
                    ("C", types.result, (M, N)),
                )
            )
        except OSError as error:
            raise DeviceError(f"last_tile needs files with holes, and {folder} takes none so large: {error}") from None
        problem = operands.check(A, B, C, case.alpha, case.beta, types)
        launch = kernel.resolve(problem, kernel.family.spread(SIMULATOR))
        blocks, kernel = range(launch.blocks - launch.division.last, launch.blocks), launch.kernel
        rows, cols = (
            (size - 1) // side * side for size, side in zip((M, N), kernel.family.tile(kernel.parameters), strict=True)
        )
        a, b, c = draw(M - rows, N - cols, K, case.seed, types)
        A[rows:], B[:, cols:], C[rows:, cols:] = a, b, c
        case, counts = _simulate(launch, problem, case, blocks)
        got = np.array(C[rows:, cols:])
    return _verdict(case, got, (a, b, c), types, True, (rows, cols)), counts, launch


def _make_special(A: np.ndarray, B: np.ndarray, C: np.ndarray, seed: int) -> None:
    """Put special values into a few rows of A, columns of B and elements of C, and leave most finite."""
    random = np.random.default_rng([seed, 1])
    *values, least = EXTREMES[A.dtype]
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
        self.buffer = (cupy if on_gpu else np).array(self.before)
        self.view = self.buffer[self.place].reshape(self.shape)
        """The matrix as the kernel is given it."""

    def contents(self) -> np.ndarray:
        """Return a copy of the matrix as it is now, on the host."""
        return cupy.asnumpy(self.buffer)[self.place].reshape(self.shape).copy()

    def intact(self, itself: bool = True) -> bool:
        """Whether the guards, and the matrix itself unless that may change, are bit for bit as they were."""
        spared = slice(0) if itself else self.place
        memories = (cupy.asnumpy(self.buffer), self.before)
        now, before = (np.delete(memory.view(f"u{memory.itemsize}"), spared) for memory in memories)
        return np.array_equal(now, before)


def _finite_size(matrix: np.ndarray) -> np.ndarray:
    """Return |matrix| with 0 for what is not finite."""
    return np.where(np.isfinite(matrix), np.abs(matrix), 0.0)


def _felt_size(matrix: np.ndarray, types: Types) -> np.ndarray:
    """Return the size of factors as the bound counts it; see `LEAST_FELT`."""
    size, least = _finite_size(matrix), LEAST_FELT.get(types, 0.0)
    return np.where((size > 0) & (size < least), least, size) if least else size


def _verdict(
    case: CheckResult,
    got: np.ndarray,
    inputs: Sequence[np.ndarray],
    types: Types,
    intact: bool,
    corner: tuple[int, int] = (0, 0),
) -> CheckResult:
    """Return a case with its result: the element-wise comparison with A, B and C, reduced.

    Where these are the last tile alone, `corner` is the row and column of C at which it begins.
    """
    if not got.size:
        return dataclasses.replace(case, guards_intact=intact)
    ratio = excess(got, *inputs, case.alpha, case.beta, types)
    untouched = (got.view(f"u{got.itemsize}") == GUARD_OF_C[got.itemsize]) & (case.beta == 0)
    ratio[untouched] = np.inf
    row, column = worst = tuple(int(at) for at in np.unravel_index(np.argmax(ratio), ratio.shape))
    at = (corner[0] + row, corner[1] + column)
    wrong = int(np.count_nonzero(~(ratio <= 1)))
    example = f"C[{at[0]}, {at[1]}] {_said(got[worst], untouched[worst], case, *inputs, *worst)}" if wrong else ""
    return dataclasses.replace(
        case,
        worst_ratio=float(ratio[worst]),
        worst_at=at if ratio[worst] > 0 else None,
        wrong=wrong,
        example=example,
        guards_intact=intact,
    )


def _said(
    came: np.generic, untouched: bool, case: Case, A: np.ndarray, B: np.ndarray, C: np.ndarray, row: int, column: int
) -> str:
    """Return what an element of C is and what it should be, in as few digits, six at least, as tell the two apart."""
    right, why = case.beta * float(C[row, column]) if case.beta else 0.0, ""
    if case.alpha and A.shape[1]:
        with np.errstate(all="ignore"):
            terms = A[row].astype(np.float64) * B[:, column].astype(np.float64)
            right += case.alpha * float(terms.sum())
        for k in np.flatnonzero(np.isnan(terms) if np.isnan(right) else np.isinf(terms))[: case.special]:
            why = f": A[{row}, {k}] is {A[row, k]:g} and B[{k}, {column}] is {B[k, column]:g}"
    *few, most = ([f"{number:.{digits}g}" for number in (float(came), right)] for digits in (6, 9, 17))
    is_, should_be = next((pair for pair in few if pair[0] != pair[1]), most)
    return f"{'was never written' if untouched else f'is {is_}'} and should be {should_be}{why}."


def _table(results: Sequence[CheckResult], title: str) -> Table:
    """Return the results as a table, one row each."""
    columns = ("M", "N", "K", "α", "β", "inputs", "error / bound", "at", "wrong", "verdict")
    rows = [
        (
            *(result.M, result.N, result.K, f"{result.alpha:g}", f"{result.beta:g}"),
            _inputs(result),
            None if result.fault else result.worst_ratio,
            "" if result.worst_at is None else "{}, {}".format(*result.worst_at),
            None if result.fault else result.wrong,
            re.sub(r": [^,]*(, line \d+)?.*", r"\1", result.fault, flags=re.DOTALL) or result.verdict,
        )
        for result in results
    ]
    said = [
        f"{'Run on the GPU' if results[0].on_gpu else 'Simulated'}. "
        "The bound is γ(K+2)·(|α||A||B| + |β||C|), element by element.",
        watched(results),
        *noted(results),
        *[result.fault for result in results if result.fault][:1],
    ]
    return Table(columns, rows, title, "\n".join(filter(None, said)))


def watched(results: Sequence[CheckResult]) -> str:
    """Return in how many cases races in global memory were looked for, in words; nothing if in none."""
    count = sum(result.races for result in results)
    return f"Races in global memory were looked for in {count} of {len(results)} cases." * (count > 0)


def noted(results: Sequence[CheckResult]) -> list[str]:
    """Return the simulator's notes, one for each line of a kernel."""
    return list({note.partition(", block")[0]: note for result in results for note in result.notes}.values())


def _inputs(result: CheckResult) -> str:
    """Return the peculiarities of a case's matrices and launch, in words."""
    shifted = [f"{name} shifted by {by}" for name, by in zip("ABC", result.shift, strict=True) if by]
    if len(set(result.shift)) == 1:
        shifted = [f"shifted by {by}" for by in set(result.shift) if by]
    said = [
        ", ".join(shifted + ["special values"] * result.special + ["last tile"] * result.last_tile),
        "{} blocks with a tile each and {} that share".format(*result.division) if result.division else "",
        f"template arguments {', '.join(map(str, result.setting))}" if result.setting else "",
        "global races" * result.races,
    ]
    return "; ".join(filter(None, said))

"""Compares a wrong product with the results of usual mistakes, and names the likely mistake."""

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ptxsim import WARP
from ptxsim.cuda_source import parts
from sgemm_tutorial.errors import ArgumentError, SimulationFault
from sgemm_tutorial.inputs import draw
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import simulate

from .correctness import CheckResult, check
from .written import Written, exchanged

NEAR, NEAR_IN_16_BITS = 1e-3, 1e-2  # relative to the largest element
MOST_TERMS = 256  # of a sum, where it is looked for those that are left out
OF_FAULTS = {
    r"race: .* since the last barrier": "Between those two accesses a __syncthreads() is missing: the threads of "
    "a block do not keep step.",
    r"uninitialised: .* reads %": "A variable is read before it has a value. A sum begins with one: float sum = 0.",
    r"uninitialised: .* reads [AB] at": "Where α = 0 or K = 0, A and B are not to be read: they may hold "
    "anything, NaN too.",
    r"uninitialised: .* reads C at": "Where β = 0, C is not to be read: it may hold anything, NaN too, and "
    "0 · NaN is NaN.",
    r"uninitialised: .* reads (?!A\b|B\b|C\b|%)\w+ at": "No thread wrote that element of a tile. A "
    "block needs a thread for each element, or a loop, and past an edge a 0 is written.",
}
"""The meaning of a fault, by the beginning of its text."""


def diagnosis(kernel: Kernel, failed: CheckResult, launched: bool = False) -> list[str]:
    """Return the likely causes of a case's failure, a line each.

    The case is run again on the simulator, with the same sizes, scalars and standard-normal matrices. Unless the kernel
    is `launched` in the only way to try, other ways are tried too.
    """
    M, N, K = failed.M, failed.N, failed.K
    kind, _, _ = failed.verdict.partition(":")
    said = [f"The case M = {M}, N = {N}, K = {K}, α = {failed.alpha:g}, β = {failed.beta:g}: {kind}"]
    said += [failed.example] * bool(failed.example)
    said += [text for begun, text in OF_FAULTS.items() if re.match(begun, failed.fault)]
    if failed.endless:
        return [*said, "No case after it was run. If the loop does end, allow more instructions: --budget."]
    if failed.last_tile:
        return [*said, "It has more than 2³¹ elements, where an index of 32 bits overflows: compute it as a size_t."]
    if isinstance(kernel.family, Written) and not launched:
        said += _otherwise(kernel, failed)
    if kernel.threads < WARP and re.search(r"__shfl_\w+sync", kernel.source):
        said += [
            f"The kernel shuffles, and a block has {kernel.threads} of the {WARP} threads of a warp. For warps, say",
            f"// launch: grid = M * N, block = {WARP}, or how else it is launched.",
        ]
    boundless = not (failed.fault or failed.K or math.isfinite(failed.alpha))
    said += [
        "Where K = 0, C is to be βC whatever α is. Even a sum of 0 is NaN, times an α that is not finite."
    ] * boundless
    said += ["In global memory, atomicAdd takes numbers below 1.2e-38 for zeros. The special values have some."] * (
        failed.special and "atomicAdd" in kernel.path.read_text(encoding="utf-8")
    )
    if failed.fault or not (M and N and K) or failed.special:
        return said
    A, B, C = draw(M, N, K, failed.seed, kernel.types)
    before = C.copy() if failed.beta or not kernel.family.zeroed else np.zeros_like(C)
    C[:] = before
    try:
        got = simulate(kernel, A, B, C, failed.alpha, failed.beta).C.astype(np.float64)
    except SimulationFault as fault:
        return [*said, str(fault)]
    wide = [matrix.astype(np.float64) for matrix in (A, B, before)]
    right = failed.alpha * wide[0] @ wide[1] + failed.beta * wide[2]
    if (np.abs(got - right) <= _near(right, kernel)).all():
        return [*said, "The result is nearly right: the sums, or what is added, have fewer bits than they should."]
    return said + list(_likely(kernel, got, right, *wide, failed))


def telling(failed: Sequence[CheckResult]) -> CheckResult:
    """Return the first of some failures, or if it has wrong values, the one of those whose least size is the largest.

    What belongs to rows or columns is not to be told from much else where there are few of them, nor what happens at
    the end of a tile where K is short, nor what belongs to C where β is small.
    """
    alike = [of for of in failed if of.verdict == failed[0].verdict and not of.special and not of.last_tile]
    return max(
        alike if failed[0].wrong else failed[:1],
        key=lambda of: (not 0 < abs(of.beta) < 0.1, min(of.M, of.N, of.K)),
        default=failed[0],
    )


def _otherwise(kernel: Kernel, failed: CheckResult) -> Iterator[str]:
    """Yield how a launch may be said so that the kernel is right: for whole tiles alone, or with another layout."""
    rule, of = kernel.family.rule, kernel.parameters
    if rule.multiples == (1, 1, 1) and not math.prod(kernel.family.grid(of, 1, 1, 1)):
        yield f"For M = N = K = 1 the grid {rule.grid} has no blocks, and a GPU refuses such a launch: it rounds down."
    BM, BN = kernel.family.tile(of)
    whole = tuple(4 if side < 3 else side for side in (BM, BN, of.get("BK", max(BM, BN))))
    whole = (max(whole),) * 3 if rule.square else whole
    sizes = tuple(2 * size for size in whole) if rule.square else (2 * whole[0], 4 * whole[1], 2 * whole[2])
    asked = {"alpha": failed.alpha, "beta": failed.beta, "races": failed.races}

    def right(*listed: Sequence[int], **fields: Any) -> bool:
        other = dataclasses.replace(kernel, family=Written(dataclasses.replace(rule, **fields)))
        cases = kernel.family.claimed([dict(zip("MNK", sizes, strict=True)) | asked for sizes in listed])
        try:
            return bool(cases) and all(check(other, **one, on_gpu=False).passed for one in cases)
        except ArgumentError:
            return False

    if right(sizes):
        least = _least(whole, rule.square, right)
        if any(size % by for size, by in zip((failed.M, failed.N, failed.K), least, strict=True)):
            of_tiles = ", ".join(f"{name} = {size}" for name, size in zip("MNK", sizes, strict=True))
            yield f"With whole tiles ({of_tiles}) it is right. If it is meant for such sizes only, put this above it:"
            yield f"// launch: {dataclasses.replace(rule, multiples=least)}"
        return
    turned = {}
    for name, text in {"grid": rule.grid, "block": rule.block}.items():
        inner = re.fullmatch(r"(?:dim3\s*)?[({](.*)[)}]", text)
        first, *more = parts(inner[1]) if inner else [text]
        turned[name] = f"({', '.join([*more[:1], first, *more[1:]])})"
    others = [{"column_major": not rule.column_major}, {"grid": turned["grid"]}, {"block": turned["block"]}, turned]
    for pair in itertools.combinations("MNK", 2):
        if {*pair} <= {*rule.arguments}:
            other = exchanged(rule, *pair)
            fields = {"arguments": other.arguments, "names": other.names}
            others += [fields, fields | {"grid": other.grid, "shared": other.shared}]
    for fields in others:
        if right(sizes, **fields):
            yield "With another launch it is right for whole tiles. Put this above the kernel:"
            yield f"// launch: {dataclasses.replace(rule, **fields)}"
            return
    side = max(whole)
    if right((side,) * 3, (2 * side,) * 3):
        yield "With M = N = K it is right: somewhere it takes one of them, or of lda, ldb and ldc, for another."


def _least(whole: tuple[int, ...], square: bool, right: Callable[..., bool]) -> tuple[int, ...]:
    """Return the least multiples, of those that divide a tile, at which a kernel is right; or else the tile's sizes."""
    found = [*whole]
    for axis, side in enumerate(whole[:1] if square else whole):
        for step in (1, 2, 4, 8, 16, 32, 64):
            tried = (step,) * 3 if square else (*found[:axis], step, *whole[axis + 1 :])
            if side % step == 0 and right([of + by for of, by in zip(whole, tried, strict=True)], tried):
                found = [*tried]
                break
    return tuple(found)


def _likely(
    kernel: Kernel, got: np.ndarray, right: np.ndarray, A: np.ndarray, B: np.ndarray, C: np.ndarray, of: CheckResult
) -> Iterator[str]:
    """Yield the mistakes that would give this result."""
    (M, K), N, product = A.shape, B.shape[1], A @ B
    near = _near(right, kernel)

    def alike(one: np.ndarray, other: np.ndarray) -> bool:
        return one.shape == other.shape and one.size > 0 and bool((np.abs(one - other) <= near).all())

    At, Bt = A.ravel().reshape(K, M).T, B.ravel().reshape(N, K).T  # as a kernel sees them that reads by columns
    by_columns = (of.alpha * product + of.beta * C.ravel().reshape(N, M).T).T.ravel().reshape(M, N)
    as_columns = (At @ Bt).T.ravel().reshape(M, N)
    guesses = {
        "The result is nothing but zeros: the sums are not written, or the loop over k does not run.": 0 * right,
        "The result is αAB: β is not used.": of.alpha * product,
        "The result is AB + βC: α is not used.": product + of.beta * C,
        "The result is AB: neither α nor β is used.": product,
        "The result is α(AB + βC): α multiplies C, too.": of.alpha * (product + of.beta * C),
        "The result is βAB + αC: α and β are exchanged.": of.beta * product + of.alpha * C,
        "The result is α(AB + C): β is not used, or C is added before α.": of.alpha * (product + C),
        "The result is αAB + C: what C held is added whatever β is.": of.alpha * product + C,
        "The sign of the result is wrong.": -right,
        "The result is 0 where it should be negative, as a ReLU makes it.": np.maximum(right, 0),
        "The result is right, but for its fractions: what is stored is a whole number.": np.trunc(right),
        "The kernel reads its matrices column by column: say layout = column-major.": of.alpha * as_columns
        + of.beta * C,
        "The result is right, but C lies column by column: its rows and columns are exchanged.": by_columns,
        "The result is α ABᵀ + βC: B is read column by column.": of.alpha * A @ Bt + of.beta * C,
        "The result is α AᵀB + βC: A is read column by column.": of.alpha * At @ B + of.beta * C,
        "The result is α AᵀBᵀ + βC: A and B are read column by column.": of.alpha * At @ Bt + of.beta * C,
    }
    for text, what in guesses.items():
        if alike(got, what) and not alike(right, what):
            yield text
            if named := re.search(r" ((?:A|B|Aᵀ|Bᵀ){2}) \+.*: .* read column by column", text):
                theirs = "BA" if isinstance(kernel.family, Written) and kernel.family.rule.column_major else "AB"
                which = " ".join(sorted(own for own, name in zip(theirs, "AB", strict=True) if f"{name}ᵀ" in named[1]))
                yield f"If it is meant so, add to the launch: transposed = {which}"
            return
    if not (got % 1).any() and got.any():
        yield "Each element is a whole number: something that should be a float is an int, such as the sum."
        return
    for by, axis in itertools.product((1, -1), (0, 1)):
        inner = (slice(None),) * axis + (slice(1, -1),)
        shifted = of.alpha * np.roll(product, by, axis)
        if min(M, N) > 2 and any(alike(got[inner], (shifted + of.beta * c)[inner]) for c in (C, np.roll(C, by, axis))):
            name = ("rows", "columns")[axis]
            yield f"What belongs to {name} i stands in {name} i {'-+'[by > 0]} 1: an index of {name} is off by one."
            return
    if text := _terms(A, B, (got - of.beta * C) / (of.alpha or 1), near):
        yield text
        return
    for name, wide in {"M": M, "K": K, "N - 1": N - 1, "N + 1": N + 1}.items():
        if wide != N and _stored(right, got, wide, near):
            yield f"Rows of C begin {wide} elements apart, not {N}: its leading dimension is {name}, and should be N."
            return
    good = np.abs(got - right) <= near
    for name, lines in (("row", good.all(axis=1)), ("column", good.all(axis=0))):
        at = np.flatnonzero(lines)
        if 1 < len(at) < len(lines) and len(set(np.diff(at))) == 1 and at[1] - at[0] > 1:
            yield f"Only every {at[1] - at[0]}th {name} is right, as where a kernel that uses threadIdx.y is launched"
            yield "with blocks of one dimension, or where each thread has more elements than it writes."
            return
        if 0 < at.size == lines.size - at[0] < lines.size and at.size > 1:
            those = f"{name}s 0 to {at[0] - 1}" if at[0] > 1 else f"{name} 0"
            yield f"All is right but for {those}: an index of {name}s begins at {at[0]}."
            return
        if 1 < at.size == lines.size - 1 == at[-1] + 1:
            yield f"All is right but for {name} {at.size}, the last: a bound of {name}s is too small by one,"
            yield "or the grid has too few blocks."
            return
        if 0 < len(at) < len(lines) and len(at) == at[-1] - at[0] + 1:
            those = f"{name.capitalize()}s {at[0]} to {at[-1]} are right and no others" if len(at) > 1 else ""
            yield (those or f"{name.capitalize()} {at[0]} is right and no other") + ": the grid has too few blocks,"
            yield "or its dimensions are exchanged."
            return


def _near(right: np.ndarray, kernel: Kernel) -> float:
    """Return by how much an element may be off, and still is what it should be but for rounding."""
    return (NEAR if kernel.types.operand.itemsize > 2 else NEAR_IN_16_BITS) * max(np.abs(right).max(), 1e-30)


def _terms(A: np.ndarray, B: np.ndarray, got: np.ndarray, near: float) -> str:
    """Return which terms of the sums over k are left out, in words, if a product differs by that alone."""
    (M, K), N = A.shape, B.shape[1]
    if not 1 < K <= min(M * N, MOST_TERMS):
        return ""
    terms = (A[:, None, :] * B.T[None]).reshape(M * N, K)
    times = np.round(np.linalg.lstsq(terms, got.ravel(), rcond=None)[0])  # that each term is added
    kept, lost = np.flatnonzero(times), np.flatnonzero(times == 0)
    if np.abs(terms @ times - got.ravel()).max() > near or not kept.size:
        return ""
    if not lost.size:
        often = np.flatnonzero(times != 1)
        return f"The terms of the sums are not added once each: k = {_few(often)}." if often.size else ""
    if kept.size == kept[-1] + 1:
        return f"The sums stop at k = {kept.size} of {K}: a last tile, or a remainder of K, is left out."
    if kept.size == K - kept[0]:
        return f"The sums begin at k = {kept[0]}: what is before it is left out, or overwritten."
    return f"The sums lack the terms k = {_few(lost)} of {K}: a loop within a tile begins late or ends early."


def _few(numbers: np.ndarray) -> str:
    """Return numbers in words, three at most."""
    return ", ".join(map(str, numbers[:3])) + ", ..." * (numbers.size > 3)


def _stored(right: np.ndarray, got: np.ndarray, wide: int, near: float) -> bool:
    """Whether a result is right but for rows that begin so many elements apart; they may run into one another."""
    found, place = got.ravel(), np.zeros((2, got.size), bool)
    for number, row in enumerate(right):
        those = slice(number * wide, number * wide + row.size)
        place[0, those], at = True, found[those]
        place[1, those] |= np.abs(at - row[: at.size]) <= near
    return bool(place[1][place[0]].all())

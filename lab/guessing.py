"""Finds a kernel's launch where nobody gives it, by trying the usual ones on a small product, simulated."""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path

from ptxsim.cuda_source import extents, parts
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.own import kernel_from as by_contract

from .correctness import check
from .diagnosis import diagnosis
from .styles import BLOCK, SIZES, THREAD, Reading, read, written
from .written import Rule

LARGE = (1000, 3000, 2000)  # sizes at which grids differ that are alike for small ones
USUAL = (16, 32)  # threads of a block along x and along y, where nothing else is named
FLAT = ("256", "128", "1024")  # threads of a block of one dimension
TILE = tuple(
    f"{of}(?:_?SIZE)?_?{axis}|{of}_(?:TILE_)?SIZE_{along}"
    for of in ("(?:B|BLOCK|TILE)", "T(?:HREAD)?")
    for axis, along in ("MY", "NX")
)
"""Names of a block's rows and columns of C, and of a thread's."""
ANY_GRID = (
    "It steps on by the size of its grid, so that any grid should do. This one has a thread for each element of C."
)
MOST_THREADS, MOST_TRIALS, LOOKED_AT, ENDLESS = 1024, 100, 24, 1 << 17
"""Threads of a block; launches to try; those to search for usual mistakes; instructions of a thread in each."""
SAID = "// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)"


class _EndlessError(ArgumentError):
    """A launch that was tried seems never to end."""


def kernel_from(path: str | Path, launch: str = "", **parameters: int | str) -> Kernel:
    """Return the kernel in a CUDA file, to call, check, trace and time like those of the book.

    Parameters
    ----------
    path : str or Path
        The file. It keeps the contract (``python -m lab new --help`` prints it), or it is a matrix product in another
        style. It is read again each time the kernel is used; its name, its launch and its parameters are read now.
    launch : str
        How it is launched, before what the file says: ``"grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16)"``; the
        end of ``python -m lab check --help`` says what else. What neither says is found by trying.
    **parameters : int or str
        Template arguments; those that the file gives a default may be left out.

    Raises
    ------
    ArgumentError
        There is no such file, it holds no kernel or several, a parameter is unknown, missing or no whole number, the
        launch can't be read, or no way that was tried gives the right product.
    """
    return guessed(path, launch, **parameters)[0]


def guessed(path: str | Path, launch: str = "", **parameters: int | str) -> tuple[Kernel, str, tuple[str, ...]]:
    """Return what `kernel_from` does, the comment that says its launch if that had to be guessed, and what to tell.

    That is a line for the launch of the file's host code, if it is taken or cannot be read, and for what seems wrong.
    """
    reading = read(path, launch, parameters)
    if reading.keeps_contract:
        return by_contract(path, **parameters), "", ()
    host = f"The launch in {reading.host}"
    told = reading.doubts
    if {"grid", "block"} <= reading.said.keys():
        try:
            kernel = written(reading, reading.said)
            return kernel, "", (f"{host} is taken: {kernel.family.rule}", *told) if reading.by_host else told
        except ArgumentError as error:
            if not reading.by_host:
                raise
            told = (f"{host} cannot be read: {' '.join(error.argument.split())}", *told)
        reading = dataclasses.replace(reading, said={k: v for k, v in reading.said.items() if k not in reading.by_host})
    rule = written(reading, {"grid": "1", "block": "1"} | reading.said).family.rule  # or this says what is not plain
    kernels = _launched(reading)
    others = () if "arguments" in reading.said or rule.square else _renamed(reading, rule, kernels)
    endless, enough = None, 0
    for kernel in itertools.chain(kernels, others):
        threads = kernel.threads * math.prod(kernel.family.grid(kernel.parameters, *_size(kernel)))
        try:
            if threads >= enough and _right(kernel):
                return kernel, f"// launch: {kernel.family.rule}", (*told, *[ANY_GRID] * reading.strided)
        except _EndlessError as error:  # or few threads with much to do, each
            if endless:
                raise
            endless, enough = error, 8 * threads
    if endless:
        raise endless
    tried = ", ".join(dict.fromkeys(kernel.family.rule.block for kernel in kernels)) or "nothing"
    hint, said = "", SAID
    by_columns = [kernel for kernel in kernels if kernel.family.rule.column_major]
    for kernel in (*kernels[:LOOKED_AT], *by_columns[:LOOKED_AT]):
        result = check(kernel, *_size(kernel), on_gpu=False)
        lines = diagnosis(kernel, result, launched=True)
        transposed = re.fullmatch(r"If .*: (transposed = (.*))", lines[-1])
        if transposed and "transposed" not in reading.said:
            other = kernel_from(path, f"{kernel.family.rule}, {transposed[1]}", **parameters)
            if _right(other):
                doubt = f"It reads {transposed[2]} column by column, as if it lay transposed: check that this is meant."
                return other, f"// launch: {other.family.rule}", (*told, doubt)
        likely = [line.rstrip(".") for line in lines if line.startswith(("The result", "The s", "The terms"))]
        if any("nearly right" in line for line in likely):
            return kernel, f"// launch: {kernel.family.rule}", (*told, likely[0])
        if likely or (result.fault.startswith("race") and not hint):
            hint = f". With that below: {[*likely, result.fault][0]}"
            said = f"// launch: {kernel.family.rule}"
        if likely:
            break
    large = ", ".join(_too_large(reading))
    large = f"; not {large}, which has more than {MOST_THREADS:,} threads" if large else ""
    raise ArgumentError(
        reading.path.name,
        f"no launch, and none that was tried gives a right product (blocks of {tried}{large}){hint}",
        said,
    )


def _launched(reading: Reading) -> list[Kernel]:
    """Return the kernel with each launch to try, by rows before by columns.

    Those with the block that the source counts with, and then those that only its own names make, come first, of
    these those with the fewest threads, or where any grid does those that have one for each element.
    """
    found = {}
    sides = dict(re.findall(rf"(?:{BLOCK})\s*\.\s*([xy])\s*\*\s*(\w+)\s*\+\s*(?:{THREAD})\s*\.\s*\1\b", reading.code))
    plain = f"({sides.get('x')}, {sides.get('y')})"  # where each thread has an element
    for (grid, block), layout in itertools.product(_ways(reading), ("row-major", "column-major")):
        try:
            kernel = written(reading, {"grid": grid, "block": block, "layout": layout} | reading.said)
            if 1 <= kernel.threads <= MOST_THREADS:
                family, of = kernel.family, kernel.parameters
                grids = [family.grid(of, *size) for size in (_size(kernel), LARGE)]
                same = *grids, family.block(of), family.rule.column_major
                foreign = bool(re.search(r"\b\d", grid + block)) - 2 * (block == plain)
                least, all_of_it = (math.prod(grid) * kernel.threads for grid in grids)
                found.setdefault(
                    same, (foreign, abs(all_of_it - LARGE[0] * LARGE[1]) if reading.strided else least, kernel)
                )
        except ArgumentError:  # no whole number
            continue
    ordered = sorted(found.values(), key=lambda one: one[:2])
    rows = [kernel for *_, kernel in ordered if not kernel.family.rule.column_major]
    columns = [kernel for *_, kernel in ordered if kernel.family.rule.column_major]
    return rows[:MOST_TRIALS] + columns[:MOST_TRIALS]


def _too_large(reading: Reading) -> Iterator[str]:
    """Yield the blocks in the source's own names alone that have more threads than a GPU allows."""
    for block in dict.fromkeys(block for _, block in _ways(reading) if not re.search(r"\b\d", block)):
        try:
            if math.prod(extents(block, reading.names | reading.values)) > MOST_THREADS:
                yield block
        except ArgumentError:  # no whole number
            continue


def _renamed(reading: Reading, rule: Rule, kernels: list[Kernel]) -> Iterator[Kernel]:
    """Yield the launches that are right for square matrices, with M, N and K in other orders.

    Some call A's columns n and C's k, and some call the rows N; where all sizes are equal, names make no difference.
    """
    for kernel in kernels:
        rows, _, depth = _size(kernel)
        if not _passes(kernel, (max(rows, depth),) * 3):
            continue
        for order in itertools.islice(itertools.permutations(SIZES), 1, None):
            roles = dict(zip(SIZES, order, strict=True))
            of = kernel.family.rule
            said = {"grid": of.grid, "block": of.block, "layout": "column-major" if of.column_major else "row-major"}
            said["arguments"] = " ".join(roles.get(role, role) for role in rule.arguments)
            yield written(reading, reading.said | said)


def _ways(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield grids and blocks to try, in the source's own names."""
    body, names = reading.code, {**reading.names, **reading.values}
    numbers = {**reading.names, **{name: of for name, of in reading.values.items() if isinstance(of, int)}}
    used = {*re.findall(r"\w+", body)} - {one.name for one in reading.signature.arguments}
    named = [name for name in numbers if name in used and numbers[name] not in (0, 1)]
    high, deep = (bool(re.search(rf"\b(?:{of})\s*\.\s*y\b", body)) for of in (THREAD, BLOCK))
    strides = re.findall(rf"(?:{BLOCK})\s*\.\s*[xy]\s*\*\s*(\d+)\b", body)
    sides = list(dict.fromkeys((*named, *(strides if high else ()), *map(str, USUAL))))
    tall, wide, rows, columns = (next((name for name in names if re.fullmatch(of, name, re.I)), "") for of in TILE)
    lines = [f"{x} * {y}" for x, y in itertools.combinations_with_replacement(sides, 2)] + [*sides, *FLAT]
    blocks = [f"({x}, {y})" for x, y in itertools.product(sides, repeat=2)] if high else lines
    if tall and wide:
        across, down = f"{wide} / {columns or rows}" if columns or rows else wide, f"{tall} / {rows}" if rows else tall
        flat = [f"{tall} * {wide}" + f" / {by}" * bool(by) for by in (f"({rows} * {columns})" * bool(columns), rows)]
        mine = [f"({across}, {down})", f"({wide}, {down})", f"({wide}, {tall})"] if high else flat
        blocks = mine + (blocks if high else [*FLAT])
    bounds, by_name = reading.signature.bounds, r".*threads(?:_?per_?block)?"
    counted = [bounds] if bounds else [name for name in named if re.fullmatch(by_name, name, re.I)]
    blocks = [
        reading.said.get("block", of) for of in (blocks if high else counted or (FLAT if reading.strided else blocks))
    ]
    for block in dict.fromkeys(blocks):
        extents = parts(block[1:-1]) if block[0] == "(" else [block]
        coarse = [f"{one} * {by}" for one, by in itertools.product(extents, named) if one != by]
        tiles = [
            *itertools.product(dict.fromkeys((*extents, *sides, *coarse)), repeat=2),
            *itertools.permutations(dict.fromkeys(strides), 2),
        ]
        for tm, tn in [(tall, wide)] if tall and wide else tiles:
            across, down = f"cdiv(N, {tn})", f"cdiv(M, {tm})"
            if deep:
                yield from ((f"({across}, {down})", block), (f"({down}, {across})", block))
            else:
                yield f"{down} * {across}", block
        if not deep:
            yield from ((f"cdiv({of}, {block})", block) for of in ("M * N", "M * N * 32", "M", "N"))
    if deep and not (high or (tall and wide)):  # threads along one side of C, blocks along the other one
        for block in dict.fromkeys(reading.said.get("block", of) for of in strides or (*named, *FLAT)):
            across, down = f"cdiv(N, {block})", f"cdiv(M, {block})"
            yield from ((grid, block) for grid in (f"({across}, M)", f"(M, {across})", f"({down}, N)", f"(N, {down})"))


def _size(kernel: Kernel) -> tuple[int, int, int]:
    """Return sizes that suit tiles of powers of two, and that tell rows from columns unless matrices are square."""
    rule = kernel.family.rule
    named = [int(text) for text in (*rule.names.values(), *kernel.parameters.values()) if str(text).isdecimal()]
    products = (one * other for one, other in itertools.combinations(named, 2))  # where threads are coarsened
    side = 128 if any(32 < number <= 128 for number in (*named, *products)) else 32
    return (side, side, side) if rule.square else (side, 2 * side, 64)


def _right(kernel: Kernel) -> bool:
    """Whether a kernel computes two products of other proportions: in one alone, too few blocks may be enough.

    A fault says no. What doesn't compile, or the simulator doesn't know, is raised, for no launch would mend it, and so
    is a loop that never ends, for all trials together would take hours.
    """
    rows, columns, depth = _size(kernel)
    larger = (2 * rows,) * 3 if kernel.family.rule.square else (2 * columns, rows, 2 * depth)
    return _passes(kernel, (rows, columns, depth), larger)


def _passes(kernel: Kernel, *sizes: tuple[int, int, int]) -> bool:
    """Whether a kernel computes products of these sizes; see `_right`."""
    for size in sizes:
        try:
            result = check(kernel, *size, on_gpu=False, budget=ENDLESS)
        except ArgumentError:  # more shared memory than there is
            return False
        if result.endless:
            raise _EndlessError(kernel.path.name, result.fault, f"a loop that ends, or its launch: {SAID}")
        if not result:
            return False
    return True

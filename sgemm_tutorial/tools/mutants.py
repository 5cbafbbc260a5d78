"""Breaks every kernel of the ladder in every way that a few small rules can, and counts the breaks that are noticed.

``python -m tests.mutations [-v] [kernel ...]`` prints, per kernel and rule, how many were made and how many caught.
A mutant that survives is either a hole in `verdict` or does nothing wrong; `EQUIVALENT` argues each of the latter.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ..catalogue import LADDER, find
from ..errors import CompileError, SimulationFault, UnsupportedInstruction
from ..kernel import Kernel
from ..simulation import simulate
from ..table import Table

Edit = tuple[int, int, str]  # replace the text between two places

STRIPS = {"BM": 64, "BN": 64, "BK": 8, "TM": 8, "TN": 8, "BLOCKS": 1}
WARPS = {"BM": 128, "BN": 64, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 1}
SMALL = {
    "07_vectorized": STRIPS,
    "08_conflict_free": STRIPS,
    "09_warp_tile": WARPS,
    "10_double_buffer": WARPS,
    "11_async_pipeline": WARPS | {"STAGES": 3},
}
"""Template arguments with which the later rungs are broken: they compile in a fraction of the time."""

PATIENCE = 20  # seconds that a verdict may take before a loop counts as endless; it takes well under one

NO_SUCH_REGISTER = """\
The array is in registers, and the round too many is about an element that it doesn't have. The compiler drops it."""

SAME_SUMS = """\
The columns of a row are walked in another order, but each product is still added to its own sum. It matters only to
what can be reused of the registers read before, which the simulator doesn't know; chapter 09 counts it in SASS."""

SAME_COPY = """\
Sixteen bytes are copied by cp.async.ca instead of cp.async.cg: through L1 and not past it. That may cost time, but the
simulator has no caches."""

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (find(rung).name, rule, text): why
    for why, rule, rungs, text in (
        (NO_SUCH_REGISTER, "boundary moved", "04 05 06 07 08 09 10 11", "for (int m = 0; m <= TM; ++m)"),
        (NO_SUCH_REGISTER, "boundary moved", "06", "for (int m = 0; m <= TM; ++m) fragA[m] = As[tileRow + m][k];"),
        (NO_SUCH_REGISTER, "boundary moved", "07", "for (int m = 0; m <= TM; ++m) fragA[m] = As[k][tileRow + m];"),
        (
            NO_SUCH_REGISTER,
            "boundary moved",
            "08 09",
            "for (int m = 0; m <= TM; ++m) fragA[m] = As[k][(tileRow ^ swizzle(k)) + m / 4 * nextM + m % 4];",
        ),
        (
            NO_SUCH_REGISTER,
            "boundary moved",
            "10",
            "for (int m = 0; m <= TM; ++m) fragA[m] = As[stage][k][(tileRow ^ swizzle(k)) + m / 4 * nextM + m % 4];",
        ),
        (
            NO_SUCH_REGISTER,
            "boundary moved",
            "11",
            "for (int m = 0; m <= TM; ++m) fragA[m] = As[stage][k][tileRow + m / 4 * nextM + m % 4];",
        ),
        (NO_SUCH_REGISTER, "boundary moved", "06 07", "for (int n = 0; n <= TN; ++n) fragB[n] = Bs[k][tileCol + n];"),
        (
            NO_SUCH_REGISTER,
            "boundary moved",
            "08 09",
            "for (int n = 0; n <= TN; ++n) fragB[n] = Bs[k][tileCol + n / 4 * nextN + n % 4];",
        ),
        (
            NO_SUCH_REGISTER,
            "boundary moved",
            "10 11",
            "for (int n = 0; n <= TN; ++n) fragB[n] = Bs[stage][k][tileCol + n / 4 * nextN + n % 4];",
        ),
        (NO_SUCH_REGISTER, "boundary moved", "10", "for (int i = 0; i <= BM / stepA; ++i)"),
        (NO_SUCH_REGISTER, "boundary moved", "10", "for (int i = 0; i <= BM / stepA; ++i) {"),
        (NO_SUCH_REGISTER, "boundary moved", "10", "for (int i = 0; i <= BK / stepB; ++i)"),
        (SAME_SUMS, "quotient for remainder", "09 10 11", "const int n = m / 2 ? TN - 1 - i : i;"),
        (SAME_COPY, "condition decided", "11", "if constexpr (false)"),
    )
    for rung in rungs.split()
}
"""Mutants that compute the same: (kernel, rule, changed line) and the argument why."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A kernel with one thing wrong.

    Attributes
    ----------
    kernel : Kernel
        The sound one.
    rule : str
        What was done to it.
    file : str
        The kernel's source file, or a header that it includes.
    line : int
        Where in it.
    text : str
        The line, or what is left of it, afterwards.
    source : str
        The whole file.
    """

    kernel: Kernel
    rule: str
    file: str
    line: int
    text: str
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What `EQUIVALENT` knows it by: nothing that moves when lines are added elsewhere."""
        return self.kernel.name, self.rule, self.text

    def __str__(self) -> str:
        return f"{self.kernel.name}, {self.rule}, {self.file}, line {self.line}: {self.text}"


# Making mutants. Every rule reads the code with all else blanked out, so that places in it are places in the source,
# and yields lists of edits that together make one mutant.


def blanked(source: str) -> str:
    """Return the source with comments, strings, template brackets, assertions and the like blanked, same length."""
    for pattern in (
        r"//[^\n]*",
        r'"[^"\n]*"',
        r"/\*.*?\*/",
        r"(?m)^\s*#[^\n]*",
        r"static_assert\([^;]*;",
        r"template\s*<[^>]*>",
        r"__launch_bounds__\([^\n]*\)",
        r"\b[\w:]+<[\w\s,*:&]+>(?=\s*[(\w:])",
    ):
        source = re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match[0]), source, flags=re.DOTALL)
    return source


def without_barrier(code: str) -> Iterator[list[Edit]]:
    """Remove a barrier."""
    for match in re.finditer(r"__sync\w+\([^;]*\);", code):
        yield [(*match.span(), ";")]


def without_copy_or_wait(code: str) -> Iterator[list[Edit]]:
    """Remove a copy, a commit or a wait, or wait for one group less."""
    for match in re.finditer(r"asm volatile\([^;]*\);", code):
        yield [(*match.span(), ";")]
    for match in re.finditer(r"\(STAGES - 2\)", code):
        yield [(*match.span(), "(STAGES - 1)")]


def with_index_shifted(code: str) -> Iterator[list[Edit]]:
    """Shift an array index by one."""
    opened: list[int] = []
    for match in re.finditer(r"[\[\]]", code):
        if match[0] == "[":
            opened.append(match.end())
            continue
        begin, end = opened.pop(), match.start()
        if not _declares(code, begin):
            yield [(begin, end, f"({code[begin:end]}) + 1")]


def _declares(code: str, place: int) -> bool:
    """Whether a bracket belongs to an array's declaration: a type stands before the array's name."""
    statement = re.split(r"[;{}()]", code[:place])[-1]
    return bool(re.match(r"\s*(?!return\b|else\b)(?:[\w:]+[\s*&]+)+\w+\s*\[", statement))


def with_condition_decided(code: str) -> Iterator[list[Edit]]:
    """Make a comparison always true, or always false: among others, drop one side of a guard."""
    for begin, _, _, end in _comparisons(code):
        yield [(begin, end, "true")]
        yield [(begin, end, "false")]


def with_boundary_moved(code: str) -> Iterator[list[Edit]]:
    """Let a comparison of order, in a guard or a loop, include its boundary, or exclude it."""
    other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
    for _, first, last, _ in _comparisons(code, loops=True):
        if code[first:last] in other:
            yield [(first, last, other[code[first:last]])]


def _comparisons(code: str, loops: bool = False) -> Iterator[tuple[int, int, int, int]]:
    """Yield where each comparison begins, its operator begins and ends, and it ends; those of loops only if asked."""
    headers = [(match.end(), _edge(code, match.end(), 1, ")")) for match in re.finditer(r"\bfor \(", code)]
    for match in re.finditer(r"(?<![<>=!\-+*/])(?:<=|>=|==|!=|<|>)(?![<>=])", code):
        if loops or not any(begin <= match.start() < end for begin, end in headers):
            begin, end = _edge(code, match.start(), -1, ",;?:=&|{}"), _edge(code, match.end(), 1, ",;?:=&|{}")
            skipped = re.match(r"\s*(?:return\b)?\s*", code[begin:end]).end()
            yield begin + skipped, *match.span(), begin + len(code[begin:end].rstrip())


def _edge(code: str, place: int, step: int, stops: str) -> int:
    """Walk from a place to the first stop that is not inside brackets, or out of the brackets the place is in."""
    opening, closing = ("([", ")]") if step > 0 else (")]", "([")
    depth = 0
    while 0 < place < len(code):
        letter = code[place] if step > 0 else code[place - 1]
        depth += (letter in opening) - (letter in closing)
        if depth < 0 or (depth == 0 and letter in stops):
            return place
        place += step
    return place


def with_loop_changed(code: str) -> Iterator[list[Edit]]:
    """Begin a loop one later, end it one turn earlier, or make a stride of its one longer."""
    for match in re.finditer(r"\bfor \(", code):
        header = code[match.end() : _edge(code, match.end(), 1, ")")]
        loop = re.fullmatch(r"[^;]*?(\w+) = ([^;]+);([^;]+);([^;]*)", header)
        strides = list(re.finditer(r"\+\+(\w+)|(\w+)\+\+|(\w+) \+= ([^,]+)", loop[4])) if loop else []
        lengths = {stride[1] or stride[2] or stride[3]: stride[4] or "1" for stride in strides}
        counter = re.search(rf"\b{loop[1]}\b", loop[3]) if loop else None
        if not counter or loop[1] not in lengths:
            continue
        yield [(match.end() + loop.end(2), match.end() + loop.end(2), " + 1")]
        end = match.end() + loop.start(3) + counter.end()
        yield [(end, end, f" + {lengths[loop[1]]}")]
        for stride, (name, length) in zip(strides, lengths.items(), strict=True):
            begin, end = (match.end() + loop.start(4) + place for place in stride.span())
            yield [(begin, end, f"{name} += {length} + 1")]


def with_statement_dropped(code: str) -> Iterator[list[Edit]]:
    """Drop a whole statement that is not a declaration: a store, a sum, an early return, α = 0."""
    for match in re.finditer(r"(?m)^[ ]*((?:if \(|return|[A-Za-z_][\w.]*(?:\[[^;]*\])? [-+*/]?= )[^;{}]*;)", code):
        yield [(*match.span(1), ";")]


def with_scalars_swapped(code: str) -> Iterator[list[Edit]]:
    """Swap α and β throughout the kernel's body."""
    if "__global__" not in code:
        return
    other = {"alpha": "beta", "beta": "alpha"}
    body = code.index("{", code.index("__global__"))
    yield [(*match.span(), other[match[0]]) for match in re.compile(r"\b(?:alpha|beta)\b").finditer(code, body)]


def with_rows_for_columns(code: str) -> Iterator[list[Edit]]:
    """Take the remainder for the quotient, or the other way round."""
    for match in re.finditer(r"(?<= )[/%](?= )", code):
        yield [(*match.span(), {"/": "%", "%": "/"}[match[0]])]


RULES = {
    "barrier removed": without_barrier,
    "copy or wait removed": without_copy_or_wait,
    "index shifted by one": with_index_shifted,
    "condition decided": with_condition_decided,
    "boundary moved": with_boundary_moved,
    "loop changed": with_loop_changed,
    "statement dropped": with_statement_dropped,
    "alpha and beta swapped": with_scalars_swapped,
    "quotient for remainder": with_rows_for_columns,
}


def small(kernel: Kernel) -> Kernel:
    """Return the kernel with the template arguments that `SMALL` has for it."""
    return kernel.variant(**SMALL.get(kernel.name, {}))


def mutants(kernel: Kernel) -> list[Mutant]:
    """Return the kernel, with `SMALL` template arguments, broken in every way the rules know, each way once.

    Its source file is broken, and so are the headers that it includes, one file at a time.
    """
    kernel = small(kernel)
    found: dict[str, Mutant] = {}
    for file, source in kernel.files.items():
        code = blanked(source)
        for rule, breaks in RULES.items():
            for edits in breaks(code):
                broken = source
                for begin, end, replacement in reversed(edits):
                    broken = broken[:begin] + replacement + broken[end:]
                line = source.count("\n", 0, edits[0][0]) + 1
                text = " ".join(broken.splitlines()[line - 1].partition("//")[0].split())
                found.setdefault("".join(blanked(broken).split()), Mutant(kernel, rule, file, line, text, broken))
    return list(found.values())


# Judging them.


class Endless(Exception):  # noqa: N818 - what is found, not an error of ours
    """A simulated kernel does not come to an end."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise Endless if the body takes longer."""

    def interrupt(*_: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def integers(rows: int, columns: int, seed: int, shift: bool) -> np.ndarray:
    """Return small integers other than 0: float32 adds and multiplies them exactly, in any order.

    Shifted, the matrix begins one element into its memory.
    """
    random = np.random.default_rng(seed)
    count = rows * columns + shift
    values = random.integers(1, 8, count).astype(np.float32) * random.choice(np.array([-1, 1], np.float32), count)
    return values[int(shift) :].reshape(rows, columns)


def cases(kernel: Kernel) -> Iterator[tuple[tuple[int, int, int], float, float, str]]:
    """Yield shapes, α, β and the matrices to shift.

    Between them they show whatever can be wrong, the cheap and telling ones first.
    """
    BM, BN, BK = (kernel.parameters.get(name, 8) for name in ("BM", "BN", "BK"))
    yield (3, 5, 1), 1.0, 0.0, ""
    yield (BM + 1, BN + 1, BK + 1), 2.0, -3.0, ""
    yield (3, 5, 4), 0.0, 2.0, ""
    yield (3, 5, 4), 0.0, 0.0, ""
    yield (3, 5, 0), float("nan"), 2.0, ""
    yield (3, 5, 0), float("inf"), 0.0, ""
    yield (BM, BN, BK), 2.0, 0.0, ""
    yield (2 * BM, BN - 1, 2 * BK - 1), -1.0, 1.0, ""
    yield (BM - 1, 2 * BN + 2, 3 * BK - 2), 1.0, 2.0, ""
    yield (BM + 4, 2 * BN + 4, 5 * BK + 4), 1.0, 2.0, ""
    for shifted in "ABC":
        yield (BM, BN, 2 * BK), 1.0, 2.0, shifted


PTX_ALONE = "compute_90"  # compiled in half the time


class Wrong(Exception):  # noqa: N818 - what is found, not an error of ours
    """A kernel does not do what BLAS does."""


def attempts(kernel: Kernel) -> Iterator[tuple[str, int]]:
    """Run a kernel in all cases; yield each, in words, and the requests to global memory and wavefronts it took.

    Results are exact, so that right means equal. What must not be read holds NaN: C where β = 0, A and B where α = 0.

    Raises
    ------
    Wrong, SimulationFault, UnsupportedInstruction
        Something is wrong.
    """
    for (M, N, K), alpha, beta, shifted in cases(kernel):
        A = integers(M, K, 1, "A" in shifted)
        B = integers(K, N, 2, "B" in shifted)
        C = integers(M, N, 3, "C" in shifted)
        expected = (alpha * (A @ B) if K and alpha else 0 * C) + (beta * C if beta else 0)
        for unread in ([A, B] if alpha == 0 else []) + ([C] if beta == 0 else []):
            unread[:] = np.nan
        at = f"at M, N, K = {M}, {N}, {K}, α = {alpha:g}, β = {beta:g}"
        for given in (C, None) if beta == 0 else (C,):
            run = simulate(kernel, A, B, given, alpha, beta, architecture=PTX_ALONE)
            if not np.array_equal(run.C, expected):
                raise Wrong(f"wrong result {at}")
            read = run.total.global_load_bytes
            if (alpha == 0 or K == 0) and read != (C.nbytes if beta else 0):
                raise Wrong(f"reads {read} bytes {at}")
            if (alpha == 0 or K == 0) and run.total.shared_load_requests:
                raise Wrong(f"multiplies A and B {at}")
            yield at, sum(getattr(run.total, name) for name in COSTS)


COSTS = ("global_load_requests", "global_store_requests", "shared_load_wavefronts", "shared_store_wavefronts")


@cache
def cost(name: str, parameters: tuple[tuple[str, int], ...]) -> list[int]:
    """Return what `attempts` counts for the kernel of the catalogue, by case."""
    return [taken for _, taken in attempts(find(name).variant(**dict(parameters)))]


def verdict(kernel: Kernel) -> str | None:
    """Say what is wrong with a kernel, or None: a wrong result, a fault, work or a read that BLAS does not do.

    Nor may it take more requests and wavefronts than the kernel of its name in the catalogue: the fast path must be
    taken, and no bank conflict come back.
    """
    try:
        with patience(PATIENCE):
            needed = cost(kernel.name, tuple(kernel.parameters.items()))
            for (at, taken), enough in zip(attempts(kernel), needed, strict=True):
                if taken > enough:
                    return f"takes {taken} requests and wavefronts where {enough} do {at}"
    except (Wrong, SimulationFault, UnsupportedInstruction) as found:
        return str(found)
    except Endless:
        return "does not end"
    return None


def judge(mutant: Mutant, folder: Path) -> str | None:
    """Return the verdict on a mutant, whose files are put into the folder."""
    for file, source in (mutant.kernel.files | {mutant.file: mutant.source}).items():
        (folder / file).write_text(source, encoding="utf-8")
    try:
        return verdict(dataclasses.replace(mutant.kernel, folder=folder))
    except CompileError as error:
        return f"does not compile: {error}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge all mutants of some kernels and print what was found; return how many survive without an argument."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernels", nargs="*", type=find, help="all of the ladder if left out")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every mutant and its verdict")
    options = parser.parse_args(arguments)
    rows, unexplained = [], 0
    for kernel in options.kernels or LADDER:
        made, caught = Counter(), Counter()
        with tempfile.TemporaryDirectory() as folder:
            for mutant in tqdm(mutants(kernel), desc=kernel.name, leave=False, disable=None):
                found = judge(mutant, Path(folder))
                made[mutant.rule] += 1
                caught[mutant.rule] += found is not None
                if found is None:
                    reason = EQUIVALENT.get(mutant.key)
                    unexplained += reason is None
                    print(f"survives: {mutant}" + (f"\n    equivalent: {reason}" if reason else ""))
                elif options.verbose:
                    print(f"{mutant}\n    {found.partition(chr(10))[0]}")
        rows += [(kernel.name, rule, made[rule], caught[rule]) for rule in RULES if made[rule]]
        rows.append((kernel.name, "all", made.total(), caught.total()))
    print(Table(("kernel", "what was broken", "mutants", "caught"), rows, "Mutants"))
    return unexplained


if __name__ == "__main__":
    raise SystemExit(bool(main()))

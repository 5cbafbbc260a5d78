"""Runs kernels on random problems on a GPU, and compares every element of every result with its error bound.

Each kernel of the catalogue gets `PROBLEMS` of them, each variant that chapters compare a tenth of that. Everything
stays on the GPU: the matrices come from one pool of random numbers, and the reference, in float64, is computed there
too.
"""

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from ptxsim import bar
from sgemm_tutorial import gpu
from sgemm_tutorial.catalogue import CATALOGUE
from sgemm_tutorial.errors import SimulationFault
from sgemm_tutorial.families import autotuned
from sgemm_tutorial.kernel import Kernel

from .. import variants
from ..correctness import GUARD_OF_C, GUARD_OF_INPUT, excess, guard_band
from ..measure.driver import Item, Plan
from ..records.checks import Fuzzed
from ..records.files import Recording, identity

PROBLEMS = 2000
GETS = dict.fromkeys(CATALOGUE, PROBLEMS) | {autotuned.KERNEL: 5 * PROBLEMS}
"""The number of problems for a kernel of the catalogue; 13 gets more for its many settings, a variant a tenth."""
SEED = 2026
POOL = 1 << 22  # normal numbers
SHOWN = 10  # failures per kernel
KINDS = {"tiny": 10, "edges": 30, "tiles": 20, "fours": 15, "primes": 8, "skinny": 10, "medium": 7}
"""The ways in which extents are drawn, and how often each is used."""
SCALARS = ((1.0, 0.0), (1.0, 1.0), (-1.5, 0.75), (0.0, 2.0), (0.0, 0.0), (1.0, -1.0), (-1.0, 0.0))
VALUES = (float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 1e-30, 1e38)
"""Special values. Subnormals are not among them, as CuPy takes them for 0 when it converts float32 to float64;
`correctness.check` and the recorded checksums have them."""
PRIMES = [n for n in range(2, 500) if all(n % divisor for divisor in range(2, n))]


def case(kernel: Kernel, number: int) -> dict[str, Any]:
    """Return one problem; it depends on the kernel's name and parameters, its number and `SEED` alone.

    Returns
    -------
    dict
        ``kind``, one of `KINDS`; the sizes ``M``, ``N``, ``K``; ``alpha`` and ``beta``, exact in float32; ``shifts``,
        the elements past a multiple of 512 bytes that A, B and C begin at; ``places``, where in the pool their values
        begin, as fractions of what is left; and ``special``, a few of `VALUES` to put into a matrix: its index, the
        place as a fraction of its elements, and the value.
    """
    draw = random.Random(f"{SEED} {kernel.expression} {number}")
    tile = [kernel.parameters.get(name, 8) for name in ("BM", "BN", "BK")]
    (kind,) = draw.choices(list(KINDS), list(KINDS.values()))
    extents = {
        "tiny": lambda size: draw.randint(0, 8),
        "edges": lambda size: max(draw.randint(0, 3) * size + draw.choice((-4, -2, -1, 0, 1, 2, 4)), 0),
        "tiles": lambda size: draw.randint(1, 3) * size,
        "fours": lambda size: 4 * draw.randint(1, 100),
        "primes": lambda size: draw.choice(PRIMES),
        "skinny": lambda size: draw.randint(1, 40),
        "medium": lambda size: draw.randint(1, 700),
    }
    shape = [extents[kind](size) for size in tile]
    if kind == "skinny":
        shape[draw.randrange(3)] = draw.randint(1000, 5000)
    shifts = [0, 0, 0]
    aligned = draw.random()
    if aligned < 0.25:  # one of them alone: a kernel may look at the other two
        shifts[draw.randrange(3)] = draw.randint(1, 3)
    elif aligned < 0.5:
        shifts = [draw.randint(0, 3) for _ in shifts]
    alpha, beta = draw.choice((*SCALARS, *[(draw.randint(-512, 512) / 256, draw.randint(-512, 512) / 256)] * 3))
    if kernel.exact and draw.random() < 0.75:  # what the copy engine can fetch
        wide = 16 // kernel.types.operand.itemsize
        shape[1:], shifts[:2] = [-(-extent // wide) * wide for extent in shape[1:]], [0, 0]
    special = [(draw.randrange(3), draw.random(), draw.choice(VALUES)) for _ in range(4 * (draw.random() < 0.1))]
    return {
        "kind": kind,
        **dict(zip("MNK", shape, strict=True)),
        "alpha": alpha,
        "beta": beta,
        "shifts": tuple(shifts),
        "places": tuple(draw.random() for _ in shape),
        "special": special,
    }


def is_aligned(problem: dict[str, Any]) -> bool:
    """Whether all rows of all three matrices begin at multiples of 16 bytes."""
    return not any(problem["shifts"]) and problem["N"] % 4 == problem["K"] % 4 == 0


@lru_cache(maxsize=4)
def pool(xp: Any, dtype: np.dtype) -> Any:
    """Return the same standard-normal numbers as a NumPy or, for CuPy, a CuPy array."""
    drawn = np.float64 if dtype == np.float64 else np.float32
    return xp.asarray(np.random.default_rng(SEED).standard_normal(POOL, drawn).astype(dtype))


def judge(kernel: Kernel, problem: dict[str, Any], xp: Any = cupy) -> tuple[float, bool]:
    """Run a kernel on a problem, and return its worst error over its bound, and whether it wrote only C.

    As in `correctness.check`, A, B and C lie in larger buffers, NaN where BLAS says that they are not read, between
    guard bands as wide as a block: of NaN, and round C of a pattern that must survive.
    """
    M, N, K, alpha, beta = (problem[name] for name in ("M", "N", "K", "alpha", "beta"))
    shapes = ((M, K), (K, N), (M, N))
    dtypes = (kernel.types.operand, kernel.types.operand, kernel.types.result)
    unread = (alpha == 0, alpha == 0, beta == 0)
    buffers, matrices = [], []
    for i, ((rows, columns), dtype) in enumerate(zip(shapes, dtypes, strict=True)):
        size, (band, start) = rows * columns, guard_band(columns, dtype.itemsize)
        start += problem["shifts"][i]
        guard = (GUARD_OF_C if i == 2 else GUARD_OF_INPUT)[dtype.itemsize]
        buffer = xp.full(start + size + band, guard, f"u{dtype.itemsize}")
        matrix = buffer[start : start + size].view(dtype)
        begin = int(problem["places"][i] * (POOL - size))
        matrix[:] = np.nan if unread[i] else pool(xp, dtype)[begin : begin + size]
        with np.errstate(over="ignore"):  # FP16 has no 1e38
            for which, place, value in problem["special"]:
                if which == i and size and not unread[i]:
                    matrix[int(place * size)] = value
        buffers.append(buffer)
        matrices.append(matrix.reshape(rows, columns))
    before = [buffer.copy() for buffer in buffers]
    A, B, C = matrices
    old = C.copy()
    kernel(A, B, C, alpha, beta)
    before[2][start : start + size] = C.ravel().view(before[2].dtype)  # C, the last of the three, is to change
    touched = sum((now != then).any() for now, then in zip(buffers, before, strict=True))
    worst = excess(C, A, B, old, alpha, beta, kernel.types).max() if C.size else touched * 0.0
    worst, touched = xp.stack([worst, touched.astype(np.float64)]).tolist()
    return worst, not touched


def fuzz(kernel: Kernel, problems: int, xp: Any = cupy) -> Fuzzed:
    """Run a kernel on that many problems, and return what to record of it.

    Raises
    ------
    DeviceError
        The GPU failed; the message says in which problem.
    """
    worst, failures, aligned = 0.0, 0, 0
    for number in bar(range(problems), show=None, unit=f" problems of {kernel.expression}"):
        problem = case(kernel, number)
        described = f"{kernel.expression} {kernel.label}".strip() + f", case {number} of seed {SEED}: {problem}"
        with gpu.reported(described):
            try:
                ratio, intact = judge(kernel, problem, xp)
                wrong = "" if intact else "wrote outside C"
            except SimulationFault as fault:
                ratio, wrong = 0.0, str(fault)
        if not ratio <= 1:
            wrong = f"an element is {ratio:.3g} times its error bound off" + f", {wrong}" * bool(wrong)
        if wrong and failures < SHOWN:
            print(f"FAILED: {described}: {wrong}", flush=True)
        failures += bool(wrong)
        worst = max(worst, ratio)
        aligned += is_aligned(problem)
    return Fuzzed.of(
        kernel,
        problems=problems,
        aligned=aligned,
        failures=failures,
        worst_error_over_bound=worst if worst < float("inf") else None,  # JSON cannot hold the others
    )


def plan() -> Plan:
    """Return the plan of the recording."""
    left_out = variants.STEPS[0].label, "no guards"  # the first is 13 itself, the second is wrong at edges
    kept = {identity(kernel): kernel for kernel in variants.EVERY if kernel.label not in left_out}
    for kernel in CATALOGUE:  # 13 as it chooses has the identity of its settled self
        kept.pop(identity(kernel), None)
    kernels = *CATALOGUE, *kept.values()
    settings = {"problems": PROBLEMS, "problems of a variant": PROBLEMS // 10, "seed": SEED}
    return Plan("fuzz", Recording[Fuzzed], [(kernel,) for kernel in kernels], measure, settings, takes=2.0)


def measure(missing: Sequence[Item]) -> Iterator[Fuzzed]:
    """Fuzz kernels on the GPU of this machine."""
    for (kernel,) in missing:
        yield fuzz(kernel.family.itself(kernel), GETS.get(kernel, PROBLEMS // 10))

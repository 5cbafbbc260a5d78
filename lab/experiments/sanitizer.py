"""Runs every kernel under the four tools of compute-sanitizer, which must find nothing.

Each tool must find something in kernels that are broken on purpose.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import cupy
import numpy as np

from sgemm_tutorial.catalogue import CATALOGUE, find
from sgemm_tutorial.errors import TutorialError
from sgemm_tutorial.kernel import Kernel

from .. import variants
from ..measure.driver import Item, Plan
from ..measure.nsight import program
from ..paths import ROOT
from ..records.checks import Sanitized
from ..records.files import Recording
from ..records.provenance import Provenance, provenance

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SCALARS = ((1.0, 0.0), (-1.5, 0.75), (0.0, 0.75))
SUMMARY = re.compile(r"^=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)", re.MULTILINE)
FOUND = 99  # what compute-sanitizer returns if it found something and the program itself ended well
LIMIT = 300  # seconds for one kernel
AT_ONCE = 8  # processes at most

COMPLETE = "__syncthreads();                                   // the tiles are complete"


def kernels() -> tuple[Kernel, ...]:
    """Return the kernels in which the tools must find nothing."""
    return (
        *CATALOGUE,
        variants.STEPS[1],
        variants.STEPS[-1],
        variants.STEP_IN_FP64,
        find("wmma_warp_tile").variant(STAGES=0),
        variants.HOPPER_STEPS[-1],
    )


def controls() -> list[tuple[str, Kernel]]:
    """Return tools, each with a kernel in which it must find something."""
    half = "if (threadIdx.x < 16) " + COMPLETE
    return [
        ("memcheck", find("coalesced").edited(("if (row >= M || col >= N) return;", ""), label="no bounds")),
        ("memcheck", find("vectorized").edited((" && aligned(C, N)", ""), label="C's alignment not looked at")),
        ("racecheck", find("shared_tile").edited((COMPLETE, ""), label="a barrier missing")),
        ("initcheck", find("coalesced").edited(("if (beta != 0.0f)", ""), label="C read where β = 0")),
        ("synccheck", find("shared_tile").edited((COMPLETE, half), label="a barrier for half of a warp")),
    ]


def plan() -> Plan:
    """Return the plan of the recording."""
    items = [(kernel, tool, False) for tool in TOOLS for kernel in kernels()]
    items += [(kernel, tool, True) for tool, kernel in controls()]
    settings = {"scalars": [list(pair) for pair in SCALARS]}
    return Plan("sanitizer", Recording[Sanitized], items, measure, settings, takes=1.0, made_on=made_on)


def measure(missing: Sequence[Item]) -> Iterator[Sanitized]:
    """Yield the findings of each tool in each kernel, several at once."""
    places = {item: place for place, item in enumerate(plan().items)}
    with ThreadPoolExecutor(min(AT_ONCE, os.cpu_count() or 1)) as pool:
        try:
            for done in as_completed([pool.submit(found, *item, places[item]) for item in missing]):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def found(kernel: Kernel, tool: str, broken: bool, place: int) -> Sanitized:
    """Run a tool on one item of the plan and return the point to record."""
    errors, launches, output = run(tool, place)
    if broken and kernel.function not in output:
        errors = 0  # the findings are not in this kernel
    if errors and not broken:
        print(output[:8000], flush=True)
    return Sanitized.of(kernel, tool=tool, launches=launches, errors=errors, broken=broken)


def made_on() -> Provenance:
    """Return the provenance, with compute-sanitizer's version."""
    text = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"Version ([\d.]+)", text)
    return {**provenance(), "compute_sanitizer": match[1] if match else text.strip()}


def shapes(kernel: Kernel) -> Iterator[tuple[int, int, int, tuple[int, int, int]]]:
    """Yield M, N, K, and the elements by which A, B and C are shifted: tiles whole, ragged, one unaligned, and no K."""
    BM, BN, BK = (kernel.parameters.get(name, 8) for name in ("BM", "BN", "BK"))
    yield 2 * BM, BN, 4 * BK, (0, 0, 0)
    yield BM + 3, BN + 5, 3 * BK + 1, (0, 0, 0)
    for shifts in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):  # each alone: a kernel may look at the other two
        yield BM, BN, 2 * BK, shifts
    yield 33, 17, 0, (0, 0, 0)
    if kernel.exact:
        yield BM + 3, BN + 8, 3 * BK + 8, (0, 0, 0)  # ragged, and still for the copy engine


def matrix(rows: int, columns: int, dtype: np.dtype, shift: int, written: bool, xp: Any = cupy) -> Any:
    """Return a matrix that begins `shift` elements into an allocation of its own, of ones or never written."""
    array = xp.empty(shift + rows * columns, dtype)[shift:].reshape(rows, columns)
    if written:
        ones = np.ones((rows, columns), dtype)
        array.set(ones) if xp is cupy else np.copyto(array, ones)  # a copy: CuPy launches no kernel for it
    return array


def launched(kernels: Sequence[Kernel], xp: Any = cupy) -> int:
    """Launch kernels on all their shapes and return how many launches that were.

    Matrices that BLAS must not read are never written.
    """
    launches = 0
    for kernel in kernels:
        for M, N, K, shifts in shapes(kernel):
            for alpha, beta in SCALARS:
                A = matrix(M, K, kernel.types.operand, shifts[0], alpha != 0, xp)
                B = matrix(K, N, kernel.types.operand, shifts[1], alpha != 0, xp)
                C = matrix(M, N, kernel.types.result, shifts[2], beta != 0, xp)
                kernel.family.itself(kernel)(A, B, C, alpha, beta)
                launches += 1
    return launches


def run(tool: str, place: int) -> tuple[int, int, str]:
    """Run a tool on one item of the plan; return the number of its findings, the launches and its output.

    Raises
    ------
    TutorialError
        The tool printed no summary, took longer than `LIMIT`, or found nothing though the program failed.
    """
    python = [sys.executable, *program("sanitizer", place)]
    command = ["compute-sanitizer", "--tool", tool, f"--error-exitcode={FOUND}", *python]
    what = f"{tool} of item {place}"
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise TutorialError(f"{what}: not done within {LIMIT} s") from None
    output = done.stdout + done.stderr
    counts = [int(errors or hazards) for errors, hazards in SUMMARY.findall(output)]
    if not counts:
        raise TutorialError(f"no summary in the output of compute-sanitizer:\n{output[-2000:]}")
    if not any(counts) and done.returncode:
        raise TutorialError(f"{what}: the program ended with {done.returncode}:\n{output[-2000:]}")
    launches = re.search(r"^(\d+) launches$", done.stdout, re.MULTILINE)
    return sum(counts), int(launches[1]) if launches else 0, output


def launch(items: Sequence[Item]) -> None:
    """Launch the kernels of these items, and print how many launches that were."""
    cupy.cuda.set_allocator(None)  # without a pool, an access past an array's end is past its allocation's
    count = launched([kernel for kernel, *_ in items])
    cupy.cuda.Device().synchronize()
    print(count, "launches", flush=True)

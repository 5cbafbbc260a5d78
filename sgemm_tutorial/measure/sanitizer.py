"""Every kernel under compute-sanitizer, whose four tools must find nothing, but in broken kernels something each.

``python -m sgemm_tutorial.measure.sanitizer`` records the outcome, on a machine with a GPU and compute-sanitizer.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import cupy
import numpy as np

from .. import gpu
from ..catalogue import CATALOGUE, find
from ..errors import DeviceError, TutorialError
from ..kernel import Kernel
from ..paths import RESULTS
from ..records import files
from ..records.provenance import provenance
from ..variants import STEP_IN_FP64, STEPS

RECORD = RESULTS / "sanitizer.json"
ROOT = RESULTS.parent.parent
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SCALARS = ((1.0, 0.0), (-1.5, 0.75), (0.0, 0.75))
SUMMARY = re.compile(r"^=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)", re.MULTILINE)
FOUND = 99  # what compute-sanitizer returns if it found something and the program itself ended well
LIMIT = 600  # seconds for one tool

COMPLETE = "__syncthreads();                                   // the tiles are complete"
KERNELS = (*CATALOGUE, STEPS[1], STEPS[-1], STEP_IN_FP64, find("15").variant(STAGES=0))
CONTROLS: tuple[tuple[str, str, Kernel], ...] = (
    ("memcheck", "no bounds", find("02").edited(("if (row >= M || col >= N) return;", ""))),
    ("memcheck", "C's alignment not looked at", find("07").edited((" && aligned(C, N)", ""))),
    ("racecheck", "a barrier missing", find("03").edited((COMPLETE, ""))),
    ("initcheck", "C read where β = 0", find("02").edited(("if (beta != 0.0f)", ""))),
    ("synccheck", "a barrier for half of a warp", find("03").edited((COMPLETE, "if (threadIdx.x < 16) " + COMPLETE))),
)
"""A tool, and a kernel in which it must find something."""


def shapes(kernel: Kernel) -> Iterator[tuple[int, int, int, tuple[int, int, int]]]:
    """Yield M, N, K, and the elements by which A, B and C are shifted: tiles whole, ragged, one unaligned, and no K."""
    BM, BN, BK = (kernel.parameters.get(name, 8) for name in ("BM", "BN", "BK"))
    yield 2 * BM, BN, 4 * BK, (0, 0, 0)
    yield BM + 3, BN + 5, 3 * BK + 1, (0, 0, 0)
    for shifts in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):  # each alone: a kernel may look at the other two
        yield BM, BN, 2 * BK, shifts
    yield 33, 17, 0, (0, 0, 0)


def matrix(rows: int, columns: int, dtype: np.dtype, shift: int, written: bool, xp: Any = cupy) -> Any:
    """Return a matrix that begins `shift` elements into an allocation of its own, of ones or never written."""
    array = xp.empty(shift + rows * columns, dtype)[shift:].reshape(rows, columns)
    if written:
        ones = np.ones((rows, columns), dtype)
        array.set(ones) if xp is cupy else np.copyto(array, ones)  # a copy: CuPy launches no kernel for it
    return array


def launch(kernels: Sequence[Kernel], xp: Any = cupy) -> int:
    """Launch kernels on all their shapes, what BLAS does not read never written; return how many launches."""
    launches = 0
    for kernel in kernels:
        for M, N, K, shifts in shapes(kernel):
            for alpha, beta in SCALARS:
                A = matrix(M, K, kernel.types.operand, shifts[0], alpha != 0, xp)
                B = matrix(K, N, kernel.types.operand, shifts[1], alpha != 0, xp)
                C = matrix(M, N, kernel.types.result, shifts[2], beta != 0, xp)
                kernel(A, B, C, alpha, beta)
                launches += 1
    return launches


def findings(output: str) -> int:
    """Return how many errors or hazards a tool's output reports.

    Raises
    ------
    TutorialError
        It has no summary.
    """
    found = [int(errors or hazards) for errors, hazards in SUMMARY.findall(output)]
    if not found:
        raise TutorialError(f"no summary in the output of compute-sanitizer:\n{output[-2000:]}")
    return sum(found)


def run(tool: str, what: str) -> tuple[int, int, str]:
    """Run a tool over the kernels or over a control; return its findings, the launches it saw and its output.

    Raises
    ------
    TutorialError
        The tool did not come to a summary, took longer than `LIMIT`, or found nothing though the program failed.
    """
    command = [
        "compute-sanitizer",
        "--tool",
        tool,
        f"--error-exitcode={FOUND}",
        sys.executable,
        "-m",
        "tests.sanitizer",
        "--run",
        what,
    ]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise TutorialError(f"{tool} of {what}: not done within {LIMIT} s") from None
    output = done.stdout + done.stderr
    found = findings(output)
    if not found and done.returncode:
        raise TutorialError(f"{tool} of {what}: the program ended with {done.returncode}:\n{output[-2000:]}")
    launches = re.search(r"^(\d+) launches$", done.stdout, re.MULTILINE)
    return found, int(launches[1]) if launches else 0, output


def of_kernels(tool: str) -> dict[str, Any]:
    """Run a tool over the kernels and return what to record of it."""
    errors, launches, output = run(tool, "all")
    print(f"{tool}: {errors} errors in {launches} launches", flush=True)
    if errors:
        print(output[:8000], flush=True)
    return {"tool": tool, "launches": launches, "errors": errors}


def of_control(number: int) -> dict[str, Any]:
    """Run a tool over its broken kernel and return what to record of it."""
    tool, change, kernel = CONTROLS[number]
    errors, _, output = run(tool, str(number))
    noticed = errors > 0 and kernel.function in output
    print(f"{tool}: {kernel.name}, {change}: {f'{errors} errors' if noticed else 'NOT NOTICED'}", flush=True)
    return {"tool": tool, "kernel": kernel.name, "change": change, "errors": errors, "noticed": noticed}


def main() -> int:
    """Record on the GPU of this machine; return 1 if a tool finds something, or nothing in a broken kernel."""
    try:
        gpu.capability()
        if not shutil.which("compute-sanitizer"):
            raise DeviceError("compute-sanitizer, of the CUDA toolkit, is not on the PATH")
        tools = [of_kernels(tool) for tool in TOOLS]
        controls = [of_control(number) for number in range(len(CONTROLS))]
    except TutorialError as error:
        print(error, file=sys.stderr)
        return 1
    version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"Version ([\d.]+)", version)
    kernels = [
        {
            "kernel": kernel.name,
            "parameters": kernel.parameters,
            "source": kernel.digest,
            "shapes": [[M, N, K, list(shifts)] for M, N, K, shifts in shapes(kernel)],
        }
        for kernel in KERNELS
    ]
    files.write(
        RECORD,
        {
            "provenance": provenance() | {"compute_sanitizer": match[1] if match else version.strip()},
            "scalars": [list(pair) for pair in SCALARS],
            "tools": tools,
            "controls": controls,
            "kernels": kernels,
        },
    )
    clean = all(one["errors"] == 0 and one["launches"] for one in tools) and all(one["noticed"] for one in controls)
    return int(not clean)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        cupy.cuda.set_allocator(None)  # no pool: an access past the end is past the allocation's
        count = launch(KERNELS if sys.argv[2] == "all" else [CONTROLS[int(sys.argv[2])][2]])
        cupy.cuda.Device().synchronize()
        print(count, "launches", flush=True)
    else:
        raise SystemExit(main())

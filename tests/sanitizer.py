"""Every kernel of the ladder under the four tools of compute-sanitizer, which must find nothing, and broken kernels,
in which each must find something.

``python -m tests.sanitizer`` on a machine with a GPU and compute-sanitizer records the outcome in ``book/results``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from sgemm_tutorial import LADDER, DeviceError, Kernel, TutorialError, find, records
from sgemm_tutorial.bench import digest

RECORD = records.RESULTS / "sanitizer.json"
SCALARS = ((1.0, 0.0), (-1.5, 0.75))
SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")


def broken() -> dict[str, Kernel]:
    """Return, for each tool, a kernel in which it must find something."""
    barrier = "__syncthreads();                                   // the tiles are complete"
    return {
        "memcheck": find("02").edited(("if (row >= M || col >= N) return;", "")),
        "racecheck": find("03").edited((barrier, "")),
        "initcheck": find("02").edited(("if (beta != 0.0f)", "")),
        "synccheck": find("03").edited((barrier, "if (threadIdx.x < 16) " + barrier)),
    }


def shapes(kernel: Kernel) -> Iterator[tuple[int, int, int, int]]:
    """Yield M, N, K and the floats by which the matrices are shifted: tiles whole, ragged, unaligned, and no K."""
    BM, BN, BK = (kernel.parameters.get(name, 8) for name in ("BM", "BN", "BK"))
    yield 2 * BM, BN, 4 * BK, 0
    yield BM + 3, BN + 5, 3 * BK + 1, 0
    yield BM, BN, 2 * BK, 1
    yield 33, 17, 0, 0


def launch(kernels: list[Kernel]) -> int:
    """Launch kernels on all their shapes, each matrix in an allocation of its own; return how many launches."""
    import cupy

    cupy.cuda.set_allocator(None)  # no pool: an access past the end is past the allocation's
    launches = 0
    for kernel in kernels:
        for M, N, K, shift in shapes(kernel):
            for alpha, beta in SCALARS:
                A, B, C = (cupy.empty(rows * columns + shift, np.float32)[shift:].reshape(rows, columns)
                           for rows, columns in ((M, K), (K, N), (M, N)))  # fmt: skip
                for matrix in (A, B, C)[: 3 if beta else 2]:  # where β = 0, C stays uninitialised
                    matrix.set(np.ones(matrix.shape, np.float32))
                kernel(A, B, C, alpha, beta)
                launches += 1
    cupy.cuda.Device().synchronize()
    return launches


def findings(output: str) -> int:
    """Return how many errors or hazards a tool's output reports.

    Raises
    ------
    TutorialError
        It has no summary.
    """
    found = [int(match[1] or match[2]) for match in SUMMARY.finditer(output)]
    if not found:
        raise TutorialError(f"no summary in the output of compute-sanitizer:\n{output[-2000:]}")
    return sum(found)


def run(tool: str, what: str) -> tuple[int, int]:
    """Run a tool over the ladder, or over its broken kernel; return the findings and how many launches it saw."""
    command = ["compute-sanitizer", "--tool", tool, sys.executable, "-m", "tests.sanitizer", what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    launches = re.search(r"^(\d+) launches$", done.stdout, re.MULTILINE)
    if what == "ladder" and not launches:
        raise TutorialError(f"{tool}: the launches did not end well:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return findings(done.stdout + done.stderr), int(launches[1]) if launches else 0


def main() -> int:
    """Record on the GPU of this machine; return 1 if a tool finds something, or nothing in its broken kernel."""
    if not shutil.which("compute-sanitizer"):
        raise DeviceError("compute-sanitizer is not on the PATH")
    tools = []
    for tool in broken():
        errors, launches = run(tool, "ladder")
        control, _ = run(tool, tool)
        tools.append({"tool": tool, "launches": launches, "errors": errors, "errors_in_broken_kernel": control})
        print(f"{tool}: {errors} errors in {launches} launches; {control} in the broken kernel", flush=True)
    version = subprocess.check_output(["compute-sanitizer", "--version"], text=True)
    kernels = [{"kernel": kernel.name, "parameters": kernel.parameters, "source": digest(kernel),
                "shapes": [list(shape) for shape in shapes(kernel)]} for kernel in LADDER]  # fmt: skip
    records.write(RECORD, {
        "provenance": records.provenance() | {"compute_sanitizer": re.search(r"Version ([\d.]+)", version)[1]},
        "tools": tools,
        "kernels": kernels,
    })  # fmt: skip
    return int(any(tool["errors"] or not tool["errors_in_broken_kernel"] for tool in tools))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        raise SystemExit(main())
    print(launch(list(LADDER) if sys.argv[1] == "ladder" else [broken()[sys.argv[1]]]), "launches", flush=True)

"""Small CUDA kernels written inside the tests, as a `Kernel` that keeps the contract."""

from pathlib import Path

import numpy as np

from ptxsim.machine import Machine
from ptxsim.ptx import parse
from sgemm_tutorial import Kernel, simulate
from sgemm_tutorial.simulation import Run


def probe(folder: Path, body: str, threads: int = 32, before: str = "", name: str = "00_probe") -> Kernel:
    """Write a kernel that keeps the contract's signature and return it; a block is `threads` columns of one row of C.

    In `before` and `body`, the thread's number is ``t`` and the bits of A, B and C are ``a``, ``b`` and ``c``.
    """
    text = f"""{before}
template <int BM, int BN>
__global__ void {name.partition("_")[2]}(int M, int N, int K, float alpha, const float* A, const float* B,
                                         float beta, float* C)
{{
    const unsigned t = threadIdx.x;
    const unsigned* a = reinterpret_cast<const unsigned*>(A);
    const unsigned* b = reinterpret_cast<const unsigned*>(B);
    unsigned* c = reinterpret_cast<unsigned*>(C);
{body}
}}
"""
    (folder / f"{name}.cu").write_text(text)
    return Kernel(name, "made for a test", {"BM": 1, "BN": threads}, folder=folder)


def line_of(kernel: Kernel, mark: str) -> int:
    """Return the number of the one source line that holds the mark."""
    (line,) = [number for number, text in enumerate(kernel.source.splitlines(), 1) if mark in text]
    return line


def run_bits(kernel: Kernel, a=(0,), b=(0,), columns: int | None = None, **more) -> tuple[np.ndarray, Run]:
    """Run a probe with integers as the bits of A (one row) and B (one column); return the bits of C and the run."""
    size = max(len(a), len(b))
    A, B = np.zeros((1, size), np.uint32), np.zeros((size, 1), np.uint32)
    A[0, : len(a)], B[: len(b), 0] = a, b
    columns = columns or kernel.threads
    B = np.repeat(B, columns, axis=1) if columns > 1 else B
    run = simulate(kernel, A.view(np.float32), np.ascontiguousarray(B).view(np.float32), **more)
    return run.C.view(np.uint32)[0], run


def execute(kernel: Kernel, threads: int, grid: int, arguments: dict, blocks=None, **more) -> Machine:
    """Run a kernel of any signature, or some blocks of it, and return the machine; `more` is what that takes."""
    binary = kernel.build("compute_90")
    program = parse(binary.ptx, binary.entry, kernel.dynamic_shared_bytes)
    machine = Machine(program, kernel.name, threads, arguments, **more)
    machine.run(grid, blocks)
    return machine

"""Kernels in CUDA, compiled with NVRTC and run by the simulator alone."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

import ptxsim


def launch(source, grid, block, name=None, shared=0, **arguments):
    """Compile a kernel and run it; the options of `ptxsim.run` have an underscore before their names."""
    options = {of[1:]: arguments.pop(of) for of in list(arguments) if of.startswith("_")}
    return ptxsim.run(*ptxsim.compile(source, name), grid, block, arguments, shared, **options)


def fault(*launched, **arguments):
    """Return the fault that a launch ends in."""
    with pytest.raises(ptxsim.SimulationFault) as caught:
        launch(*launched, **arguments)
    return caught.value


def refused(*launched, **arguments):
    """Return the message that refuses a launch."""
    with pytest.raises(ptxsim.UnsupportedInstruction) as caught:
        launch(*launched, **arguments)
    return str(caught.value)


def per_thread(body, *inputs, out=np.float32, threads=None, before="", **options):
    """Run ``o[t] = ...`` with a thread per element of the inputs, which are a, b, c ..., and return the output."""
    names = "abcdefgh"[: len(inputs)]
    types = {"f": "float", "d": "double", "i": "int", "I": "unsigned", "q": "long long", "Q": "unsigned long long"}
    types |= {
        "l": "long long",
        "L": "unsigned long long",
        "B": "unsigned char",
        "b": "signed char",
        "H": "unsigned short",
    }
    types |= {"h": "short", "e": "unsigned short"}
    inputs = [np.asarray(of) for of in inputs]
    parameters = [f"const {types[of.dtype.char]}* {name}" for name, of in zip(names, inputs, strict=True)]
    result = np.zeros(threads or inputs[0].size, out)
    source = f"""{before}
__global__ void probe({", ".join([*parameters, f"{types[result.dtype.char]}* o"])}) {{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    {body}
}}"""
    grid = max(-(-result.size // 1024), 1)
    padded = {name: np.resize(of, grid * min(result.size, 1024)) for name, of in zip(names, inputs, strict=True)}
    whole = np.resize(result, grid * min(result.size, 1024))
    launch(source, grid, min(result.size, 1024), **padded, o=whole, **options)
    return whole[: result.size]


@dataclass(frozen=True)
class Probe:
    """A kernel with the arguments of a matrix product, whose blocks have so many columns of one row of C."""

    name = "probe"
    source: str
    threads: int
    shared: int
    architecture: str

    @cached_property
    def compiled(self):
        """The PTX and the name of its entry."""
        return ptxsim.compile(self.source, self.name, architecture=self.architecture)


@dataclass(frozen=True)
class Multiplied(ptxsim.Run):
    """The result of a run, with C."""

    C: np.ndarray | None = None


def probe(body, threads=32, before="", shared=0, architecture="compute_90"):
    """Return a kernel of a test's own.

    In `before` and `body`, the thread's number is ``t`` and the bits of A, B and C are ``a``, ``b`` and ``c``.
    """
    source = f"""{before}
__global__ void probe(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{{
    const unsigned t = threadIdx.x;
    const unsigned* a = reinterpret_cast<const unsigned*>(A);
    const unsigned* b = reinterpret_cast<const unsigned*>(B);
    unsigned* c = reinterpret_cast<unsigned*>(C);
{body}
}}
"""
    return Probe(source, threads, shared, architecture)


def line_of(kernel, mark):
    """Return the number of the one source line that holds the mark."""
    (line,) = [number for number, text in enumerate(kernel.source.splitlines(), 1) if mark in text]
    return line


def simulate(kernel, A, B, C=None, **options):
    """Run a probe with α = 1 and β = 0; a C that is not given holds nothing, and NaN where nothing is written."""
    (M, K), (_, N) = A.shape, B.shape
    result = np.full((M, N), np.nan, np.float32) if C is None else C
    sizes = dict(zip("MNK", map(np.int32, (M, N, K)), strict=True))
    arguments = {**sizes, "alpha": np.float32(1), "A": A, "B": B, "beta": np.float32(0), "C": result}
    grid, fresh = M * -(-N // kernel.threads), ["C"] if C is None else []
    run = ptxsim.run(
        *kernel.compiled, grid, kernel.threads, arguments, kernel.shared, name=kernel.name, fresh=fresh, **options
    )
    return Multiplied(**vars(run), C=result)


def run_bits(kernel, a=(0,), b=(0,), columns=None, **options):
    """Run a probe with integers as the bits of A (one row) and B (one column); return the bits of C and the run."""
    size = max(len(a), len(b))
    A, B = np.zeros((1, size), np.uint32), np.zeros((size, columns or kernel.threads), np.uint32)
    A[0, : len(a)] = a
    B[: len(b)] = np.reshape(b, (-1, 1))
    run = simulate(kernel, A.view(np.float32), B.view(np.float32), **options)
    return run.C.view(np.uint32)[0], run

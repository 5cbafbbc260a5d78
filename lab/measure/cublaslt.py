"""The algorithms that cuBLASLt's own search offers for a product: all that its heuristic finds.

cuBLAS's SGEMM runs what a heuristic thinks best. cuBLASLt lets one ask for more of the heuristic's list, and time them:
that is the strongest opponent within the library. CuPy does not bind it, so its functions are called through ctypes;
the numbers below are from its header (cublasLt.h of cuBLAS 13.1).
"""

import ctypes
import weakref
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cupy
import numpy as np
from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

from sgemm_tutorial import cublas, gpu
from sgemm_tutorial.errors import ArgumentError, DeviceError
from sgemm_tutorial.families import any_shape
from sgemm_tutorial.operands import Problem
from sgemm_tutorial.timing import DeviceClock

from .brief import brief

REQUESTED = 64
"""Algorithms that the heuristic is asked for."""
WORKSPACE = 32 * 2**20
"""Bytes of memory that an algorithm may use beside the matrices: what cuBLAS itself has on Hopper."""

COMPUTE_32F, R_32F = 68, 0
MAX_WORKSPACE, ALIGNMENTS = 1, (5, 6, 7, 8)  # of a preference: bytes, and alignments of A, B, C and D
NUMERICAL = 15  # of an algorithm's capabilities: how it calculates
TENSOR_CORES = 0xFE  # flags of that
CONFIG = {"algorithm": 0, "tile": 1, "stages": 6, "split K": 2}
TILES = (
    *("8x8", "8x16", "16x8", "8x32", "16x16", "32x8", "8x64", "16x32", "32x16", "64x8", "32x32", "32x64", "64x32"),
    *("32x128", "64x64", "128x32", "64x128", "128x64", "64x256", "128x128", "256x64", "64x512", "128x256", "256x128"),
    *("512x64", "64x96", "96x64", "96x128", "128x160", "160x128", "192x128", "128x192", "128x96", "32x256", "256x32"),
)
"""Tiles of C by their numbers from 1 on, rows first as cuBLAS counts them: our columns."""
STAGES = {26: "8x4", 28: "8x5", 31: "8x3", 32: "8xauto"} | {
    i: f"{depth}x{stages}"
    for i, (depth, stages) in enumerate(((d, s) for d in (16, 32, 64, 128) for s in range(1, 7)), 1)
}
"""The depth of a tile and the number of stages, by their numbers."""

# Copies the first N elements of each row to rows without gaps: eight rows of 256 elements to a block.
NARROW = r"""
extern "C" __global__ void narrow(const unsigned %s* from, unsigned %s* to, unsigned pitch, unsigned M, unsigned N)
{
    const unsigned row = blockIdx.x * 8 + threadIdx.y, begin = blockIdx.y * 256 + threadIdx.x;
    if (row < M)
        for (unsigned col = begin; col < min(N, begin + 256); col += 32)
            to[size_t(row) * N + col] = from[size_t(row) * pitch + col];
}
"""


class _Found(ctypes.Structure):
    """The heuristic's answer for one algorithm."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


@dataclass(frozen=True)
class Candidate:
    """One algorithm.

    Attributes
    ----------
    text : str
        Its number, tile, stages and split of K, as in ``"algorithm 1, tile 128x256, stages 8x3, split K 1"``.
    launch : callable
        Queues the product on the current stream.
    """

    text: str
    launch: Callable[[], None]


def candidates(problem: Problem) -> list[Candidate]:
    """Return the algorithms that cuBLASLt's heuristic finds for a product, the most promising first.

    Of products in FP32, those that would calculate on tensor cores are left out. There may be none. In 16 bits, where
    rows of A or B begin anywhere, those for a product that is padded come last; their launches copy, too.

    Raises
    ------
    ArgumentError
        The problem is not of CuPy arrays, or in FP64.
    DeviceError
        There is no GPU or no cuBLASLt, or it failed.
    """
    types = problem.types
    if not problem.on_gpu or types.operand not in cublas.CUDA:
        where = "GPU" if problem.on_gpu else "CPU"
        raise ArgumentError("problem", f"{types.name} on the {where}", "FP32, FP16 or BF16 on a GPU")
    found = _offered(problem)
    if types.operand.itemsize == 2 and any_shape.unfetchable(problem):
        padded, before, after = _padded(problem)
        found += [
            Candidate(f"{of.text}, padded", lambda launch=of.launch: (before(), launch(), after()))
            for of in _offered(padded)
        ]
    return found


def quickest(problem: Problem) -> tuple[Candidate | None, int]:
    """Return the algorithm that takes least in a brief look at each, if there is any, and how many there are.

    Raises
    ------
    ArgumentError, DeviceError
        As for `candidates`.
    """
    offered, clock = candidates(problem), DeviceClock()
    with gpu.reported("trying cuBLASLt's algorithms"):
        return min(offered, key=lambda one: brief(one.launch, clock), default=None), len(offered)


class Quickest(cublas.Gemm):
    """A matrix multiplication with the algorithm of cuBLASLt that is the `quickest` for it."""

    def launcher(self, problem: Problem) -> Callable[[], None]:
        """Return a function that queues it."""
        return quickest(problem)[0].launch


def _padded(problem: Problem) -> tuple[Problem, Callable[[], None], Callable[[], None]]:
    """Return a product whose rows all begin at multiples of 16 bytes, what copies the matrices, and what copies C back.

    K and N are rounded up to multiples of 8: without that, none of the quick algorithms is offered. Rows of B that are
    added are zeros, as are the ends of A's rows, so the sums don't change.
    """
    (M, N, K), types = problem.shape, problem.types
    N, K = (-(-extent // any_shape.CHUNK) * any_shape.CHUNK for extent in (N, K))
    copied = {
        name: cupy.zeros((M if name == "A" else K, any_shape.pitch(N if name == "B" else K)), types.operand)
        for name in ("AB" if K > problem.K else any_shape.unfetchable(problem))
    }
    C, short = problem.C, N > problem.N
    wide = cupy.empty((M, N), types.result) if short else C
    copy = any_shape.padding(problem, copied)
    narrow = cupy.RawKernel(NARROW % (2 * ({2: "short", 4: "int"}[types.result.itemsize],)), "narrow")

    def before() -> None:
        copy()
        if short and problem.beta:
            wide[:, : problem.N] = C

    def after() -> None:
        if short:
            narrow((-(-M // 8), -(-N // 256)), (32, 8), (wide, C, *map(np.uint32, (N, M, problem.N))))

    return problem._replace(N=N, K=K, C=wide, **copied), before, after


def _offered(problem: Problem) -> list[Candidate]:
    """Return the algorithms for matrices whose rows may be longer than the product's."""
    types, (M, N, K) = problem.types, problem.shape
    operation = _created("MatmulDesc", c_int(COMPUTE_32F), c_int(R_32F))
    # As in `cublas.launch`: column by column the same memory is Cᵀ = BᵀAᵀ.
    shapes = ((types.operand, N, K, problem.B), (types.operand, K, M, problem.A), (types.result, N, M, problem.C))
    b, a, c = (
        _created("MatrixLayout", c_int(cublas.CUDA[of]), c_uint64(m), c_uint64(n), c_int64(matrix.shape[1]))
        for of, m, n, matrix in shapes
    )
    preference = _created("MatmulPreference")
    attributes = {MAX_WORKSPACE: c_uint64(WORKSPACE)}
    for attribute, matrix in zip(ALIGNMENTS, (problem.B, problem.A, problem.C, problem.C), strict=True):
        attributes[attribute] = c_uint32(min(matrix.data.ptr & -matrix.data.ptr, 256))
    for attribute, value in attributes.items():
        size = c_size_t(ctypes.sizeof(value))
        _call("MatmulPreferenceSetAttribute", preference, c_int(attribute), byref(value), size)

    found, number = (_Found * REQUESTED)(), c_int(0)
    handle = _handle(cupy.cuda.Device().id)
    question = (handle, operation, b, a, c, c, preference, c_int(REQUESTED), found, byref(number))
    if _library().cublasLtMatmulAlgoGetHeuristic(*question):
        return []  # nothing for such a problem
    scalars = np.array([problem.alpha, problem.beta], np.float32)
    alpha, beta = (c_void_p(scalars.ctypes.data + at) for at in (0, scalars.itemsize))
    A, B, C = (c_void_p(matrix.data.ptr) for matrix in (problem.A, problem.B, problem.C))
    workspace = _workspace(cupy.cuda.Device().id)

    def launcher(algorithm: Any) -> Callable[[], None]:
        function, space, size = _library().cublasLtMatmul, c_void_p(workspace.ptr), c_size_t(WORKSPACE)
        call = (handle, operation, alpha, B, b, A, a, beta, C, c, C, c, byref(algorithm), space, size)

        def queue() -> None:
            _check("Matmul", function(*call, c_void_p(cupy.cuda.get_current_stream().ptr)))

        queue.keeps = (scalars, problem, algorithm)  # the memory behind the pointers lives as long as the function
        return queue

    kept = [of.algorithm for of in found[: number.value] if not of.state]
    if types.operand == np.float32:
        kept = [algorithm for algorithm in kept if not _on_tensor_cores(algorithm)]
    return [Candidate(_text(algorithm), launcher(algorithm)) for algorithm in kept]


def _on_tensor_cores(algorithm: Any) -> bool:
    """Whether an algorithm calculates there, in less than FP32."""
    flags, written = c_uint64(0), c_size_t(0)
    _call("MatmulAlgoCapGetAttribute", byref(algorithm), c_int(NUMERICAL), byref(flags), c_size_t(8), byref(written))
    return bool(flags.value & TENSOR_CORES)


def _text(algorithm: Any) -> str:
    """Return what tells an algorithm from the others."""
    values, value = {}, c_int32(0)
    where = byref(value), c_size_t(4), byref(c_size_t(0))
    for name, attribute in CONFIG.items():
        _call("MatmulAlgoConfigGetAttribute", byref(algorithm), c_int(attribute), *where)
        values[name] = value.value
    tile, stages = values["tile"], values["stages"]
    values["tile"] = TILES[tile - 1] if 1 <= tile <= len(TILES) else f"number {tile}"
    values["stages"] = STAGES.get(stages, f"number {stages}")
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _created(kind: str, *arguments: Any) -> c_void_p:
    """Return a new descriptor, which goes when it is no longer referred to."""
    made = c_void_p()
    _call(f"{kind}Create", byref(made), *arguments)
    weakref.finalize(made, getattr(_library(), f"cublasLt{kind}Destroy"), c_void_p(made.value))
    return made


@lru_cache(maxsize=8)
def _handle(device: int) -> c_void_p:
    """Return a handle on the current GPU; its number is the cache's key."""
    handle = c_void_p()
    _call("Create", byref(handle))
    return handle


@lru_cache(maxsize=8)
def _workspace(device: int) -> Any:
    """Return the memory that algorithms use beside the matrices; the device is the cache's key."""
    with gpu.reported("making room for cuBLASLt"):
        return cupy.cuda.alloc(WORKSPACE)


def _call(name: str, *arguments: Any) -> None:
    _check(name, getattr(_library(), f"cublasLt{name}")(*arguments))


def _check(name: str, status: int) -> None:
    if status:
        raise DeviceError(f"cublasLt{name} failed: {_library().cublasLtGetStatusString(c_int(status)).decode()}")


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """Return the library: the one that CuPy's cuBLAS has loaded, as it needs it itself."""
    cublas.version()
    try:
        library = ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path)
    except (DynamicLibNotFoundError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DeviceError(f"cuBLASLt does not load: pip install nvidia-cublas ({reason})") from error
    library.cublasLtGetStatusString.restype = ctypes.c_char_p
    return library

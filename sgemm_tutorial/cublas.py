"""Calls cuBLAS's GEMMs under the kernels' own contract: row-major C ← αAB + βC.

They compute in true FP32, in FP64, or from FP16 or BF16 to FP32 or to the same type, which runs on tensor cores.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import cupy
import numpy as np

from . import gpu, operands
from .errors import ArgumentError, DeviceError
from .operands import BF16, FP16, FP32, FP64, Types

CUDA = {FP32.operand: 0, FP16.operand: 2, BF16.operand: 14}
"""CUDA's numbers for types of elements: CUDA_R_32F, CUDA_R_16F and CUDA_R_16BF."""


@dataclass(frozen=True)
class Gemm:
    """One of cuBLAS's matrix multiplications; it is called like a `Kernel`.

    Attributes
    ----------
    name : str
        As cuBLAS calls it.
    types : Types
        Of the elements of A, B and C.
    """

    name: str
    types: Types

    def __call__(self, A: Any, B: Any, C: Any = None, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """Compute C ← αAB + βC with cuBLAS; parameters, result and errors are those of a `Kernel`.

        Raises
        ------
        ArgumentError
            As for a kernel, and for NumPy arrays: cuBLAS needs a GPU.
        DeviceError
            There is no GPU or no cuBLAS, or the GPU failed.
        """
        problem = operands.check(A, B, C, alpha, beta, self.types)
        self.launcher(problem)()
        return problem.C

    def launcher(self, problem: operands.Problem) -> Callable[[], None]:
        """Return a function that queues this GEMM on a problem of its types, as a `Kernel` does; see `launch`."""
        return launch(problem)


sgemm = Gemm("sgemm", FP32)
dgemm = Gemm("dgemm", FP64)
gemm_ex = Gemm("gemmEx", FP16)
gemm_ex_bf16 = Gemm("gemmEx", BF16)


def launch(problem: operands.Problem) -> Callable[[], None]:
    """Return a function that queues this GEMM on the current stream, with nothing left to prepare.

    cuBLAS counts columns first. Read that way, row-major memory holds the transposes, and
    Cᵀ = BᵀAᵀ: the operands change places and nothing is copied.
    """
    if not problem.on_gpu:
        raise ArgumentError("A", "a NumPy array", "a CuPy array: cuBLAS runs on a GPU")
    handle, library = _handle(), _library()
    scalars = np.array([problem.alpha, problem.beta], problem.types.scalar)
    alpha, beta = scalars.ctypes.data, scalars.ctypes.data + scalars.itemsize
    sizes = (handle, library.CUBLAS_OP_N, library.CUBLAS_OP_N, problem.N, problem.M, problem.K)
    (a, lda), (b, ldb), (c, ldc) = (
        (matrix.data.ptr, max(matrix.shape[1], 1)) for matrix in (problem.A, problem.B, problem.C)
    )
    types = problem.types
    if types.operand.itemsize == 2:
        half, result = CUDA[types.operand], CUDA[types.result]
        how = ldc, library.CUBLAS_COMPUTE_32F, library.CUBLAS_GEMM_DEFAULT
        call = partial(library.gemmEx, *sizes, alpha, b, half, ldb, a, half, lda, beta, c, result, *how)
    else:
        function = library.dgemm if types == FP64 else library.sgemm
        call = partial(function, *sizes, alpha, b, ldb, a, lda, beta, c, ldc)

    def queue() -> None:
        with _reported():
            call()

    queue.keeps = (scalars, problem)  # the memory behind the pointers lives as long as the function
    return queue


def version() -> str:
    """Version of the cuBLAS in use, for example ``"13.1.0"``.

    Raises
    ------
    DeviceError
        There is no GPU or no cuBLAS.
    """
    number = _library().getVersion(_handle())
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _handle() -> int:
    """Return our own handle on the current GPU."""
    gpu.capability()  # says so where there is no GPU
    with _reported():
        return _handle_on(cupy.cuda.Device().id)


@lru_cache(maxsize=8)
def _handle_on(device: int) -> int:
    """Create a handle in the default mode, where FP32 stays FP32; the device is the cache's key.

    CuPy's own handle is left alone, so neither what others set on it nor CUPY_TF32 matters here.
    """
    library = _library()
    handle = library.create()
    library.setMathMode(handle, library.CUBLAS_DEFAULT_MATH)
    return handle


def _library() -> Any:
    """Return CuPy's binding of cuBLAS, which loads the library when it is first asked for."""
    try:
        from cupy_backends.cuda.libs import cublas
    except ImportError as error:
        reason = str(error).splitlines()[0]
        raise DeviceError(f"cuBLAS does not load: pip install nvidia-cublas ({reason})") from error
    return cublas


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Turn cuBLAS's errors, like CuPy's, into a DeviceError."""
    library = _library()
    with gpu.reported("cuBLAS"):
        try:
            yield
        except library.CUBLASError as error:
            raise DeviceError(f"cuBLAS failed: {error}") from error

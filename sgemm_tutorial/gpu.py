"""The GPU back end: loads a kernel's cubin through CuPy and launches it, with the memory that it wants beside C."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import cupy
import numpy as np

from ptxsim.tensor_map import TensorMap

from .compiler import Binary, Instance, build
from .errors import ArgumentError, DeviceError
from .operands import Division, Problem
from .tensor_maps import encode

GRID_MAX = 2**31 - 1  # blocks in the first dimension of a grid, every GPU since Kepler


def available() -> bool:
    """Whether CuPy sees a GPU."""
    return cupy.cuda.is_available()


def count() -> int:
    """How many GPUs CuPy sees."""
    return cupy.cuda.runtime.getDeviceCount() if available() else 0


def capability() -> tuple[int, int]:
    """Compute capability of the current GPU, for example ``(9, 0)``.

    Raises
    ------
    DeviceError
        There is no GPU.
    """
    if not available():
        raise DeviceError("no GPU: none is visible to CuPy; pass NumPy arrays to use the simulator")
    digits = cupy.cuda.Device().compute_capability
    return int(digits[:-1]), int(digits[-1])


def architecture() -> str:
    """Architecture of the current GPU, for example ``"sm_90"``."""
    major, minor = capability()
    return f"sm_{major}{minor}"


def place() -> tuple[str, int]:
    """Architecture and number of multiprocessors of the current GPU, for example ``("sm_90", 132)``."""
    return architecture(), _properties(cupy.cuda.Device().id)["multiProcessorCount"]


def name() -> str:
    """Name of the current GPU, for example ``"NVIDIA H200"``."""
    return _properties(cupy.cuda.Device().id)["name"].decode()


@lru_cache
def _properties(device: int) -> dict[str, Any]:
    return cupy.cuda.runtime.getDeviceProperties(device)


def launcher(
    instance: Instance, division: Division, problem: Problem, maps: Sequence[TensorMap] = ()
) -> Callable[[], None]:
    """Return a function that launches a kernel on a problem, with nothing left to check, compile or load.

    Raises
    ------
    ArgumentError
        C has more tiles than a grid has blocks.
    DeviceError
        See `load`.
    """
    blocks = division.blocks
    if blocks > GRID_MAX:
        raise ArgumentError("C", f"shape {problem.C.shape}, {blocks} tiles", f"at most {GRID_MAX} tiles")
    return bound(load(instance), instance, division, problem, maps)


def bound(
    function: Any, instance: Instance, division: Division, problem: Problem, maps: Sequence[TensorMap] = ()
) -> Callable[[], None]:
    """Return a function that launches what `load` has returned, given `maps` after the problem's arguments."""
    if not division.blocks:
        return lambda: None
    grid, block = (division.blocks,), (instance.threads,)
    values = (*problem.arguments.values(), *(encode(tensor, _driver()) for tensor in maps))
    shared = instance.dynamic_shared_bytes
    if not division.counts:
        return lambda: function(grid, block, values, shared)
    counts = tuple(map(np.uint32, division.counts.values()))
    return lambda: function(grid, block, (*values, *_scratch(division), *counts), shared)


_held = threading.local()  # each thread's own, as the default stream may be too


def _scratch(division: Division) -> tuple[cupy.ndarray, cupy.ndarray]:
    """Return workspace and arrival counters, the same at every launch on a stream, so that two streams share none.

    A larger one replaces what was there; CuPy gives memory that is freed to the same stream alone.
    """
    held = _held.__dict__
    key = cupy.cuda.Device().id, cupy.cuda.get_current_stream().ptr
    workspace, arrived = held.get(key, (None, None))
    if workspace is None or workspace.size < division.workspace:
        workspace = cupy.empty(division.workspace, np.float32)
    if arrived is None or arrived.size < division.arrived:
        arrived = cupy.zeros(division.arrived, np.uint32)
    held[key] = workspace, arrived
    return workspace, arrived


def load(instance: Instance) -> Any:
    """Return the instance loaded on the current GPU, for CuPy's ``function(grid, block, arguments, shared_bytes)``.

    Raises
    ------
    DeviceError
        There is no GPU, or it is older than the kernel needs, or another than it is for.
    """
    here, least = capability(), instance.least_capability
    if here < least or (instance.exact and here != least):
        raise DeviceError(
            f"{instance.kernel}: this GPU has compute capability {'.'.join(map(str, here))}, the kernel "
            f"needs {'.'.join(map(str, least))}{' itself' * instance.exact}; NumPy arrays run on the simulator"
        )
    return _load(build(instance, architecture()), instance.dynamic_shared_bytes, cupy.cuda.Device().id)


@lru_cache(maxsize=256)
def _load(binary: Binary, dynamic_shared_bytes: int, device: int) -> Any:
    module = cupy.cuda.function.Module()
    module.load(binary.cubin)
    function = module.get_function(binary.entry)
    if dynamic_shared_bytes:  # without leave, no more than 48 KiB
        driver = cupy.cuda.driver
        attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.funcSetAttribute(function.ptr, attribute, dynamic_shared_bytes)
    return function


@lru_cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Turn CuPy's errors into a DeviceError that says what was running."""
    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise DeviceError(f"{what}: the GPU is out of memory ({error})") from error
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
        raise DeviceError(f"{what}: the GPU failed ({error}); after a fault, restart the process") from error

"""Loads a kernel's cubin through CuPy and launches it on the GPU, with the memory that it needs beside C."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

import cupy
import numpy as np

from ptxsim import ALIGNMENT, MAP_BYTES, TensorMap

from .compiler import Binary, Instance, build
from .errors import ArgumentError, DeviceError
from .launch import Division, Launch, Place, nothing
from .operands import BF16, FP16, FP32, Problem

GRID_MAX = (2**31 - 1, 65_535, 65_535)  # blocks along each dimension of a grid, every GPU since Kepler


def available() -> bool:
    """Whether CuPy sees a GPU."""
    return cupy.cuda.is_available()


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


def chosen(on_gpu: bool | None) -> bool:
    """Return whether to use the GPU; raise DeviceError where it is asked for and missing."""
    if on_gpu:
        capability()
    return available() if on_gpu is None else on_gpu


def architecture() -> str:
    """Architecture of the current GPU, for example ``"sm_90"``."""
    return "sm_{}{}".format(*capability())


def place() -> Place:
    """Return the current GPU as a place for launches.

    Raises
    ------
    DeviceError
        There is no GPU.
    """
    try:
        device = cupy.cuda.runtime.getDevice()
    except cupy.cuda.runtime.CUDARuntimeError:
        capability()  # raises, as there is no GPU
        raise
    return _place(device)


@lru_cache
def _place(device: int) -> Place:
    properties = cupy.cuda.runtime.getDeviceProperties(device)
    with cupy.cuda.Device(device):
        return Place(architecture(), properties["multiProcessorCount"], device, properties["name"].decode())


def launcher(launch: Launch, problem: Problem) -> Callable[[], None]:
    """Return a function that queues a launch on the current stream, with nothing left to check, compile or load.

    Parameters
    ----------
    launch : Launch
        For the current GPU.
    problem : Problem
        Of the launch's shape and alignment, of CuPy arrays.

    Raises
    ------
    ArgumentError
        C has more tiles than a grid has blocks.
    DeviceError
        See `load`.
    """
    division, family = launch.division, launch.kernel.family
    if not division.blocks:
        return lambda: None
    function, grid, block, counts, shared = _bound(launch)
    problem, copy = family.fetchable(problem)
    arguments = family.arguments_of(problem)
    maps = [
        _encode(of.data.ptr, of.shape, of.dtype, box.rows, box.columns)
        for box in launch.boxes
        for of in [arguments[box.matrix]]
    ]
    values = (*arguments.values(), *maps)
    if family.zeroed and problem.fresh_C:
        problem.C.fill(0)
    start = partial(_overlapping, function) if family.overlaps else function
    if not counts and copy is nothing:
        return lambda: start(grid, block, values, shared)
    device, finish = launch.place.device, family.finish(launch, problem)

    def run() -> None:
        copy()
        scratch = _scratch(division, device)[: len(family.scratch)] if counts else ()
        start(grid, block, (*values, *scratch, *counts), shared)
        finish(*scratch)

    return run


def _overlapping(function: Any, grid: tuple[int], block: tuple[int], values: tuple[Any, ...], shared: int) -> None:
    """Queue a launch that may begin while the one before it in the stream ends.

    Raises
    ------
    DeviceError
        The driver refuses.
    """
    words = [value.data.ptr.to_bytes(8, "little") if isinstance(value, cupy.ndarray) else value for value in values]
    held = _held.__dict__
    if function not in held:
        held[function] = _prepared([memoryview(word).nbytes for word in words])
    memory, places, config = held[function]
    memory.raw = b"".join(words)
    config.gridX, config.blockX, config.shared = *grid, *block, shared
    config.stream = cupy.cuda.get_current_stream().ptr
    status = _driver().cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(function.ptr), places, None)
    if status:
        raise DeviceError(f"the driver does not launch: error {status}")


def _prepared(sizes: list[int]) -> tuple[Any, Any, _Config]:
    """Return memory for arguments of so many bytes, the places in it, and a launch to fill in: a thread's own."""
    memory = (ctypes.c_char * sum(sizes))()
    places = [ctypes.addressof(memory) + offset for offset in accumulate(sizes[:-1], initial=0)]
    return memory, (ctypes.c_void_p * len(sizes))(*places), _Config(1, 1, 1, 1, 1, 1, 0, None, _OVERLAP, 1)


@lru_cache(maxsize=4096)
def _bound(launch: Launch) -> tuple[Any, ...]:
    """Return the common parts of all runs of a launch: the loaded function, grid, block, counts and shared memory."""
    for blocks, most in zip(launch.grid, GRID_MAX, strict=False):
        if blocks > most:
            raise ArgumentError("C", f"shape {launch.shape[:2]}, {blocks} tiles", f"at most {most} tiles")
    counts = tuple(map(np.uint32, launch.division.counts.values()))
    return load(launch.instance), launch.grid, launch.block, counts, launch.instance.dynamic_shared_bytes


@lru_cache(maxsize=1024)
def _encode(place: int, shape: tuple[int, int], dtype: np.dtype, rows: int, columns: int) -> np.void:
    """Return a tensor map of the matrix at a place as the driver encodes it: the same for the same memory."""
    memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(place, 1, None), 0)
    return encode(TensorMap(cupy.ndarray(shape, dtype, memory), rows, columns), _driver())


ENCODINGS = {FP16.operand: 6, FP32.operand: 7, BF16.operand: 9}  # CU_TENSOR_MAP_DATA_TYPE_FLOAT16 and so on
NO_INTERLEAVE, SWIZZLE_128B, L2_128B, FILL_ZEROS = 0, 3, 2, 0  # the driver's names begin with CU_TENSOR_MAP_
ENCODED = np.dtype([("words", np.uint64, MAP_BYTES // 8)])
"""A tensor map as the driver encodes it, which CuPy hands over by value."""
PLACE = 64  # bytes of whose multiple the driver wants to write to


def encode(tensor: TensorMap, driver: Any) -> np.void:
    """Return a map of a CuPy array, encoded.

    Parameters
    ----------
    tensor : TensorMap
        Of FP16, BF16 or FP32.
    driver : ctypes.CDLL
        The CUDA driver's library.

    Raises
    ------
    ArgumentError
        The array is of none of them, or does not begin at a multiple of 16 bytes.
    DeviceError
        The driver refuses.
    """
    array = tensor.array
    if array.dtype not in ENCODINGS:
        raise ArgumentError("array", f"dtype {array.dtype}", "float16, bfloat16 or float32")
    if array.data.ptr % ALIGNMENT:
        raise ArgumentError("array", f"memory at {array.data.ptr:#x}", f"memory at a multiple of {ALIGNMENT} bytes")
    memory = np.zeros(MAP_BYTES + PLACE, np.uint8)
    start = -memory.ctypes.data % PLACE
    rows, columns = array.shape
    status = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(memory.ctypes.data + start),
        ctypes.c_int(ENCODINGS[array.dtype]),
        ctypes.c_uint32(2),
        ctypes.c_void_p(array.data.ptr),
        (ctypes.c_uint64 * 2)(columns, rows),  # innermost first
        (ctypes.c_uint64 * 1)(tensor.pitch),
        (ctypes.c_uint32 * 2)(tensor.columns, tensor.rows),
        (ctypes.c_uint32 * 2)(1, 1),
        *map(ctypes.c_int, (NO_INTERLEAVE, SWIZZLE_128B, L2_128B, FILL_ZEROS)),
    )
    if status:
        raise DeviceError(f"the driver encodes no tensor map of shape {array.shape}: error {status}")
    return memory[start : start + MAP_BYTES].copy().view(ENCODED)[0]


def queue(instance: Instance, blocks: int, arguments: Mapping[str, Any]) -> Callable[..., None]:
    """Return a function that queues a launch of a kernel which lets the grids of a stream overlap.

    What the function is given takes the place of the argument that is None.
    """
    function, grid, block, values = load(instance), (blocks,), (instance.threads,), tuple(arguments.values())
    return lambda given=None: _overlapping(
        function, grid, block, tuple(given if value is None else value for value in values), 0
    )


_held = threading.local()  # each thread's own, as the default stream may be too


def _scratch(division: Division, device: int) -> tuple[cupy.ndarray, cupy.ndarray]:
    """Return workspace and arrival counters, the same at every launch on a stream, so that two streams share none.

    A larger one replaces what was there; CuPy gives memory that is freed to the same stream alone.

    A launch that fails halfway leaves counters that are not zero. Like every fault of a kernel it also ends the CUDA
    context, so that no later call succeeds; and what that call reports has these arrays given up, see `reported`.
    """
    held = _held.__dict__
    key = device, cupy.cuda.get_current_stream().ptr
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
        most = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        cupy.cuda.driver.funcSetAttribute(function.ptr, most, dynamic_shared_bytes)
    return function


ALONE = Instance(
    "alone", (("alone.cu", "template <int> __global__ void alone() {}"),), "alone<0>", 1, (9, 0), 120 << 10
)
"""A kernel whose blocks want so much shared memory that none shares an SM, and do nothing."""


@lru_cache
def resident_clusters(cluster: int, device: int) -> int:
    """Return how many clusters of so many blocks are on the current GPU at a time, as its driver says.

    Each block has an SM to itself. Where the SMs of a group are divided into clusters, those left over run none.

    Parameters
    ----------
    cluster : int
        Blocks of a cluster.
    device : int
        CuPy's number of the current GPU, which has clusters.

    Raises
    ------
    DeviceError
        See `load`, or the driver refuses.
    """
    function = load(ALONE)
    attribute = _Attribute(4, 0, (ctypes.c_uint * 16)(cluster, 1, 1))  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    config = _Config(cluster, 1, 1, ALONE.threads, 1, 1, ALONE.dynamic_shared_bytes, None, ctypes.pointer(attribute), 1)
    found = ctypes.c_int()
    status = _driver().cuOccupancyMaxActiveClusters(
        ctypes.byref(found), ctypes.c_void_p(function.ptr), ctypes.byref(config)
    )
    if status:
        raise DeviceError(f"the driver does not say how many clusters fit: error {status}")
    return found.value


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: a number, padding to 8 bytes, and a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


_OVERLAP = ctypes.pointer(_Attribute(6, 0, (ctypes.c_uint * 16)(1)))
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION."""


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


@lru_cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Turn CuPy's errors into a DeviceError that says what was running.

    After a fault this thread's scratch arrays are given up: a launch that was cut off may have left counts in them.
    """
    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise DeviceError(f"{what}: the GPU is out of memory ({error})") from error
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
        _held.__dict__.clear()
        raise DeviceError(f"{what}: the GPU failed ({error}); after a fault, restart the process") from error

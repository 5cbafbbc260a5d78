"""One product on several GPUs: each has a band of A's and C's rows and a panel of B, and needs the other panels too.

How they come, and what they are, is the *way*:

========= ===========================================================================================================
held      Every GPU has all of B beforehand, and nothing comes.
gathered  NCCL brings all panels to all GPUs. Then they multiply.
ahead     Copy engines bring one panel after the other, while the GPU multiplies with those that are there.
columns   The same with panels of B's columns and not of its rows: nothing is to be added to C, which has blocks.
direct    Nothing is brought. The kernel reads its tiles of B where they are, in the other GPU's memory.
========= ===========================================================================================================

On NumPy arrays the GPUs are imagined: the simulator does the work of one after the other.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, permutations
from numbers import Integral
from types import ModuleType
from typing import Any

import cupy
import numpy as np

from sgemm_tutorial import gpu, operands
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.errors import ArgumentError, DeviceError
from sgemm_tutorial.kernel import Kernel

WAYS = ("held", "gathered", "ahead", "columns", "direct")
WHOLE = ("held", "gathered")
"""Ways in which all of B is there before it is multiplied with."""
FETCHED = ("ahead", "columns")
"""Ways in which copy engines bring a panel while others are multiplied with."""
ALREADY = 704
"""CUDA's word for access that was given before: ``cudaErrorPeerAccessAlreadyEnabled``."""


@dataclass(frozen=True)
class Part:
    """One GPU's part of a product.

    Attributes
    ----------
    device : int or None
        The GPU's number; None if it is imagined.
    A : tuple of array
        Its band of A, whole, or cut where panels of B's rows are.
    B : tuple of array
        All panels of B. Of those that it doesn't have yet, every element is NaN.
    whole : array, shape (K, N)
        Their memory, where they lie one behind the other: B itself, if they are of rows.
    C : tuple of array
        Its band of C, whole, or cut where panels of B's columns are.
    """

    device: int | None
    A: tuple[Any, ...]
    B: tuple[Any, ...]
    whole: Any
    C: tuple[Any, ...]


@dataclass(frozen=True)
class Step:
    """One product of a GPU: with which panel, and of what; and whether it is the first that C gets."""

    panel: int
    A: Any
    B: Any
    C: Any
    first: bool


def count() -> int:
    """Return how many GPUs CuPy sees."""
    return cupy.cuda.runtime.getDeviceCount() if gpu.available() else 0


def cut(length: int, parts: int) -> list[slice]:
    """Return where to cut a side, so that no two parts differ by more than one."""
    return [slice(*ends) for ends in pairwise(length * part // parts for part in range(parts + 1))]


def steps(parts: Sequence[Part], number: int, way: str) -> list[Step]:
    """Return the products of a GPU in their order.

    It begins with its own panel and goes on to the next GPU's, and so on: no two GPUs ask a third at a time.
    """
    part, by_columns = parts[number], way == "columns"
    if way in WHOLE:
        return [Step(number, part.A[0], part.whole, part.C[0], True)]
    found = []
    for q in (*range(number, len(parts)), *range(number)):
        A, C = (part.A[0], part.C[q]) if by_columns else (part.A[q], part.C[0])
        B = (parts[q] if way == "direct" else part).B[q]
        found.append(Step(q, A, B, C, by_columns or q == number))
    return found


def multiply(
    kernel: Kernel | Gemm | str,
    A: Any,
    B: Any,
    C: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    *,
    gpus: int = 2,
    way: str = "ahead",
) -> Any:
    """Compute C ← αAB + βC on several GPUs: on the first ones for CuPy arrays, on imagined ones for NumPy arrays.

    It spreads the operands, multiplies, and puts C together, to check a way or to try one. Who multiplies more than
    once calls `spread` and `launch`, and leaves the parts where they are.

    Parameters
    ----------
    kernel : Kernel, Gemm or str
    A, B, C, alpha, beta
        As for calling the kernel.
    gpus : int
    way : str
        One of `WAYS`.

    Returns
    -------
    array of ``types.result``, shape (M, N)
        C itself if it was given.

    Raises
    ------
    ArgumentError
        As for calling the kernel, or there is no such way, or less than one GPU.
    DeviceError
        There are not so many GPUs, or they cannot read each other's memory, or there is no NCCL, as the way needs it.
    SimulationFault
        As for calling the kernel.
    """
    kernel = kernel if isinstance(kernel, Gemm) else find(kernel)
    problem = operands.check(A, B, C, alpha, beta, kernel.types)
    with gpu.reported(kernel.name) if problem.on_gpu else contextlib.nullcontext():
        parts = spread(A, B, C, gpus, way, kernel.types)
        if problem.on_gpu:
            launch(kernel, parts, way, alpha, beta)()
        else:
            simulated(kernel, parts, way, alpha, beta)
        for rows, part in zip(cut(problem.M, gpus), parts, strict=True):
            for columns, block in zip(cut(problem.N, len(part.C)), part.C, strict=True):
                problem.C[rows, columns] = _moved(block)
    return problem.C


def spread(A: Any, B: Any, C: Any, gpus: int, way: str, types: operands.Types) -> list[Part]:
    """Return the parts of a product, each copied to where it belongs.

    Parameters
    ----------
    A, B, C : array, shapes (M, K), (K, N) and (M, N)
        CuPy arrays on one GPU, or NumPy arrays. C may be None: then its bands hold NaNs.
    gpus : int
        The first of the GPUs are taken.
    way : str
        One of `WAYS`.
    types : Types
        Of the elements.

    Raises
    ------
    ArgumentError
        There is no such way, or less than one GPU.
    DeviceError
        There are not so many GPUs.
    """
    if way not in WAYS:
        raise ArgumentError("way", repr(way), f"one of {', '.join(WAYS)}")
    if not isinstance(gpus, Integral) or gpus < 1:
        raise ArgumentError("gpus", repr(gpus), "a whole number, 1 or more")
    real = isinstance(A, cupy.ndarray)
    if real and count() < gpus:
        raise DeviceError(f"{gpus} GPUs are wanted, and CuPy sees {count()}; NumPy arrays run on imagined ones")
    (M, K), N, xp, parts = A.shape, B.shape[1], cupy if real else np, []
    by_columns = way == "columns"
    depths = cut(K, 1 if way in WHOLE or by_columns else gpus)
    widths = cut(N, gpus if by_columns else 1)
    panels = [B[:, at] if by_columns else B[at] for at in cut(N if by_columns else K, gpus)]
    for number, rows in enumerate(cut(M, gpus)):
        with _on(number if real else None):
            whole, ends = xp.full((K, N), np.nan, types.operand), np.cumsum([panel.size for panel in panels])
            own = [whole.ravel()[end - p.size : end].reshape(p.shape) for p, end in zip(panels, ends, strict=True)]
            for q, panel in enumerate(panels):
                if way == "held" or q == number:
                    own[q][...] = _moved(panel)
            bands = [_moved(A[rows, at]) for at in depths]
            if C is None:
                sums = [xp.full((rows.stop - rows.start, at.stop - at.start), np.nan, types.result) for at in widths]
            else:
                sums = [_moved(C[rows, at]) for at in widths]
            if real:  # the streams of `launch` don't wait for this GPU's own
                cupy.cuda.runtime.deviceSynchronize()
        parts.append(Part(number if real else None, tuple(bands), tuple(own), whole, tuple(sums)))
    return parts


def simulated(kernel: Kernel, parts: Sequence[Part], way: str, alpha: float = 1.0, beta: float = 0.0) -> None:
    """Do the work of imagined GPUs, one after the other, updating each part's C.

    Parameters
    ----------
    kernel : Kernel
    parts : sequence of Part
        As `spread` returns them for this way, of NumPy arrays.
    way : str
        One of `WAYS`.
    alpha, beta : float

    Raises
    ------
    SimulationFault, UnsupportedInstruction
        As for calling the kernel.
    """
    for number, part in enumerate(parts):
        if way == "gathered":
            for q, source in enumerate(parts):
                part.B[q][...] = source.B[q]
        for step in steps(parts, number, way):
            if way in FETCHED:
                step.B[...] = parts[step.panel].B[step.panel]
            kernel(step.A, step.B, step.C, alpha, beta if step.first else 1.0)


def launch(
    kernel: Kernel | Gemm, parts: Sequence[Part], way: str, alpha: float = 1.0, beta: float = 0.0, alone: bool = False
) -> Callable[[], None]:
    """Return a function that queues the whole product behind the current stream, and lets that wait for its end.

    Only the current stream of the current GPU is waited for: what was queued elsewhere has to be done before.

    Parameters
    ----------
    kernel : Kernel or Gemm
    parts : sequence of Part
        As `spread` returns them for this way, on GPUs.
    way : str
        One of `WAYS`.
    alpha, beta : float
    alone : bool
        Let the panels come and multiply nothing.

    Raises
    ------
    DeviceError
        There is no NCCL where the way needs it, or a GPU cannot read another's memory.
    """
    reached = [reaches(one.device, other.device) for one, other in permutations(parts, 2)]
    if way == "direct" and not all(reached):
        raise DeviceError("direct: these GPUs cannot read each other's memory; the other ways need not")
    workers = [_Worker(part, steps(parts, number, way), way in FETCHED) for number, part in enumerate(parts)]
    products = []
    for worker in workers:
        with _on(worker.part.device):
            for step in worker.steps:
                problem = operands.check(step.A, step.B, step.C, alpha, beta if step.first else 1.0, kernel.types)
                products.append((worker, step.panel, (lambda: None) if alone else kernel.launcher(problem)))
    gather = _gatherer(workers) if way == "gathered" else None
    begun = cupy.cuda.Event(disable_timing=True)

    def queue() -> None:
        here = cupy.cuda.get_current_stream()
        begun.record(here)
        for worker in workers:
            worker.multiplies.wait_event(begun)
            worker.copies.wait_event(begun)
        if gather:
            gather()
        for worker in workers:
            worker.fetch(parts)
        for worker, panel, product in products:
            with _on(worker.part.device), worker.multiplies:
                if panel in worker.there:
                    worker.multiplies.wait_event(worker.there[panel])
                product()
        for worker in workers:
            worker.end.record(worker.multiplies)
            here.wait_event(worker.end)

    return queue


class _Worker:
    """A GPU with its streams, one to multiply and one for copies, and an event for each panel that is fetched."""

    def __init__(self, part: Part, steps: Sequence[Step], fetches: bool) -> None:
        self.part, self.steps = part, steps
        self.multiplies, self.copies = _streams(part.device)
        with _on(part.device):
            fetched = [step.panel for step in steps[1:]] if fetches else []
            self.end, *there = (cupy.cuda.Event(disable_timing=True) for _ in range(1 + len(fetched)))
        self.there = dict(zip(fetched, there, strict=True))

    def fetch(self, parts: Sequence[Part]) -> None:
        """Queue the copies of the panels that are fetched, in the order of the steps."""
        here = self.part.device
        with _on(here):
            for panel, there in self.there.items():
                to, source = self.part.B[panel], parts[panel]
                cupy.cuda.runtime.memcpyPeerAsync(
                    to.data.ptr, here, source.B[panel].data.ptr, source.device, to.nbytes, self.copies.ptr
                )
                there.record(self.copies)


@lru_cache
def _streams(device: int) -> list[cupy.cuda.Stream]:
    """Return a GPU's two streams, the same for all launches: what 13 wants beside C is kept for each stream."""
    with _on(device):
        return [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]


def _gatherer(workers: Sequence[_Worker]) -> Callable[[], None]:
    """Return a function that queues NCCL's part: each GPU sends its panel to all, a broadcast for each of them."""
    nccl = _nccl()
    team = _team(tuple(worker.part.device for worker in workers))

    def gather() -> None:
        with _reported(nccl):
            nccl.groupStart()
            for member, worker in zip(team, workers, strict=True):
                with _on(worker.part.device):
                    for root, panel in enumerate(worker.part.B):
                        place, stream = panel.data.ptr, worker.multiplies.ptr
                        member.broadcast(place, place, panel.nbytes, nccl.NCCL_INT8, root, stream)
            nccl.groupEnd()

    return gather


@lru_cache
def _team(devices: tuple[int, ...]) -> list[Any]:
    nccl = _nccl()
    with _reported(nccl):
        return nccl.NcclCommunicator.initAll(list(devices))


@contextlib.contextmanager
def _reported(nccl: ModuleType) -> Iterator[None]:
    """Turn NCCL's errors into a DeviceError."""
    try:
        yield
    except nccl.NcclError as error:
        raise DeviceError(f"NCCL failed: {error}") from error


def _nccl() -> ModuleType:
    """Return CuPy's binding of NCCL, which loads the library when it is first asked for."""
    with warnings.catch_warnings(action="ignore"):  # it warns, and what it says is raised here
        from cupy.cuda import nccl
    if not nccl.available:
        raise DeviceError(
            f"NCCL does not load: pip install nvidia-nccl-cu{cupy.cuda.runtime.runtimeGetVersion() // 1000}"
        )
    return nccl


@lru_cache
def reaches(device: int, other: int) -> bool:
    """Let a GPU read another's memory, if it can, and return whether it can."""
    runtime = cupy.cuda.runtime
    if not runtime.deviceCanAccessPeer(device, other):
        return False
    with _on(device):
        try:
            runtime.deviceEnablePeerAccess(other)
        except runtime.CUDARuntimeError as error:
            if error.status != ALREADY:
                raise
    return True


def _on(device: int | None) -> contextlib.AbstractContextManager[Any]:
    """Make a GPU the current one; an imagined one needs nothing."""
    return contextlib.nullcontext() if device is None else cupy.cuda.Device(device)


def _moved(array: Any) -> Any:
    """Return a contiguous copy on the current GPU; of NumPy's beside it."""
    if isinstance(array, np.ndarray):
        return np.array(array, order="C")
    with array.device:
        array = cupy.ascontiguousarray(array)
        cupy.cuda.runtime.deviceSynchronize()
    own = cupy.empty(array.shape, array.dtype)
    cupy.cuda.runtime.memcpyPeer(own.data.ptr, own.device.id, array.data.ptr, array.device.id, array.nbytes)
    cupy.cuda.runtime.deviceSynchronize()  # whatever the current stream is
    return own

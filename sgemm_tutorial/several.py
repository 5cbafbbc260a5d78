"""One product on several GPUs: each has a band of A's and C's rows and a panel of B's, and gets the other panels.

GPU p makes C_p ← α Σ_q A_pq B_q + βC_p, where A_pq is what of its band meets panel q. How the panels come is the *way*:

========= =============================================================================================================
held      Every GPU has all of B beforehand: nothing comes. No other way can be faster.
gathered  NCCL brings all panels to all GPUs. Then they multiply.
ahead     Copy engines bring one panel after the other, while the GPU multiplies with those that are there.
direct    Nothing is brought. The kernel reads its tiles of B where they are, in the other GPU's memory.
========= =============================================================================================================

On NumPy arrays the GPUs are imagined: the simulator does the work of one after the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, permutations
from typing import Any

import cupy
import numpy as np

from . import cublas, gpu, operands
from .catalogue import find
from .cublas import Gemm
from .errors import ArgumentError, DeviceError
from .kernel import Kernel

WAYS = ("held", "gathered", "ahead", "direct")
ALREADY = 704
"""CUDA's word for access that was given before: ``cudaErrorPeerAccessAlreadyEnabled``."""


@dataclass(frozen=True)
class Part:
    """What one GPU has of a product.

    Attributes
    ----------
    device : int or None
        The GPU's number; None if it is imagined.
    A : tuple of array, shapes (M_p, K_q)
        Its band of A, cut where B is, or whole where all of B is there before it multiplies.
    B : array, shape (K, N)
        Room for all of B. Of what it doesn't have yet, every element is NaN.
    C : array, shape (M_p, N)
        Its band of C.
    """

    device: int | None
    A: tuple[Any, ...]
    B: Any
    C: Any


@dataclass(frozen=True)
class Step:
    """One product of a GPU.

    Attributes
    ----------
    panel : slice
        Which rows of B it is with.
    source : int
        The GPU that has them to begin with.
    A, B : array
        The operands.
    """

    panel: slice
    source: int
    A: Any
    B: Any


def cut(length: int, parts: int) -> list[slice]:
    """Return where to cut a side so that no two parts differ by more than one row."""
    ends = [length * part // parts for part in range(parts + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def steps(parts: Sequence[Part], number: int, way: str) -> list[Step]:
    """Return the products of a GPU in their order.

    It begins with its own panel and goes on to those of the next GPUs, so that no two ask the same one at a time.
    """
    part, panels = parts[number], cut(len(parts[0].B), len(parts))
    if len(part.A) == 1:
        return [Step(slice(0, len(part.B)), number, part.A[0], part.B)]
    order = [(number + step) % len(parts) for step in range(len(parts))]
    has = {q: parts[q if way == "direct" else number].B for q in order}
    return [Step(panels[q], q, part.A[q], has[q][panels[q]]) for q in order]


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

    It spreads the operands, multiplies and gathers C, to check a way or to try one. Who multiplies more than once calls
    `spread` and `launch`, and leaves the parts where they are.

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
    kernel = find(kernel) if isinstance(kernel, str) else kernel
    problem = operands.check(A, B, C, alpha, beta, kernel.types)
    if isinstance(kernel, Gemm) and not problem.on_gpu:
        raise ArgumentError("A", "a NumPy array", "a CuPy array: cuBLAS runs on a GPU")
    parts = spread(A, B, None if problem.fresh_C else problem.C, gpus, way, kernel.types)
    if problem.on_gpu:
        with gpu.reported(kernel.name):
            launch(kernel, parts, way, alpha, beta)()
    else:
        simulated(kernel, parts, way, alpha, beta)
    for band, part in zip(cut(problem.M, gpus), parts, strict=True):
        problem.C[band] = _moved(part.C)
    return problem.C


def spread(A: Any, B: Any, C: Any, gpus: int, way: str, types: operands.Types) -> list[Part]:
    """Return the parts of a product, each copied to where it belongs; without C, its bands hold nothing yet.

    Raises
    ------
    ArgumentError
        There is no such way, or less than one GPU.
    DeviceError
        There are not so many GPUs.
    """
    if way not in WAYS:
        raise ArgumentError("way", repr(way), f"one of {', '.join(WAYS)}")
    if gpus < 1:
        raise ArgumentError("gpus", str(gpus), "1 or more")
    real = isinstance(A, cupy.ndarray)
    if real and gpu.count() < gpus:
        raise DeviceError(f"{gpus} GPUs are wanted, and CuPy sees {gpu.count()}; NumPy arrays run on imagined ones")
    (M, K), N, xp, parts = A.shape, B.shape[1], cupy if real else np, []
    panels = cut(K, gpus)
    for number, band in enumerate(cut(M, gpus)):
        blocks = [A[band]] if way in ("held", "gathered") else [A[band, panel] for panel in panels]
        blocks = [xp.ascontiguousarray(block) for block in blocks]
        has = slice(0, K) if way == "held" else panels[number]
        own = B[has]
        rows = None if C is None else C[band]
        with _on(number if real else None):
            room = xp.full((K, N), np.nan, types.operand)
            room[has] = _moved(own)
            mine = xp.full((band.stop - band.start, N), np.nan, types.result) if rows is None else _moved(rows).copy()
            parts.append(Part(number if real else None, tuple(map(_moved, blocks)), room, mine))
    return parts


def simulated(kernel: Kernel, parts: Sequence[Part], way: str, alpha: float = 1.0, beta: float = 0.0) -> None:
    """Do the work of imagined GPUs, one after the other, updating each part's C."""
    for number, part in enumerate(parts):
        if way == "gathered":
            for panel, source in zip(cut(len(part.B), len(parts)), parts, strict=True):
                part.B[panel] = source.B[panel]
        for step in steps(parts, number, way):
            if way == "ahead":
                step.B[...] = parts[step.source].B[step.panel]
            kernel(step.A, step.B, part.C, alpha, beta if step.source == number else 1.0)


def launch(
    kernel: Kernel | Gemm, parts: Sequence[Part], way: str, alpha: float = 1.0, beta: float = 0.0, alone: bool = False
) -> Callable[[], None]:
    """Return a function that queues the whole product behind the current stream, and lets that wait for its end.

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
    reached = [_reaches(one.device, other.device) for one, other in permutations(parts, 2)]
    if way == "direct" and not all(reached):
        raise DeviceError("direct: these GPUs cannot read each other's memory; gathered and ahead need not")
    lanes = [_Lane(part, steps(parts, number, way)) for number, part in enumerate(parts)]
    products = []
    for lane in lanes if not alone else ():
        with _on(lane.part.device):
            for step in lane.steps:
                scale = beta if step.source == lane.steps[0].source else 1.0
                problem = operands.check(step.A, step.B, lane.part.C, alpha, scale, kernel.types)
                make = cublas.launch if isinstance(kernel, Gemm) else kernel.launcher
                products.append((lane, step, make(problem)))
    gather = _gatherer(lanes) if way == "gathered" else lambda: None
    begun = cupy.cuda.Event(disable_timing=True)

    def queue() -> None:
        here = cupy.cuda.get_current_stream()
        begun.record(here)
        for lane in lanes:
            lane.multiplies.wait_event(begun)
            lane.copies.wait_event(begun)
        gather()
        for lane in lanes if way == "ahead" else ():
            lane.fetch(parts)
        for lane, step, product in products:
            with _on(lane.part.device), lane.multiplies:
                if step.source in lane.there:
                    lane.multiplies.wait_event(lane.there[step.source])
                product()
        for lane in lanes:
            lane.finish(here)

    return queue


class _Lane:
    """A GPU with its streams: one to multiply, one for the copy engine; and an event for each panel that comes."""

    def __init__(self, part: Part, steps: Sequence[Step]) -> None:
        self.part, self.steps = part, steps
        with _on(part.device):
            self.multiplies, self.copies = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
            self.there: dict[int, cupy.cuda.Event] = {}
            self._ends = [cupy.cuda.Event(disable_timing=True) for _ in range(2)]

    def fetch(self, parts: Sequence[Part]) -> None:
        """Queue the copies of all panels that are elsewhere, in the order of the steps."""
        copy, device = cupy.cuda.runtime.memcpyPeerAsync, self.part.device
        with _on(device):
            for step in self.steps[1:]:
                source = parts[step.source].B[step.panel]
                copy(step.B.data.ptr, device, source.data.ptr, step.source, source.nbytes, self.copies.ptr)
                if step.source not in self.there:
                    self.there[step.source] = cupy.cuda.Event(disable_timing=True)
                self.there[step.source].record(self.copies)

    def finish(self, stream: Any) -> None:
        """Let a stream wait for all that was queued."""
        for end, own in zip(self._ends, (self.multiplies, self.copies), strict=True):
            end.record(own)
            stream.wait_event(end)


def _gatherer(lanes: Sequence[_Lane]) -> Callable[[], None]:
    """Return a function that queues NCCL's part: each GPU sends its panel to all, a broadcast for each of them."""
    try:
        from cupy.cuda import nccl
    except ImportError as error:
        reason = str(error).splitlines()[0]
        raise DeviceError(f"NCCL does not load: pip install nvidia-nccl-cu13 ({reason})") from error
    team = _team(tuple(lane.part.device for lane in lanes))
    panels = cut(len(lanes[0].part.B), len(lanes))

    def gather() -> None:
        nccl.groupStart()
        for member, lane in zip(team, lanes, strict=True):
            with _on(lane.part.device):
                for root, panel in enumerate(panels):
                    rows = lane.part.B[panel]
                    place, stream = rows.data.ptr, lane.multiplies.ptr
                    member.broadcast(place, place, rows.nbytes, nccl.NCCL_INT8, root, stream)
        nccl.groupEnd()

    return gather


@lru_cache
def _team(devices: tuple[int, ...]) -> list[Any]:
    from cupy.cuda import nccl

    return nccl.NcclCommunicator.initAll(list(devices))


@lru_cache
def _reaches(device: int, other: int) -> bool:
    """Let a GPU read another's memory, and return whether it can."""
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
    """Return an array's copy on the current GPU; NumPy's itself."""
    if isinstance(array, np.ndarray):
        return array
    own = cupy.empty(array.shape, array.dtype)
    here, there = own.device.id, array.device.id
    cupy.cuda.runtime.deviceSynchronize()
    cupy.cuda.runtime.memcpyPeer(own.data.ptr, here, array.data.ptr, there, array.nbytes)
    return own

"""One product on several GPUs: each has a band of A's and C's rows and a panel of B, and needs the other panels too.

How they come, and what they are, is the *way*:

========= ===========================================================================================================
held      Every GPU has all of B beforehand, and nothing comes.
gathered  NCCL broadcasts each panel to all GPUs. Then they multiply.
ahead     Copy engines bring one panel after the other, while the GPU multiplies with those that are there.
columns   The same with panels of B's columns and not of its rows: nothing is to be added to C, which has blocks.
grid      Each GPU has a block of C, and no band: panels of A come along a row of GPUs, and those of B along a column.
direct    Nothing is brought. The kernel reads its tiles of B where they are, in the other GPU's memory.
========= ===========================================================================================================

Panels travel in a ring: each GPU gets them from its neighbour, one after the other, and sends them on.

On NumPy arrays the GPUs are imagined: the simulator does the work of one after the other.
"""

import contextlib
import math
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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

WAYS = ("held", "gathered", "ahead", "columns", "grid", "direct")
WHOLE = ("held", "gathered")
"""Ways in which all of B is there before it is multiplied with."""
SENT = ("gathered", "ahead", "columns", "grid")
"""Ways in which panels go from GPU to GPU."""
ALREADY = 704
"""CUDA's word for access that was given before: ``cudaErrorPeerAccessAlreadyEnabled``."""


@dataclass(frozen=True)
class Part:
    """One GPU's part of a product.

    Attributes
    ----------
    number, gpus : int
        Which of how many GPUs has it.
    device : int or None
        The GPU's number on its host; None if it is imagined.
    rows, columns : slice
        Where its C lies in the whole one.
    A : tuple of array
        Its band of A, whole, or cut into panels where panels of B's rows are.
    B : tuple of array
        All panels of B, or of its columns of B. Of panels that it doesn't have yet, every element is NaN, and so it is
        with A's. In the way *direct*, they lie in the memory of the GPUs that have them.
    whole : array
        Their memory, where they lie one behind the other: B itself, if they are of rows.
    C : tuple of array
        Its band of C, whole, or cut where panels of B's columns are.
    """

    number: int
    gpus: int
    device: int | None
    rows: slice
    columns: slice
    A: tuple[Any, ...]
    B: tuple[Any, ...]
    whole: Any
    C: tuple[Any, ...]


@dataclass(frozen=True)
class Step:
    """One step of a GPU: its product, if it has one, and the panels that it sends and gets meanwhile.

    Attributes
    ----------
    panel : int
        The number of the panel that is multiplied with.
    A, B, C : array or None
        The operands. C is None if nothing is multiplied.
    first : bool
        Whether this product is the first that C gets.
    goes, comes : tuple of (int, str, int)
        What is sent, and what has to have come before the next step: the other GPU's number, "A" or "B", and the
        panel's number.
    """

    panel: int
    A: Any
    B: Any
    C: Any
    first: bool
    goes: tuple[tuple[int, str, int], ...]
    comes: tuple[tuple[int, str, int], ...]


def count() -> int:
    """Return how many GPUs CuPy sees."""
    return cupy.cuda.runtime.getDeviceCount() if gpu.available() else 0


def cut(length: int, parts: int) -> list[slice]:
    """Return where to cut a side, so that no two parts differ by more than one."""
    return [slice(*ends) for ends in pairwise(length * part // parts for part in range(parts + 1))]


def grid(way: str, gpus: int) -> tuple[int, int]:
    """Return the rows and columns of blocks that C is divided into, a block for each GPU.

    All ways but *grid* divide its rows alone, and so does *grid* for a prime number of GPUs.
    """
    columns = max(number for number in range(1, math.isqrt(gpus) + 1) if gpus % number == 0) if way == "grid" else 1
    return gpus // columns, columns


def rings(number: int, gpus: int, way: str) -> tuple[list[int], dict[str, tuple[int, int, int]]]:
    """Return the order in which a GPU multiplies with panels, and its place in the rings of A's panels and of B's.

    A place in a ring is the number of panels that the GPU has at the start, whom it sends to, and who sends to it. It
    begins with its own panels, say n, and goes on to its neighbour's: each is needed n steps after the neighbour did.
    """
    rows, columns = grid(way, gpus)
    panels, (i, j) = math.lcm(rows, columns), divmod(number, columns)
    begin = i * panels // rows + j * panels // columns
    left, right = (i * columns + (j + step) % columns for step in (-1, 1))
    above, below = ((i + step) % rows * columns + j for step in (-1, 1))
    order = [(begin + step) % panels for step in range(panels)]
    return order, {"A": (panels // columns, left, right), "B": (panels // rows, above, below)}


def steps(part: Part, way: str) -> list[Step]:
    """Return the steps of a GPU in their order."""
    (order, of), found = rings(part.number, part.gpus, way), []
    for at, panel in enumerate(order):
        travelling = [(side, *ring) for side, ring in of.items() if way in SENT and at + ring[0] < len(order)]
        goes = tuple((target, side, panel) for side, _, target, _ in travelling)
        comes = tuple((source, side, order[at + own]) for side, own, _, source in travelling)
        if way in WHOLE:
            product = (part.A[0], part.whole, part.C[0], True) if at + 1 == len(order) else (None, None, None, False)
        elif way == "columns":
            product = part.A[0], part.B[panel], part.C[panel], True
        else:
            product = part.A[panel], part.B[panel], part.C[0], at == 0
        found.append(Step(panel, *product, goes, comes))
    return found


def traffic(way: str, gpus: int, M: int, N: int, K: int, itemsize: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the messages and the bytes that go over each link, by the numbers of its two GPUs.

    The way *direct* sends no messages: what it reads depends on the kernel.
    """
    found, (rows, columns) = {}, grid(way, gpus)
    for number in range(gpus if way in SENT else 0):
        order, of = rings(number, gpus, way)
        lengths = [at.stop - at.start for at in cut(N if way == "columns" else K, len(order))]
        band, across = cut(M, rows)[number // columns], cut(N, columns)[number % columns]
        sides = {"A": band.stop - band.start, "B": K if way == "columns" else across.stop - across.start}
        for side, (own, _, source) in of.items():
            if come := [lengths[panel] * sides[side] * itemsize for panel in order[own:]]:
                found[source, number] = len(come), sum(come)
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
    team: Any = None,
) -> Any:
    """Compute C ← αAB + βC on several GPUs: on the first ones for CuPy arrays, on imagined ones for NumPy arrays.

    With a team, each rank computes one part on the current GPU, or on an imagined one. It reads no more of the
    operands than it needs, and of C only its own block is computed.

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
    team : ranks.Team, optional
        The processes that multiply, a GPU each. They count, and not `gpus`.

    Returns
    -------
    array of ``types.result``, shape (M, N)
        C itself if it was given.

    Raises
    ------
    ArgumentError
        As for calling the kernel, or there is no such way, or less than one GPU, or a rank has another problem.
    DeviceError
        There are not so many GPUs, or they cannot read each other's memory, or there is no NCCL, as the way needs it,
        or a rank failed.
    SimulationFault
        As for calling the kernel.
    """
    kernel = kernel if isinstance(kernel, Gemm) else find(kernel)
    problem = operands.check(A, B, C, alpha, beta, kernel.types)
    with gpu.reported(kernel.name) if problem.on_gpu else contextlib.nullcontext():
        if team:
            team.agree(kernel.name, *problem.shape, float(alpha), float(beta), way)
        parts = spread(A, B, C, team.size if team else gpus, way, kernel.types, team and team.rank)
        if team:
            deque(work(kernel, parts[0], way, team, alpha, beta), 0)
            team.agree("done")  # else one that has all it needs would end well where others fail
        elif problem.on_gpu:
            launch(kernel, parts, way, alpha, beta)()
        else:
            simulated(kernel, parts, way, alpha, beta)
        for part in parts:
            band = problem.C[part.rows, part.columns]
            for at, block in zip(cut(band.shape[1], len(part.C)), part.C, strict=True):
                band[:, at] = _moved(block)
    return problem.C


def spread(A: Any, B: Any, C: Any, gpus: int, way: str, types: operands.Types, only: int | None = None) -> list[Part]:
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
    only : int, optional
        The number of the one part to return, on the current GPU.

    Raises
    ------
    ArgumentError
        There is no such way, or less than one GPU, or *direct* is asked for one part only.
    DeviceError
        There are not so many GPUs.
    """
    if way not in WAYS:
        raise ArgumentError("way", repr(way), f"one of {', '.join(WAYS)}")
    if not isinstance(gpus, Integral) or gpus < 1:
        raise ArgumentError("gpus", repr(gpus), "a whole number, 1 or more")
    real, alone = isinstance(A, cupy.ndarray), only is None
    if way == "direct" and not alone:
        raise ArgumentError("way", "'direct'", "another one: a process has no address of another's panels")
    if real and alone and count() < gpus:
        raise DeviceError(f"{gpus} GPUs are wanted, and CuPy sees {count()}; NumPy arrays run on imagined ones")
    (M, K), N, xp, parts = A.shape, B.shape[1], cupy if real else np, []
    (rows, columns), by_columns = grid(way, gpus), way == "columns"
    for number in range(gpus) if alone else [only]:
        device = (number if alone else cupy.cuda.Device().id) if real else None
        order, of = rings(number, gpus, way)
        band, across = cut(M, rows)[number // columns], cut(N, columns)[number % columns]
        bands = [A[band, at] for at in cut(K, 1 if way in WHOLE or by_columns else len(order))]
        panels = [B[:, at] if by_columns else B[at, across] for at in cut(N if by_columns else K, len(order))]
        own_a, own_b = (order if way == "held" else order[: of[side][0]] for side in "AB")
        with _on(device):
            whole, ends = (
                xp.full((K, across.stop - across.start), np.nan, types.operand),
                np.cumsum([p.size for p in panels]),
            )
            places = [whole.ravel()[end - p.size : end].reshape(p.shape) for p, end in zip(panels, ends, strict=True)]
            for q in own_b:
                places[q][...] = _moved(panels[q])
            kept = [_moved(one) if q in own_a else xp.full_like(one, np.nan, order="C") for q, one in enumerate(bands)]
            sums = [
                xp.full((band.stop - band.start, at.stop - at.start), np.nan, types.result)
                if C is None
                else _moved(C[band, across][:, at])
                for at in cut(across.stop - across.start, gpus if by_columns else 1)
            ]
            if real:  # the streams of `launch` don't wait for this GPU's own
                cupy.cuda.runtime.deviceSynchronize()
        parts.append(Part(number, gpus, device, band, across, tuple(kept), tuple(places), whole, tuple(sums)))
    if way == "direct":
        parts = [replace(part, B=tuple(other.B[q] for q, other in enumerate(parts))) for part in parts]
    return parts


@dataclass(frozen=True)
class Links:
    """Links between imagined GPUs: what one sends waits until the other takes it, and is counted.

    Attributes
    ----------
    sent : list of (int, int, int)
        The sender, the receiver and the bytes of each message.
    """

    sent: list[tuple[int, int, int]] = field(default_factory=list)
    _waiting: dict[tuple[int, int], deque] = field(default_factory=lambda: defaultdict(deque))

    def send(self, source: int, target: int, array: Any) -> None:
        """Send an array from one GPU to another."""
        self.sent.append((source, target, array.nbytes))
        self._waiting[source, target].append(array.copy())

    def take(self, source: int, target: int, into: Any) -> None:
        """Put what came next from a GPU into an array of another."""
        into[...] = self._waiting[source, target].popleft()


def work(kernel: Kernel, part: Part, way: str, links: Any, alpha: float = 1.0, beta: float = 0.0) -> Iterator[None]:
    """Do one GPU's work. Each step ends where the other GPUs must have sent before this one goes on."""
    for step in steps(part, way):
        for other, side, panel in step.goes:
            links.send(part.number, other, getattr(part, side)[panel])
        if step.C is not None:
            kernel(step.A, step.B, step.C, alpha, beta if step.first else 1.0)
        yield
        for other, side, panel in step.comes:
            links.take(other, part.number, getattr(part, side)[panel])


def simulated(
    kernel: Kernel, parts: Sequence[Part], way: str, alpha: float = 1.0, beta: float = 0.0
) -> list[tuple[int, int, int]]:
    """Do the work of imagined GPUs, a step of one after the other, updating each part's C.

    Parameters
    ----------
    kernel : Kernel
    parts : sequence of Part
        As `spread` returns them for this way, of NumPy arrays.
    way : str
        One of `WAYS`.
    alpha, beta : float

    Returns
    -------
    list of (int, int, int)
        The sender, the receiver and the bytes of each message that was sent.

    Raises
    ------
    SimulationFault, UnsupportedInstruction
        As for calling the kernel.
    """
    links = Links()
    deque(zip(*(work(kernel, part, way, links, alpha, beta) for part in parts), strict=True), 0)
    return links.sent


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
    workers = [_Worker(part, steps(part, way), way != "gathered") for part in parts]
    products = []
    for worker in workers:
        with _on(worker.part.device):
            for step in (step for step in worker.steps if step.C is not None):
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
        else:
            for at in range(len(workers[0].steps)):
                for worker in workers:
                    worker.fetch(at, workers)
        for worker, panel, product in products:
            with _on(worker.part.device), worker.multiplies:
                for side in "AB":
                    if (side, panel) in worker.there:
                        worker.multiplies.wait_event(worker.there[side, panel])
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
            self.end = cupy.cuda.Event(disable_timing=True)
            comes = steps if fetches else ()
            self.there = {piece[1:]: cupy.cuda.Event(disable_timing=True) for step in comes for piece in step.comes}

    def fetch(self, at: int, workers: Sequence["_Worker"]) -> None:
        """Queue the copies of what comes in a step, each behind its arrival at the neighbour that has it."""
        device = self.part.device
        with _on(device):
            for source, side, panel in self.steps[at].comes:
                neighbour = workers[source]
                if (side, panel) in neighbour.there:  # it had to come there, too
                    self.copies.wait_event(neighbour.there[side, panel])
                mine, theirs = (getattr(part, side)[panel] for part in (self.part, neighbour.part))
                cupy.cuda.runtime.memcpyPeerAsync(
                    mine.data.ptr, device, theirs.data.ptr, neighbour.part.device, mine.nbytes, self.copies.ptr
                )
                self.there[side, panel].record(self.copies)


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

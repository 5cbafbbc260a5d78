"""Measures a product's time and energy in a burst, for some seconds, and in turns with cuBLAS.

A card runs at its highest clock until its power limit lowers it. So the same product has several times, and which of
two is faster may differ among them. Nothing on the card is set, only read.
"""

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, pairwise, product
from typing import Any

import cupy

from sgemm_tutorial import cublas, gpu, operands, timing
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.operands import FP16
from sgemm_tutorial.timing import Queue, Timing

from ..measure import cublaslt
from ..measure.bench import samples_of
from ..measure.driver import Item, Plan
from ..measure.sensors import Sensors
from ..records import files
from ..records.files import Recording, Sized
from ..records.provenance import Provenance, provenance
from ..records.sizes import sizes_of
from ..records.timings import Ms, Samples
from ..variants import HOPPER_STEPS


@dataclass(frozen=True, kw_only=True)
class Fed(Sized):
    """A measurement on inputs of one kind, of `INPUTS`."""

    M: int = 4096
    N: int = 4096
    K: int = 4096
    inputs: str = "normal"


@dataclass(frozen=True, kw_only=True)
class Sustained(Fed):
    """One kernel, or a routine of cuBLAS, as one protocol measures it on inputs of one kind.

    Attributes
    ----------
    protocol : str
        ``"burst"``, ``"in turns"`` or ``"lasting"``: see the functions of these names.
    ms : float
        Median device time of a launch; of a lasting run, the mean in its second half: time over work.
    sm_mhz, watts : int or None
        Medians of the multiprocessors' clock and of the card's power over the same time; None where NVML does not tell.
    joules : float or None
        The energy of a launch by the card's own counter, in the second half of a lasting run.
    samples : Samples
        All samples in their order, each with the sensors as they were read when it had begun.
    reasons : list of int or None
        With each sample, the reasons that NVML gave for the clock, as the bits of its ``nvmlClocksEventReasons``.
    cublas : Samples, optional
        cuBLAS's samples, in turns.
    """

    protocol: str = "lasting"
    ms: Ms
    sm_mhz: int | None
    watts: int | None
    joules: float | None = None
    samples: Samples | None = field(default=None, hash=False)
    reasons: list[int | None] = field(default_factory=list, hash=False)
    cublas: Samples | None = field(default=None, hash=False)

    PROBLEM = ("size", "inputs", "protocol")

    @property
    def cycles(self) -> float:
        """Cycles of a multiprocessor in a launch."""
        return self.ms * 1e3 * self.sm_mhz


def of(
    kernel: Kernel | Gemm,
    size: int = 4096,
    inputs: str = "normal",
    protocol: str = "lasting",
    recording: str = "sustained",
) -> Sustained:
    """Return what is recorded of a kernel, as it is now, or of a routine of cuBLAS, in one of this module's recordings.

    Raises
    ------
    ArgumentError
        It is not recorded, or only with other code.
    """
    return files.point(recording, Sustained, kernel, (size,) * 3, inputs, protocol)


def cublas_ms(kernel: Kernel, size: int = 4096, inputs: str = "normal", protocol: str = "lasting") -> float:
    """Return what the routine of cuBLAS for the kernel's types takes by the same protocol, in turns beside the kernel.

    Raises
    ------
    ArgumentError
        As for `of`.
    """
    if protocol == "in turns":
        return statistics.median(of(kernel, size, inputs, protocol).cublas.ms)
    return of(ROUTINES[kernel.types.name], size, inputs, protocol).ms


def lasted(kernel: Kernel) -> tuple[float, float] | None:
    """Return the milliseconds of a lasting run at 4096 and its share of cuBLAS's speed; None if it isn't recorded."""
    for recording in ("sustained", "lasting"):
        with suppress(ArgumentError):
            ms = of(kernel, recording=recording).ms
            return ms, of(ROUTINES[kernel.types.name], recording=recording).ms / ms
    return None


ROUTINES = {routine.types.name: routine for routine in (cublas.sgemm, cublas.gemm_ex)}
RIVALS = cublas.gemm_ex, cublaslt.Quickest("cublasLtMatmul", FP16)
LARGE = (2048, 3072, 4096, 6144, 8192, 12288, 16384)
"""Squares of lasting runs of 22 and of its rivals."""
SECONDS, BATCH_MS = 4.0, 10.0
"""The time that a lasting run takes, and the least device time of a sample of it."""
BURSTS, CHUNKS = 2, 8
"""Bursts of a kernel, and samples in each."""
REST = 0.2
"""Seconds without work before each burst, and before a lasting run."""
SAMPLING: dict[str, Any] = {"samples": 15, "least_samples": 7, "seconds": 0.2, "warm_s": [0.25, 0.3]}
"""Limits of the samples of a kernel and cuBLAS that take turns."""
INPUTS = {
    "normal": lambda normal: normal,
    "few bits": lambda normal: normal * (2**21 + 1) - (normal * (2**21 + 1) - normal),
    "ones": lambda normal: normal - normal + 1,
    "zeros": lambda normal: normal - normal,
}
"""Kinds of A and B, made of standard normal numbers in float32. Those of few bits have two after the leading one."""


def plan() -> Plan:
    """Return the plan: tensor-core kernels alone for some seconds, some in all protocols and on other inputs."""
    some = (find("mma"), find("persistent"), cublas.gemm_ex, find("autotuned"), find("tf32x3_wgmma"), cublas.sgemm)
    more = (*map(find, ("wmma", "wmma_warp_tile", "tf32x3", "wgmma", "producer_warp")), HOPPER_STEPS[1])
    full, large = sizes_of((4096, 8192))
    items = [(kernel, full, "normal", "lasting") for kernel in more]
    for size, inputs, kernel in product((full, large), INPUTS, some):
        protocols = PROTOCOLS if inputs in ("normal", "zeros") else ("lasting",) if size == full else ()
        items += [(kernel, size, inputs, how) for how in protocols if how != "in turns" or isinstance(kernel, Kernel)]
    settings = {"lasting_s": SECONDS, "bursts": BURSTS, "chunks": CHUNKS, "rest": REST, **SAMPLING}
    return Plan("sustained", Recording[Sustained], items, measure, settings, takes=2.3, made_on=made_on)


def lasting_plan() -> Plan:
    """Return the plan: 22 alone for some seconds at large squares, and cuBLAS and cuBLASLt on the same card."""
    who = find("any_shape"), *RIVALS
    items = [(kernel, size, "normal", "lasting") for size in sizes_of(LARGE) for kernel in who]
    settings = {"lasting_s": SECONDS, "rest": REST}
    return Plan("lasting", Recording[Sustained], items, measure, settings, takes=SECONDS + 0.6, made_on=made_on)


def made_on() -> Provenance:
    """Return the provenance with the limit of the card's power in watts, where NVML tells it."""
    limit = Meter().ask("EnforcedPowerLimit")
    return provenance() if limit is None else {**provenance(), "power_limit_watts": round(limit / 1000)}


Seen = tuple[int | None, float | None, int | None, int | None]


class Meter(Sensors):
    """Reads the card's counter of energy too, and the reasons for its clock."""

    def ask(self, what: str) -> int | None:
        """Return what NVML's function ``nvmlDeviceGet…`` tells, or None where it does not."""
        if self._nvml:
            with suppress(self._nvml.NVMLError):
                return getattr(self._nvml, f"nvmlDeviceGet{what}")(self._card)
        return None

    def see(self) -> Seen:
        """Return the clock in MHz, the power in watts, the energy so far in millijoules, and the reasons, now."""
        return *self.read(), self.ask("TotalEnergyConsumption"), self.ask("CurrentClocksEventReasons")


def problems(missing: Sequence[Item]) -> Iterator[tuple[Item, operands.Problem]]:
    """Yield items of a kernel, a size, a kind of A and B, and more, with their problems on this machine's GPU."""
    for size, group in groupby(missing, key=lambda item: item[1]):
        normal = matrices(*size, on_gpu=True)
        for item in group:
            kernel, _, inputs, *_ = item
            A, B = (INPUTS[inputs](matrix).astype(kernel.types.operand) for matrix in normal)
            yield item, operands.check(A, B, None, 1.0, 0.0, kernel.types)


def measure(missing: Sequence[Item]) -> Iterator[Sustained]:
    """Measure the missing items one after the other on this machine's GPU."""
    meter = Meter()
    for (kernel, size, inputs, protocol), problem in problems(missing):
        with gpu.reported(kernel.name):
            found = PROTOCOLS[protocol](kernel.launcher(problem), cublas.launch(problem), meter)
        yield Sustained.of(kernel, size, inputs=inputs, protocol=protocol, **found)


def burst(launch: Queue, theirs: Queue, meter: Meter) -> dict[str, Any]:
    """Run for some milliseconds after a rest, several times: the clock is the card's highest when each run begins."""
    count = _launches(launch, timing.SAMPLE_MS, meter)
    return _found(count, [each for _ in range(BURSTS) for each in _run(launch, count, meter, REST, ahead=CHUNKS)])


def lasting(launch: Queue, theirs: Queue, meter: Meter) -> dict[str, Any]:
    """Run for so long that the clock settles, and look at the second half.

    The counter of energy moves in steps. So whole steps are taken, from one to another.
    """
    count = _launches(launch, BATCH_MS, meter)
    taken = _run(launch, count, meter, REST, seconds=SECONDS)
    half, energy = len(taken) // 2, [seen[2] for _, seen in taken]
    steps = [i for i in range(half, len(taken)) if energy[i] != energy[i - 1]]
    spent = len(steps) > 1 and (energy[steps[-1]] - energy[steps[0]]) / 1000 / (steps[-1] - steps[0]) / count
    mean = statistics.fmean(ms for ms, _ in taken[half:])
    return _found(count, taken, half) | {"ms": mean, "joules": spent or None}


def in_turns(launch: Queue, theirs: Queue, meter: Meter) -> dict[str, Any]:
    """Sample it in turns with cuBLAS, as the book's other recordings of times do."""
    own, reference = timing.time_interleaved({"own": launch, "cuBLAS": theirs}, **SAMPLING).values()
    return _medians(own) | {"cublas": samples_of(reference)}


PROTOCOLS = {"burst": burst, "in turns": in_turns, "lasting": lasting}


def _run(
    launch: Queue, count: int, meter: Meter, rest: float = 0.0, ahead: int = 2, seconds: float = 0.0
) -> list[tuple[float, Seen]]:
    """Rest, launch once, then run batches without a pause, and return each one's time per launch, and what was seen.

    The sensors are read when a batch has begun. The first `ahead` batches are queued at once, and while `seconds` have
    not passed, another one whenever one begins.
    """
    time.sleep(rest)
    events, seen, begin = [_queued(launch, count if i else 1) for i in range(ahead + 1)], [], time.monotonic()
    while len(seen) + 1 < len(events):
        events[len(seen)].synchronize()
        seen.append(meter.see())
        if time.monotonic() - begin < seconds:
            events.append(_queued(launch, count))
    events[-1].synchronize()
    return [(cupy.cuda.get_elapsed_time(*at) / count, of) for at, of in zip(pairwise(events), seen, strict=True)]


def _queued(launch: Queue, count: int) -> Any:
    """Queue some launches, and return an event that comes after them."""
    for _ in range(count):
        launch()
    event = cupy.cuda.Event()
    event.record()
    return event


def _launches(launch: Queue, least_ms: float, meter: Meter) -> int:
    """Return how many launches take so long."""
    return math.ceil(least_ms / min(ms for ms, _ in _run(launch, 1, meter)))


def _found(count: int, taken: list[tuple[float, Seen]], first: int = 0) -> dict[str, Any]:
    """Return a point's fields for batches with what was seen in each."""
    times, (clocks, watts, _, reasons) = [ms for ms, _ in taken], zip(*(seen for _, seen in taken), strict=True)
    return _medians(Timing(tuple(times), count, clocks, watts), first) | {"reasons": list(reasons)}


def middle(values: Sequence[float | None]) -> int | None:
    """Return the median of what a sensor read, None where it once didn't tell."""
    return None if None in values else round(statistics.median(values))


def _medians(taken: Timing, first: int = 0) -> dict[str, Any]:
    """Return a point's fields for samples: all, and the medians from the first that counts."""
    ms, *sensed = (values[first:] for values in (taken.samples, taken.sm_mhz, taken.watts))
    clock, watts = map(middle, sensed)
    return {"ms": statistics.median(ms), "sm_mhz": clock, "watts": watts, "samples": samples_of(taken)}

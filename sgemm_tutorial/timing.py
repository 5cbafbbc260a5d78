"""Measures the time of launches on the GPU itself, however long the host needs to send them.

A launch from Python costs the host microseconds, often more than a small kernel runs. So a sample is
taken like this, all of it queued before any of it runs::

    spin … | (the kernel once, to warm the caches) | event | the kernel, `batch` times | event

The spin kernel keeps the GPU busy while the host queues the rest; if the first event was reached
before the host had finished, the sample is thrown away and the next spin is longer. Launches to compare are sampled in
turn, one sample each, so that a drift of the clocks affects all alike.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import cupy
import numpy as np

from . import gpu
from .errors import ArgumentError, DeviceError
from .kernel import Kernel

SAMPLE_MS = 2.0
"""Device time a sample should last, far above an event's resolution of about a microsecond."""
MOST_LAUNCHES = 256
"""Launches in a sample at most. The launch queue holds about 1,024 and a full one blocks the host;
one call of cuBLAS may launch two kernels."""
MOST_FLUSHED = 64
"""The same with `flush_l2`, where each launch brings a memset and two events with it."""
WARM_CACHE_MS = 10.0
"""Launches longer than this get no launch before them, as they fill the caches themselves."""
FIRST_SPIN_MS, LEAST_SPIN_MS, MOST_SPIN_MS = 5.0, 0.1, 500.0
WINDOW, TOLERANCE = 3, 0.01
"""A warm-up is over when its last WINDOW times beat the best one before by less than this fraction."""
ATTEMPTS = 8
"""Samples thrown away in a row before giving up."""

SPIN = Kernel("spin", "keeps the GPU busy while the host queues launches", {})

Queue = Callable[[], None]
"""Queues work on the current stream and returns without waiting."""


@dataclass(frozen=True)
class Timing:
    """Device time of one launch.

    Attributes
    ----------
    samples : tuple of float
        Milliseconds per launch, each the mean over a batch.
    batch : int
        Launches per sample.
    sm_mhz, watts : tuple
        Of each sample, the clock of the multiprocessors and the card's power while it ran; None where `watch` does not
        tell. Empty where they were not looked at.
    """

    samples: tuple[float, ...]
    batch: int
    sm_mhz: tuple[int | None, ...] = ()
    watts: tuple[float | None, ...] = ()

    @property
    def percentiles(self) -> dict[str, float]:
        """Median, 10th and 90th percentile by the names that recordings have for them: ms, ms_p10 and ms_p90."""
        return percentiles(self.samples)


@dataclass(frozen=True)
class Reading:
    """One sample as a `DeviceClock` took it.

    Attributes
    ----------
    ms : float
        Device time per launch.
    host_ms : float
        What the host needed to queue it all.
    queued : bool
        Whether all was queued before the first launch that counts began; else `ms` may hold host time.
    sm_mhz, watts
        The clock of the multiprocessors and the card's power, read while the launches ran.
    """

    ms: float
    host_ms: float
    queued: bool
    sm_mhz: int | None = None
    watts: float | None = None


def watch() -> tuple[int | None, float | None]:
    """Return the multiprocessors' clock in MHz and the card's power in watts, now: unknown here.

    A package that reads a card's sensors puts its own function in the place of this one.
    """
    return None, None


def percentiles(samples: Sequence[float], name: str = "ms") -> dict[str, float]:
    """Return the median, the 10th and the 90th percentile, as fields of that name."""
    low, middle, high = np.percentile(samples, (10, 50, 90))
    return {name: float(middle), f"{name}_p10": float(low), f"{name}_p90": float(high)}


def time_interleaved(
    launches: Mapping[str, Queue],
    *,
    samples: int = 50,
    least_samples: int = 7,
    seconds: float = 2.0,
    warm_s: tuple[float, float] = (0.25, 3.0),
    flush_l2: bool = False,
    clock: "DeviceClock | None" = None,
) -> dict[str, Timing]:
    """Time several launches in one run, one sample of each in turn, in rotating order.

    Parameters
    ----------
    launches : mapping of str to callable
        Each queues its work on the current stream and allocates nothing.
    samples, least_samples : int
        Samples of each: sampling ends after `samples`, or earlier, after `seconds`, if there are
        `least_samples` by then.
    seconds : float
        See above; warming up comes on top.
    warm_s : (float, float)
        Seconds that warming up takes at least and, unless launches are that slow, at most: it ends when times have
        stopped falling.
    flush_l2 : bool
        Write over the L2 cache before each launch and time each by itself. That adds the few
        microseconds between an event and a kernel's start, which batches hide.
    clock : DeviceClock, optional
        The current GPU's, unless given.

    Returns
    -------
    dict of str to Timing

    Raises
    ------
    DeviceError
        There is no GPU, it failed, or a launch waits for the GPU and so cannot be queued.
    """
    if samples < least_samples or least_samples < 1:
        raise ArgumentError("samples", f"{samples}, least {least_samples}", "samples ≥ least_samples ≥ 1")
    with gpu.reported(f"timing {', '.join(launches)}"):
        clock = clock or DeviceClock(flush_l2)
        sources = {name: _Source(name, launch, clock) for name, launch in launches.items()}
        _warm_up(list(sources.values()), clock, *warm_s)
        taken: dict[str, list[Reading]] = {name: [] for name in launches}
        names, begin = list(launches), clock.now()
        for turn in range(samples):
            if turn >= least_samples and clock.now() - begin >= seconds:
                break
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                taken[name].append(sources[name].sample())
    return {
        name: Timing(
            tuple(reading.ms for reading in readings),
            sources[name].batch,
            tuple(reading.sm_mhz for reading in readings),
            tuple(reading.watts for reading in readings),
        )
        for name, readings in taken.items()
    }


def batch_size(launch_ms: float, most: int = MOST_LAUNCHES) -> int:
    """Return how many launches of that length make a sample of `SAMPLE_MS`, at least 1 and at most `most`."""
    return most if launch_ms * most <= SAMPLE_MS else max(1, int(np.ceil(SAMPLE_MS / launch_ms)))


def settled(history: list[float]) -> bool:
    """Whether the last few times are no better than the best before them."""
    return len(history) > WINDOW and min(history[-WINDOW:]) >= (1 - TOLERANCE) * min(history[:-WINDOW])


class _Source:
    """One thing that is timed, with the batch and the spin that suit it."""

    def __init__(self, name: str, launch: Queue, clock: "DeviceClock") -> None:
        self.name, self.launch, self.clock = name, launch, clock
        self.batch, self.spin_ms, self.warm_cache = 1, FIRST_SPIN_MS, False
        clock.read(launch, 1, self.spin_ms, False)  # the first launch may load code; it says nothing
        self.fit(self.sample().ms)

    def fit(self, launch_ms: float) -> None:
        """Choose the batch for launches of this length."""
        self.batch = batch_size(launch_ms, self.clock.most_launches)
        self.warm_cache = launch_ms <= WARM_CACHE_MS

    def sample(self) -> Reading:
        """Take one sample."""
        for _ in range(ATTEMPTS):
            reading = self.clock.read(self.launch, self.batch, self.spin_ms, self.warm_cache)
            if reading.queued:
                self.spin_ms = max(LEAST_SPIN_MS, 1.5 * reading.host_ms)
                return reading
            self.spin_ms = min(MOST_SPIN_MS, 2 * max(self.spin_ms, reading.host_ms))
        raise DeviceError(
            f"timing {self.name}: the host did not queue {self.batch} launches while the GPU spun for "
            f"{self.spin_ms:.3g} ms; do they wait for the GPU?"
        )


def _warm_up(sources: list[_Source], clock: "DeviceClock", least_s: float, most_s: float) -> None:
    """Sample all in turn until the clocks settle: until times stop falling, for at most `most_s`."""
    history, begin = [], clock.now()
    while clock.now() - begin < most_s:
        times = [source.sample().ms for source in sources]
        history.append(sum(times))
        for source, ms in zip(sources, times, strict=True):
            source.fit(ms)
        if settled(history) and clock.now() - begin >= least_s:
            break


class DeviceClock:
    """Takes samples on the current GPU and stream.

    Parameters
    ----------
    flush_l2 : bool
        Write a buffer twice the size of the L2 cache before each launch and time each by itself.
    """

    now = staticmethod(time.perf_counter)
    """Returns the host's time in seconds."""

    def __init__(self, flush_l2: bool = False) -> None:
        self._spin = gpu.load(SPIN.instance)
        runtime, device = cupy.cuda.runtime, cupy.cuda.Device().id
        rate = runtime.deviceGetAttribute(runtime.cudaDevAttrClockRate, device)  # kHz: cycles per millisecond
        self._cycles_per_ms = max(rate, 1_000_000)
        self.most_launches = MOST_FLUSHED if flush_l2 else MOST_LAUNCHES
        self._flush_l2 = flush_l2
        if flush_l2:
            self._bytes = 2 * runtime.deviceGetAttribute(runtime.cudaDevAttrL2CacheSize, device)
            self._buffer = cupy.cuda.alloc(self._bytes)

    def read(self, launch: Queue, batch: int, spin_ms: float, warm_cache: bool) -> Reading:
        """Take one sample of `batch` launches behind a spin of about `spin_ms`; the GPU is idle before and after."""
        pairs = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(batch if self._flush_l2 else 1)]
        cupy.cuda.get_current_stream().synchronize()
        begin = self.now()
        self._spin((1,), (1,), (np.int64(spin_ms * self._cycles_per_ms),))
        if warm_cache and not self._flush_l2:
            launch()
        for before, after in pairs:
            if self._flush_l2:
                self._buffer.memset_async(0, self._bytes)
            before.record()
            for _ in range(batch // len(pairs)):
                launch()
            after.record()
        host_ms = 1e3 * (self.now() - begin)
        queued = not pairs[0][0].done
        pairs[0][0].synchronize()  # the spin is over, and what is measured runs
        seen = watch()
        pairs[-1][1].synchronize()
        return Reading(sum(cupy.cuda.get_elapsed_time(*pair) for pair in pairs) / batch, host_ms, queued, *seen)

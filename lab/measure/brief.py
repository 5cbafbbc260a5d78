"""A brief look at how long a launch takes, to find those of many that are worth a closer one."""

from sgemm_tutorial.timing import LEAST_SPIN_MS, SAMPLE_MS, DeviceClock, Queue

BRIEF_MS, BRIEF_LAUNCHES = 0.3, 24
"""Device time and launches, at most, of a sample that only tells good from bad."""


def brief(launch: Queue, clock: DeviceClock) -> float:
    """Return about how many milliseconds a launch takes: enough to see which of many is worth a closer look.

    The first launch may load code, and says nothing unless it is long. A sample that was not all queued in time is
    taken again and then counts all the same: it says too much, never too little.
    """
    first = clock.read(launch, 1, LEAST_SPIN_MS, False)
    if first.ms < SAMPLE_MS:
        first = clock.read(launch, 1, LEAST_SPIN_MS, False)
    batch = BRIEF_LAUNCHES if first.ms * BRIEF_LAUNCHES <= BRIEF_MS else int(BRIEF_MS / first.ms)
    if batch < 2:
        return first.ms
    reading = clock.read(launch, batch, LEAST_SPIN_MS, True)
    if not reading.queued:
        reading = clock.read(launch, batch, 2 * reading.host_ms, True)
    return reading.ms

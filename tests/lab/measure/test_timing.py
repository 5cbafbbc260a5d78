"""The timer's logic, on an imitation of a GPU with a queue, a slow host and clocks that need warming up."""

import dataclasses
import itertools
import sys
import types

import numpy as np
import pytest

from lab.measure import sensors
from lab.measure.brief import brief
from sgemm_tutorial import ArgumentError, DeviceError, gpu, timing
from sgemm_tutorial.timing import (
    Reading,
    Timing,
    batch_size,
    settled,
    time_interleaved,
)


class Machine:
    """A host and a GPU on one virtual time axis, in milliseconds; it is also the clock that reads them.

    The GPU takes work in order. It runs `slow` times slower at first, and full speed after `warm_ms`
    of work.
    """

    most_launches = timing.MOST_LAUNCHES

    def __init__(self, host_ms=0.02, slow=1.0, warm_ms=0.0, hiccups=()):
        self.host = self.gpu_free = self.worked = 0.0
        self.host_ms, self.slow, self.warm_ms = host_ms, slow, warm_ms
        self.hiccups, self.order, self.delayed = iter(hiccups), [], 0

    def kernel(self, name, ms, launches=1):
        def launch():
            for _ in range(launches):
                self.host += self.host_ms
                self.work(ms)
            self.order.append(name)

        return launch

    def work(self, ms):
        ms *= self.slow if self.worked < self.warm_ms else 1.0
        self.gpu_free = max(self.gpu_free, self.host) + ms
        self.worked += ms

    def now(self):
        return self.host / 1e3

    def read(self, launch, batch, spin_ms, warm_cache):
        self.host = begin = max(self.host, self.gpu_free)
        self.host += self.host_ms
        self.gpu_free = self.host + spin_ms
        self.host += next(self.hiccups, 0.0)
        if warm_cache:
            launch()
        start = self.gpu_free
        for _ in range(batch):
            launch()
        host_ms = self.host - begin
        reading = Reading((self.gpu_free - start) / batch, host_ms, self.host < start)
        self.delayed += not reading.queued
        self.host = max(self.host, self.gpu_free)
        return reading


def test_a_kernel_shorter_than_its_launch_is_timed_at_device_time():
    """5 µs of work behind 20 µs of launch cost: the figure must be 5 µs."""
    machine = Machine(host_ms=0.02)
    times = time_interleaved({"short": machine.kernel("short", 0.005)}, clock=machine)["short"]
    assert times.percentiles["ms"] == pytest.approx(0.005) == times.percentiles["ms_p90"] == times.percentiles["ms_p10"]
    assert times.batch == timing.MOST_LAUNCHES


def test_without_the_spin_the_launch_cost_would_show():
    """The imitation can fail: the same batch with no spin reads the host's 20 µs."""
    machine = Machine(host_ms=0.02)
    reading = machine.read(machine.kernel("short", 0.005), 64, 0.0, False)
    assert not reading.queued
    assert reading.ms == pytest.approx(0.02, rel=0.1)


def test_samples_that_the_host_delayed_are_thrown_away():
    machine = Machine(hiccups=itertools.cycle([0.0, 0.0, 30.0]))
    times = time_interleaved({"k": machine.kernel("k", 0.005)}, samples=20, seconds=60, clock=machine)["k"]
    assert machine.delayed > 5
    assert times.samples == pytest.approx([0.005] * 20)


def test_one_long_pause_of_the_host_does_not_stop_the_run():
    machine = Machine(hiccups=[0.0] * 30 + [900.0])
    times = time_interleaved({"k": machine.kernel("k", 0.005)}, samples=20, clock=machine)["k"]
    assert 1 <= machine.delayed <= 3
    assert times.samples == pytest.approx([0.005] * len(times.samples))


def test_clocks_are_warm_before_the_first_sample():
    machine = Machine(slow=3.0, warm_ms=100.0)
    times = time_interleaved({"k": machine.kernel("k", 0.5)}, clock=machine)["k"]
    assert max(times.samples) == pytest.approx(0.5)
    assert times.batch == 4, "chosen at the settled speed: 2 ms of 0.5 ms"


def test_all_are_sampled_in_rotating_turns():
    machine = Machine()
    kernels = {name: machine.kernel(name, 12.0) for name in "abc"}  # long: batches of 1, no launch before
    times = time_interleaved(kernels, samples=9, seconds=60, clock=machine)
    assert "".join(machine.order[-27:]) == "abcbcacab" * 3
    assert all(len(t.samples) == 9 for t in times.values())


def test_a_short_one_beside_a_long_one_keeps_its_own_batch_and_time():
    machine = Machine()
    times = time_interleaved(
        {"long": machine.kernel("long", 30.0), "two": machine.kernel("two", 0.004, launches=2)}, clock=machine
    )
    assert times["long"].percentiles["ms"] == pytest.approx(30) and times["long"].batch == 1
    assert times["two"].percentiles["ms"] == pytest.approx(0.008) and times["two"].batch == 250


@pytest.mark.parametrize(("ms", "seconds", "samples"), [(1.0, 60.0, 50), (100.0, 2.0, 20), (1000.0, 2.0, 7)])
def test_sampling_ends_by_count_or_time_but_not_before_the_least(ms, seconds, samples):
    machine = Machine()
    times = time_interleaved({"k": machine.kernel("k", ms)}, seconds=seconds, clock=machine)["k"]
    assert len(times.samples) == pytest.approx(samples, abs=1)
    assert len(times.samples) >= 7


def test_warming_up_is_bounded():
    """Times that fall all the time end the warm-up too, after 3 s."""
    machine = Machine()

    def launch():
        machine.host += 0.02
        machine.work(40 * 0.996 ** len(machine.order))
        machine.order.append("k")

    time_interleaved({"k": launch}, samples=7, clock=machine)
    assert machine.host < 3_500


def test_a_launch_that_waits_for_the_gpu_is_refused():
    machine = Machine()

    def waiting():
        machine.work(0.1)
        machine.host = machine.gpu_free

    with pytest.raises(DeviceError, match=r"timing slow: .* wait for the GPU"):
        time_interleaved({"slow": waiting}, clock=machine)


def test_bad_counts_are_refused():
    with pytest.raises(ArgumentError, match="samples: got 3, least 7"):
        time_interleaved({}, samples=3, clock=Machine())


@pytest.mark.parametrize(
    ("ms", "batch"), [(0.0, 256), (0.001, 256), (0.01, 200), (0.3, 7), (1.0, 2), (2.0, 1), (500.0, 1)]
)
def test_batch_size(ms, batch):
    assert batch_size(ms) == batch
    assert batch_size(ms, 64) == min(batch, 64)
    assert batch * ms >= timing.SAMPLE_MS or batch == timing.MOST_LAUNCHES


def test_the_queue_never_fills():
    """Spin, warm-up launch, two events and launches of two kernels each stay under 1,024 entries."""
    assert 2 * (timing.MOST_LAUNCHES + 1) + 3 < 1024
    assert timing.MOST_FLUSHED * (2 + 1 + 2) + 1 < 1024


def test_settled():
    assert not settled([3.0, 3.0, 3.0])
    assert settled([3.0, 3.0, 3.0, 3.0])
    assert not settled([5.0, 4.0, 3.0, 2.5, 2.2])
    assert settled([5.0, 4.0, 3.0, 2.99, 3.1, 3.0])
    assert settled([2.0, 2.2, 2.4, 2.6]), "slowing down is not warming up"


def test_statistics():
    times = Timing(tuple(np.linspace(1, 2, 11)), 4)
    assert (
        times.percentiles == pytest.approx({"ms": 1.5, "ms_p10": 1.1, "ms_p90": 1.9}) and times.percentiles["ms"] == 1.5
    )


@pytest.mark.skipif(gpu.available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    with pytest.raises(DeviceError, match="no GPU"):
        time_interleaved({"k": lambda: None})


def test_the_spin_kernel_compiles_for_every_architecture_of_the_book():

    for architecture in ("sm_75", "sm_90", "sm_120"):
        assert "%clock64" in timing.SPIN.build(architecture).ptx


# The card's sensors


class Nvml:
    """Imitates pynvml; `instant` says whether the card tells its power of this instant."""

    NVML_SUCCESS, NVML_CLOCK_SM, NVML_FI_DEV_POWER_INSTANT = 0, 1, 186
    NVMLError = type("NVMLError", (Exception,), {})

    def __init__(self, instant=True, lost=False):
        self.instant, self.lost = instant, lost

    def nvmlInit(self):
        pass

    def nvmlDeviceGetHandleByPciBusId(self, place):
        assert place == "0000:01:00.0"
        return "card"

    def nvmlDeviceGetClockInfo(self, card, which):
        if self.lost:
            raise self.NVMLError
        return {1: 1980}[which]

    def nvmlDeviceGetFieldValues(self, card, fields):
        assert (card, fields) == ("card", [186])
        value = types.SimpleNamespace(uiVal=612_345)
        return [types.SimpleNamespace(nvmlReturn=0 if self.instant else 3, value=value)]

    def nvmlDeviceGetPowerUsage(self, card):
        return 500_000

    def nvmlDeviceGetEnforcedPowerLimit(self, card):
        if self.lost:
            raise self.NVMLError
        return 700_000


@pytest.mark.parametrize(
    ("nvml", "seen"),
    [
        (Nvml(), (1980, 612.345)),
        (Nvml(instant=False), (1980, 500.0)),
        (Nvml(lost=True), (None, 612.345)),
        (None, (None, None)),
    ],
)
def test_sensors_are_read_where_there_are_any(monkeypatch, nvml, seen):
    device = types.SimpleNamespace(pci_bus_id="0000:01:00.0", id=0)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr("lab.measure.sensors.cupy.cuda.Device", lambda: device)
    assert sensors.Sensors().read() == seen
    monkeypatch.setattr(sensors, "sensors", lambda number: sensors.Sensors())
    assert timing.watch() == seen, "the timer asks them"


def test_each_sample_keeps_what_the_sensors_said():
    class Sensing(Machine):
        def read(self, *what):
            reading = super().read(*what)
            return dataclasses.replace(reading, sm_mhz=round(self.host), watts=500.0)

    times = time_interleaved({"k": Sensing().kernel("k", 0.5)}, samples=9, clock=Machine())["k"]
    assert times.sm_mhz == (None,) * len(times.samples)
    machine = Sensing()
    times = time_interleaved({"k": machine.kernel("k", 0.5)}, samples=9, clock=machine)["k"]
    assert len(times.sm_mhz) == len(times.watts) == len(times.samples)
    assert list(times.sm_mhz) == sorted(set(times.sm_mhz)) and set(times.watts) == {500.0}


@pytest.mark.parametrize(("ms", "launches"), [(0.003, 26), (0.05, 9), (0.25, 2), (1.0, 2), (30.0, 1)])
def test_a_brief_look(ms, launches):
    """Short launches are sampled in a batch, with one before it for the caches; long ones are not run often."""
    machine = Machine(host_ms=0.001)
    assert brief(machine.kernel("k", ms), machine) == pytest.approx(ms)
    assert len(machine.order) in (launches, launches + 1)


def test_a_brief_look_is_not_deceived_by_a_slow_host():
    machine = Machine(host_ms=0.03)
    assert brief(machine.kernel("k", 0.01), machine) == pytest.approx(0.01)

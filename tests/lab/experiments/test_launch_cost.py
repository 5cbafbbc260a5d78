"""Timing single launches: the two naive ways read more than the GPU takes, and the recording says by how much."""

import re

import pytest

from lab import draw
from lab.experiments import launch_cost
from lab.experiments.launch_cost import (
    CUBLAS,
    KERNEL,
    WAYS,
    Costs,
    Launches,
    load,
)
from lab.records import files
from sgemm_tutorial import DeviceError, find, gpu

from ..records.test_timings import PROVENANCE

US = {WAYS[0]: 0.5, WAYS[1]: 0.25, WAYS[2]: 0.125}
COSTS = Costs(
    PROVENANCE,
    {},
    True,
    [
        Launches(
            **files.fields(what),
            size=size,
            us={way: (us * size, us * size - 1, us * size + 1) for way, us in US.items()},
        )
        for size in (256, 128)
        for what in (CUBLAS, find(KERNEL))
    ],
)


class Machine:
    """A host whose launches cost 20 µs, and a GPU that works 5 µs; the first launch takes a second."""

    def __init__(self):
        self.host = self.gpu_free = 0.0
        self.launches = 0

    def now(self):
        return self.host

    def launch(self):
        self.host += 20e-6 if self.launches else 1.0
        self.launches += 1
        self.gpu_free = max(self.gpu_free, self.host) + 5e-6

    def wait(self):
        self.host = max(self.host, self.gpu_free)


def test_the_hosts_clock_reads_launch_and_kernel_together():
    machine = Machine()
    taken = launch_cost.by_host_clock(machine.launch, 30, machine.wait, machine.now)
    assert taken.samples == pytest.approx([0.025] * 30), "milliseconds, the slow first launch left out"
    assert machine.launches == 30 + launch_cost.WARM_UP


def test_table_of_one_size():
    text = str(COSTS.at(256))
    assert re.search(r"cuBLAS +128\.0 +64\.0 +32\.0\n", text)
    assert re.search(r"03_shared_tile +128\.0 +64\.0 +32\.0\n", text)
    assert "Imaginary GPU, 2026-11-20" in text


def test_seconds_by_size_can_be_drawn():
    seconds = COSTS.seconds("cuBLAS")
    assert seconds == {way: pytest.approx([128e-6 * us, 256e-6 * us]) for way, us in US.items()}
    assert "host clock" in draw.scaling([128, 256], seconds).alt


def test_a_recording_survives_the_round_trip(tmp_path):
    files.write(tmp_path / "r.json", COSTS)
    assert load(tmp_path / "r.json") == COSTS


def test_without_a_gpu_nothing_is_measured(monkeypatch):
    monkeypatch.setattr(gpu, "available", lambda: False)
    with pytest.raises(DeviceError, match="no GPU"):
        list(launch_cost.points([(CUBLAS, 128)]))


def test_the_recording_shows_the_trap():
    """The book says that the naive ways read more, most where the kernel is short."""
    costs = load()
    assert {point.size for point in costs.points} == set(launch_cost.SIZES)
    for point in costs.points:
        clock, events, device = (point.us[way] for way in WAYS)
        assert clock[0] > device[0] and events[0] > device[0], point
        assert all(p10 <= median <= p90 for median, p10, p90 in (clock, events, device))
    seconds = costs.seconds("cuBLAS")
    assert seconds["host clock"][0] > 2 * seconds["device"][0]

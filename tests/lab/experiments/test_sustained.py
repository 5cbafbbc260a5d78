"""The three protocols on an imitation of a card, whose clock falls under load, and whose sensors are late."""

import itertools
import statistics
import sys
import types
from functools import partial

import numpy as np
import pytest

from lab.experiments import sustained
from lab.measure import driver
from lab.measure.cublaslt import Quickest
from lab.records import files
from lab.records.files import Recording
from sgemm_tutorial import cublas, find, timing
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.kernel import Kernel

from ..measure.test_timing import Machine, Nvml

PLACE = types.SimpleNamespace(pci_bus_id="0000:01:00.0")


class Card(Machine, Nvml):
    """A GPU that draws 700 W all the time, runs at half the clock after 100 ms of work, and counts energy in steps.

    It is an imitation of CuPy's events and of the `time` module besides: all share one axis of time.
    """

    STEP_MS, WATTS = 40.0, 700
    nvmlClocksEventReasonSwPowerCap = 4

    def __init__(self, lost=False):
        Machine.__init__(self, host_ms=0.001, slow=0.5, warm_ms=100.0)
        Nvml.__init__(self, lost=lost)
        self.asked, self.rests = [], []

    def sleep(self, seconds):
        self.host = max(self.host, self.gpu_free) + 1e3 * seconds
        self.worked = 0.0 if seconds else self.worked
        self.rests.append(seconds)

    def monotonic(self):
        return self.host / 1e3

    def Event(self):
        event = types.SimpleNamespace()
        event.record = lambda: vars(event).update(at=max(self.host, self.gpu_free))
        event.synchronize = lambda: setattr(self, "host", max(self.host, event.at))
        return event

    def get_elapsed_time(self, before, after):
        return after.at - before.at

    def nvmlDeviceGetTotalEnergyConsumption(self, card):
        self.asked.append(self.host)
        if self.lost:
            raise self.NVMLError
        return int(self.host / self.STEP_MS) * self.STEP_MS * self.WATTS  # watts × ms are millijoules

    def nvmlDeviceGetCurrentClocksEventReasons(self, card):
        return 4 if self.worked > self.warm_ms else 0


@pytest.fixture
def card(monkeypatch):
    card = Card()
    on(card, monkeypatch)
    return card


def on(card, monkeypatch):
    """Let the experiment run on the imitation."""
    monkeypatch.setitem(sys.modules, "pynvml", card)
    monkeypatch.setattr("sgemm_tutorial.timing.cupy.cuda.Device", lambda: PLACE)
    monkeypatch.setattr(sustained, "cupy", types.SimpleNamespace(cuda=card))
    monkeypatch.setattr(sustained, "time", card)
    monkeypatch.setattr(timing, "time_interleaved", partial(timing.time_interleaved, clock=card))


def test_a_lasting_run_counts_once_the_clock_has_settled(card):
    found = sustained.lasting(card.kernel("k", 0.5), None, sustained.Meter())
    assert found["ms"] == pytest.approx(0.5) and min(found["samples"].ms) == pytest.approx(0.25)
    assert found["joules"] == pytest.approx(0.5 * card.WATTS / 1e3, rel=0.03)
    assert len(found["samples"].ms) == len(found["samples"].watts) == len(found["reasons"])
    assert found["reasons"][0] == 0 and set(found["reasons"][len(found["reasons"]) // 2 :]) == {4}
    assert sum(found["samples"].ms) * 40 == pytest.approx(1e3 * sustained.SECONDS, rel=0.1), "batches of 10 ms at first"


def test_no_pause_between_batches_of_a_lasting_run(card):
    """Else the card would rest, and draw less."""
    sustained.lasting(card.kernel("k", 0.5), None, sustained.Meter())
    assert card.worked == pytest.approx(card.gpu_free - start(card), rel=0.001)


def start(card):
    """Return the time at which the last run began: after the launches that show their length, and the rest."""
    return 3 * 0.25 + 1e3 * sustained.REST


def test_a_burst_ends_before_the_clock_falls(card):
    found = sustained.burst(card.kernel("k", 0.5), None, sustained.Meter())
    assert found["samples"].ms == pytest.approx([0.25] * sustained.BURSTS * sustained.CHUNKS) and found["ms"] == 0.25
    assert card.rests.count(sustained.REST) == sustained.BURSTS and "joules" not in found
    assert set(found["reasons"]) == {0}


def test_in_turns_both_are_sampled(card):
    found = sustained.in_turns(card.kernel("k", 0.5), card.kernel("cuBLAS", 0.4), None)
    assert found["ms"] == pytest.approx(0.5)
    assert statistics.median(found["cublas"].ms) == pytest.approx(0.4)
    assert len(found["cublas"].ms) == len(found["samples"].ms)


def test_a_card_that_tells_nothing_is_timed_all_the_same(monkeypatch):
    card = Card(lost=True)
    on(card, monkeypatch)
    found = sustained.lasting(card.kernel("k", 0.5), None, sustained.Meter())
    assert found["joules"] is None is found["sm_mhz"] and found["ms"] == pytest.approx(0.5) and card.asked
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = sustained.burst(card.kernel("k", 0.5), None, sustained.Meter())
    assert found["watts"] is None and set(found["reasons"]) == {None}


@pytest.mark.parametrize(("lost", "limit"), [(False, {"power_limit_watts": 700}), (True, {})])
def test_the_limit_of_power_belongs_to_the_provenance(monkeypatch, lost, limit):
    on(Card(lost=lost), monkeypatch)
    monkeypatch.setattr(sustained, "provenance", lambda: {"gpu": "an imitation"})
    assert sustained.made_on() == {"gpu": "an imitation"} | limit


def test_inputs():
    normal = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    made = {name: make(normal) for name, make in sustained.INPUTS.items()}
    assert not made["zeros"].view(np.uint32).any(), "no negative zeros, which have a bit set"
    assert (made["ones"] == 1).all() and made["normal"] is normal
    for few, mantissa in ((made["few bits"], 23), (made["few bits"].astype(np.float16), 10)):
        below = few.view(f"u{few.itemsize}") & (1 << mantissa - 2) - 1
        assert not below.any() and few.dtype.itemsize * 8 > mantissa
    assert np.abs(made["few bits"] / normal - 1).max() <= 2**-3
    assert len(np.unique(np.abs(np.frexp(made["few bits"])[0]))) == 4


@pytest.mark.parametrize(
    ("make", "sides"), [(sustained.plan, (4096, 8192)), (sustained.lasting_plan, sustained.LARGE)], ids=("all", "large")
)
def test_a_whole_plan_makes_a_whole_recording(monkeypatch, card, tmp_path, capsys, make, sides):
    """The plan is recorded, written and read again; a second time there is nothing to do."""
    plan = make()
    lasting = sustained.SECONDS * sum(item[3] == "lasting" for item in plan.items)
    assert len(plan.keys()) == len(plan.items) and lasting < plan.takes * len(plan.items) < 2 * lasting, "an estimate"
    assert plan.settings["lasting_s"] == sustained.SECONDS != plan.settings.get("seconds"), "that of turns"
    speed = {of: 0.2 + i / 100 for i, of in enumerate(dict.fromkeys(files.identity(item[0]) for item in plan.items))}
    monkeypatch.setattr(Kernel, "launcher", lambda kernel, problem: card.kernel("k", speed[files.identity(kernel)]))
    for routine in (Gemm, Quickest):
        monkeypatch.setattr(routine, "launcher", Kernel.launcher)
    monkeypatch.setattr(cublas, "launch", lambda problem: card.kernel("cuBLAS", 0.3))
    drawn, matrices = [], sustained.matrices
    monkeypatch.setattr(sustained, "matrices", lambda *size, on_gpu: drawn.append(size) or matrices(8, 8, 8, 0, False))
    monkeypatch.setattr(driver, "draft_of", lambda plan, folder: tmp_path / "draft.json")
    plan = type(plan)(**vars(plan) | {"made_on": lambda: dict(made())})
    assert driver.record(plan, tmp_path) == []
    assert drawn == [(side,) * 3 for side in sides], "the inputs of a size are drawn once"
    recording = files.load(tmp_path / f"{plan.name}.json", Recording[sustained.Sustained])
    assert recording.complete and [point.key for point in recording.points] == list(plan.keys())
    assert recording.settings == plan.settings and recording.provenance["power_limit_watts"] == 700
    for point in recording.points:
        assert (point.joules is not None) == (point.protocol == "lasting")
        assert (point.sm_mhz == 1980) == (point.protocol != "in turns"), "the imitation of the timer has no sensors"
        assert (point.cublas is not None) == (point.protocol == "in turns")
        expected = speed[point.identity] * (0.5 if point.protocol == "burst" else 1.0)
        assert point.ms == pytest.approx(expected)
    capsys.readouterr()
    assert driver.record(plan, tmp_path) == [] and "nothing to measure" in capsys.readouterr().out


def made():
    """Return the provenance of the recording that the book shows, with a limit."""
    return files.load("sustained", Recording[sustained.Sustained]).provenance | {"power_limit_watts": 700}


def test_what_the_page_compares_is_in_the_plan():
    """Each protocol for the same kernels, at both sizes, with inputs that draw least and most."""
    there = {(item[0].name, item[1][0], *item[2:]) for item in sustained.plan().items}
    ours, theirs = [find(number).name for number in ("13", "16", "20", "21")], ["sgemm", "gemmEx"]
    for size, inputs in itertools.product((4096, 8192), ("normal", "zeros")):
        for name in ours + theirs:
            assert {(name, size, inputs, "burst"), (name, size, inputs, "lasting")} <= there
        assert {(name, size, inputs, "in turns") for name in ours} <= there
    for inputs in sustained.INPUTS:
        assert {(name, 4096, inputs, "lasting") for name in ours + theirs} <= there


def test_a_share_takes_cublas_by_the_same_protocol():
    """The routine has the kernel's types. It runs alone where the kernel does, and beside it where they take turns."""
    kernel, split = find("20"), find("21")
    ms, share = sustained.lasted(kernel)
    assert ms == sustained.of(kernel).ms and share == sustained.of(cublas.gemm_ex).ms / ms
    beside = sustained.of(split, 8192, protocol="in turns")
    assert sustained.cublas_ms(split, 8192, protocol="in turns") == statistics.median(beside.cublas.ms)
    assert (
        sustained.cublas_ms(split, 8192) == sustained.of(cublas.sgemm, 8192).ms != statistics.median(beside.cublas.ms)
    )
    assert sustained.lasted(find("23")) is sustained.lasted(find("20").variant(T="__nv_bfloat16")) is None
    any_shape, theirs = (sustained.of(of, recording="lasting").ms for of in (find("22"), cublas.gemm_ex))
    assert sustained.lasted(find("22")) == (any_shape, theirs / any_shape), "of the same card"

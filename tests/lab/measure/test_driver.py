"""A plan is followed, saved, broken off and continued; nothing is measured twice, and nothing lost."""

import dataclasses
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from lab.experiments import __main__ as command
from lab.experiments.recordings import CHECKS, COUNTS, RECORDINGS, TIMES, TOGETHER
from lab.measure import driver
from lab.measure.bench import plan as of_times
from lab.measure.driver import Plan
from lab.records import cards, files
from lab.records.files import Measured, Recording
from lab.records.timings import Record
from sgemm_tutorial import ArgumentError, DeviceError, find
from sgemm_tutorial.timing import Timing

from ..records.test_timings import PROVENANCE

KERNELS = [find("01"), find("02"), find("03")]


@dataclass(frozen=True)
class Seen(Measured):
    turn: int
    bad: bool = False

    @property
    def fault(self):
        return f"{self.kernel} is bad" * self.bad


class Eye:
    """A measurement that counts its turns, and raises `fault` at one of them."""

    def __init__(self, fault=None, at=None, bad=()):
        self.fault, self.at, self.bad, self.seen = fault, at, bad, []

    def __call__(self, missing):
        for (kernel,) in missing:
            if len(self.seen) == self.at:
                raise self.fault
            self.seen.append(kernel.name)
            yield Seen(**files.fields(kernel), turn=len(self.seen), bad=kernel.name in self.bad)


def a_plan(eye, kernels=KERNELS, settings=None, made=PROVENANCE):
    items = [(kernel,) for kernel in kernels]
    return Plan("seen", Recording[Seen], items, eye, settings or {}, made_on=lambda: dict(made))


def read(folder, name="seen.json"):
    return files.load(folder / name, Recording[Seen])


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(driver, "EVERY", 0.0)


def test_a_recording_is_whole_and_in_the_order_of_the_plan(tmp_path):
    eye = Eye()
    assert driver.record(a_plan(eye), tmp_path) == []
    recording = read(tmp_path)
    assert [point.kernel for point in recording.points] == eye.seen == [kernel.name for kernel in KERNELS]
    assert recording.complete and recording.provenance == PROVENANCE
    assert [file.name for file in tmp_path.iterdir()] == ["seen.json"]


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), DeviceError("lost")])
def test_what_is_broken_off_leaves_the_old_and_is_continued(tmp_path, fault):
    driver.record(a_plan(Eye(), made=PROVENANCE | {"driver": "older"}), tmp_path)
    whole = (tmp_path / "seen.json").read_bytes()
    with pytest.raises(type(fault)):
        driver.record(a_plan(Eye(fault, at=2)), tmp_path)
    assert (tmp_path / "seen.json").read_bytes() == whole
    assert len(read(tmp_path, "seen.partial.json").points) == 2
    eye = Eye()
    driver.record(a_plan(eye), tmp_path)
    assert eye.seen == ["03_shared_tile"]
    assert [point.turn for point in read(tmp_path).points] == [1, 2, 1]
    assert not (tmp_path / "seen.partial.json").exists()


def test_each_point_is_on_disk_before_the_next_is_measured(tmp_path):
    class Watching(Eye):
        def __call__(self, missing):
            for point in super().__call__(missing):
                yield point
                assert len(read(tmp_path, "seen.partial.json").points) == len(self.seen)

    driver.record(a_plan(Watching()), tmp_path)


def test_what_is_there_is_not_measured_again(tmp_path):
    driver.record(a_plan(Eye()), tmp_path)
    before = (tmp_path / "seen.json").stat().st_mtime_ns
    eye = Eye()
    driver.record(a_plan(eye), tmp_path)
    assert not eye.seen and (tmp_path / "seen.json").stat().st_mtime_ns == before
    driver.record(a_plan(eye, made=PROVENANCE | {"date": "2027-01-01T00:00:00+00:00"}), tmp_path)
    assert not eye.seen


@pytest.mark.parametrize("key", ["gpu", "driver", "cublas"])
def test_another_machine_or_other_software_starts_anew(tmp_path, key):
    driver.record(a_plan(Eye()), tmp_path)
    eye = Eye()
    driver.record(a_plan(eye, made=PROVENANCE | {key: "other"}), tmp_path)
    assert len(eye.seen) == 3 and read(tmp_path).provenance[key] == "other"


def test_other_settings_start_anew(tmp_path):
    driver.record(a_plan(Eye()), tmp_path)
    eye = Eye()
    driver.record(a_plan(eye, settings={"seed": 1}), tmp_path)
    assert len(eye.seen) == 3


def test_changed_code_is_measured_again_and_what_is_no_longer_planned_goes(tmp_path):
    kernel = dataclasses.replace(find("02"), folder=tmp_path)
    shutil.copy(find("02").path, kernel.path)
    driver.record(a_plan(Eye(), [KERNELS[0], kernel]), tmp_path)
    kernel.path.write_text(kernel.source + "\n// no other code\n", encoding="utf-8")
    eye = Eye()
    driver.record(a_plan(eye, [KERNELS[0], kernel]), tmp_path)
    assert not eye.seen
    kernel.path.write_text(kernel.source.replace("k < K", "k != K"), encoding="utf-8")
    driver.record(a_plan(eye, [kernel, KERNELS[2]]), tmp_path)
    assert eye.seen == ["02_coalesced", "03_shared_tile"]
    assert [(point.kernel, point.digest) for point in read(tmp_path).points] == [
        (one.name, one.digest) for one in (kernel, KERNELS[2])
    ]


def test_a_fault_is_told_and_measured_again(tmp_path, capsys):
    (bad,) = driver.record(a_plan(Eye(bad=["02_coalesced"])), tmp_path)
    assert bad.kernel == "02_coalesced"
    assert "FAILED: seen: 02_coalesced is bad" in capsys.readouterr().out
    assert not read(tmp_path).complete
    eye = Eye()
    assert driver.record(a_plan(eye), tmp_path) == []
    assert eye.seen == ["02_coalesced"] and read(tmp_path).complete


# Times, in three processes


class Meter:
    """Imitates measuring, a little slower in each process."""

    def __init__(self):
        self.taken, self.how = [], []

    def __call__(self, kernels, size, flush_l2, **how):
        self.how.append(how)
        for kernel in kernels:
            self.taken.append((kernel.name, size))
            ms = (1.0 + 0.01 * len(self.how)) * size[0]
            yield (
                kernel,
                Timing((ms, ms, 1.1 * ms), 3, (1980, 1970, None), (500.4, 612.7, None)),
                Timing((ms,) * 3, 8),
                None,
            )


def a_ladder(meter, **more):
    items = [(kernel, (size,) * 3) for size in (64, 128) for kernel in KERNELS]
    plan = of_times("ladder", items, measure=meter, processes=3, **more)
    return dataclasses.replace(plan, made_on=lambda: dict(PROVENANCE))


def ladder(folder, name="ladder.json"):
    return files.load(folder / name, Record)


def test_three_processes_measure_each_point_once_each(tmp_path):
    for turn in (1, 2, 3):
        assert not (tmp_path / "ladder.json").exists()
        meter = Meter()
        driver.record(a_ladder(meter), tmp_path, turn)
        assert len(meter.taken) == 6
        again = Meter()
        driver.record(a_ladder(again), tmp_path, turn)
        assert not again.taken
    record = ladder(tmp_path)
    assert record.complete and {len(point.processes) for point in record.points} == {3}
    point = record.points[0]
    assert (point.samples, point.batch, len(point.medians)) == (9, 3, 3)
    assert point.processes[0].own.sm_mhz == [1980, 1970, None] and point.processes[0].own.watts == [500, 613, None]
    assert point.processes[0].cublas.watts == [], "they were not looked at"


def test_a_turn_broken_off_is_continued_by_the_same_turn(tmp_path):
    driver.record(a_ladder(Meter()), tmp_path, 1)

    class Breaking(Meter):
        def __call__(self, kernels, size, flush_l2, **how):
            yield from super().__call__(kernels[:1], size, flush_l2, **how)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driver.record(a_ladder(Breaking()), tmp_path, 2)
    counts = [len(point.processes) for point in ladder(tmp_path, "ladder.partial.json").points]
    assert counts == [2, 1, 1, 1, 1, 1]
    meter = Meter()
    driver.record(a_ladder(meter), tmp_path, 2)
    assert len(meter.taken) == 5


def test_only_the_first_size_of_a_process_warms_up_long(tmp_path):
    meter = Meter()
    driver.record(a_ladder(meter, samples=9, warm_s=(0.05, 0.1)), tmp_path)
    assert meter.how == [{"samples": 9}, {"samples": 9, "warm_s": (0.05, 0.1)}]


# Processes


def test_times_come_alone_in_three_turns_and_checks_together():
    found = command.stages(list(RECORDINGS), dict.fromkeys(TIMES, 1) | {"ladder": 3})
    assert found[0] == [(tuple(TIMES), 1)]
    assert found[1:3] == [[(("ladder",), 2)], [(("ladder",), 3)]]
    assert found[3:-1] == [[((name,), 1)] for name in COUNTS]
    assert found[-1:] == [[(group, 1) for group in TOGETHER]]
    assert {name for group in TOGETHER for name in group} == set(CHECKS)
    assert command.stages(["fuzz"], {}) == [[(("fuzz",), 1)]]


def processes(code):
    return lambda child: subprocess.Popen([sys.executable, "-c", code, *child[0]])


def test_a_stage_ends_when_all_its_processes_have_ended(tmp_path):
    code = f"import sys, time; time.sleep(0.2); open({str(tmp_path)!r} + '/' + sys.argv[1], 'w')"
    code += "; sys.exit(int(sys.argv[2]))"
    assert command.run([(("a", "0"), 1), (("b", "1"), 1)], processes(code)) == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]


def test_an_interrupt_lets_every_process_save(tmp_path):
    code = f"""
import signal, sys, time
def stop(*_): raise KeyboardInterrupt
signal.signal(signal.SIGTERM, stop)
open({str(tmp_path)!r} + "/began" + sys.argv[1], "w")
try:
    time.sleep(60)
finally:
    open({str(tmp_path)!r} + "/saved" + sys.argv[1], "w")
"""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        begin = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 1.5)
        with pytest.raises(KeyboardInterrupt):
            command.run([(("1",), 1), (("2",), 1)], processes(code))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - begin < 30
    assert sorted(file.name for file in tmp_path.iterdir()) == ["began1", "began2", "saved1", "saved2"]


def test_every_plan_names_each_item_once():
    for name, plan in RECORDINGS.items():
        made = plan()
        assert made.name == name and len(made.keys()) == len(made.items) > 3


def test_unknown_names_are_refused(capsys):
    assert command.main(["--only", "nonsense"]) == command.REFUSED
    assert "only: got 'nonsense', needs some of times, counts, checks, ladder" in capsys.readouterr().err
    with pytest.raises(ArgumentError):
        command._names("times,x")


def test_what_needs_a_program_that_is_missing_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr(command.gpu, "available", lambda: True)
    monkeypatch.setattr(command.several, "count", lambda: 2)
    monkeypatch.setenv("PATH", "")
    assert command._names(None) == [name for name in RECORDINGS if name not in (*COUNTS, "sanitizer")]
    assert "counters is left out: ncu is not on the PATH" in capsys.readouterr().err


@pytest.mark.parametrize(("count", "says"), [(1, "two_gpus is left out: it takes 2 GPUs\n"), (2, ""), (4, "")])
def test_what_needs_two_gpus_is_left_out_where_there_is_one(monkeypatch, capsys, count, says):
    monkeypatch.setattr(command.gpu, "available", lambda: True)
    monkeypatch.setattr(command.several, "count", lambda: count)
    assert command._names("ladder,two_gpus") == ["ladder"] + ["two_gpus"] * (not says)
    assert capsys.readouterr().err == says


def test_nothing_is_recorded_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr(command.gpu, "available", lambda: False)
    assert command.main(["--only", "times"]) == command.REFUSED
    assert "no GPU: recordings are made on one" in capsys.readouterr().err


# Cards


@pytest.mark.parametrize(
    ("gpu", "card"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 3080 Ti", "rtx-3080-ti"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("Tesla T4", "t4"),
    ],
)
def test_a_card_has_a_short_name(gpu, card):
    assert cards.slug(gpu) == card


def test_the_environment_names_another_card(tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "RESULTS", tmp_path)
    monkeypatch.delenv(cards.VARIABLE, raising=False)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    cards.show("one")
    assert cards.folder() == tmp_path / "one" and cards.folder("two") == tmp_path / "two"
    monkeypatch.setenv(cards.VARIABLE, "two")
    assert cards.folder() == tmp_path / "two"
    monkeypatch.setenv(cards.VARIABLE, "three")
    with pytest.raises(ArgumentError, match="SGEMM_TUTORIAL_CARD: got 'three', needs one of one, two"):
        cards.folder()


@pytest.mark.parametrize(
    ("capability", "runs"),
    [((7, 5), ["01"]), ((8, 0), ["01", "16"]), ((9, 0), ["01", "16", "20"]), ((10, 0), ["01", "16"])],
)
def test_what_a_gpu_cannot_run_is_left_out(monkeypatch, capability, runs):
    """Instructions of one generation alone are no later one's."""
    monkeypatch.setattr(driver.gpu, "available", lambda: True)
    monkeypatch.setattr(driver.gpu, "capability", lambda: capability)
    plan = Plan("some", Recording, [(find(name),) for name in ("01", "16", "20")], iter)
    assert [kernel.name[:2] for (kernel,) in driver.runnable(plan).items] == runs

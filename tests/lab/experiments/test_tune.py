"""The tuner: settings that make sense, what is ruled out and why, a search for the quickest that loses nothing."""

import dataclasses
import types
from unittest import mock

import cupy
import numpy as np
import pytest

from lab.experiments import tune
from lab.experiments.tune import Search, Timed, Tuned, Tuning, brief_look, fitted, settings
from lab.measure import driver, sweep
from lab.records import files
from sgemm_tutorial import (
    DeviceError,
    TutorialError,
    cublas,
    find,
    gpu,
    operands,
    timing,
    tuned,
)
from sgemm_tutorial.families import any_shape, autotuned
from sgemm_tutorial.launch import Place
from sgemm_tutorial.timing import Timing
from sgemm_tutorial.tuned import Way

from ..records.test_timings import PROVENANCE

AUTOTUNED = find("13")
PLACE = ("sm_90", 132)
GOOD, OTHER, ROW = (
    (64, 128, 8, 32, 64, 8, 8, 1, 4, 4, 3, 1),
    (64, 64, 8, 32, 32, 8, 4, 1, 4, 4, 5, 1),
    list(autotuned.SETTINGS)[-1],
)
SPILLS = (128, 128, 8, 64, 64, 8, 16, 1, 4, 4, 4, 1)
TOO_LARGE = (128, 256, 8, 64, 64, 8, 16, 1, 20, 4, 1, 1)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(driver, "EVERY", 0.0)
    monkeypatch.setattr(sweep, "compile_kernels", lambda *_: None)  # but where they are used, in this process


def alone(setting):
    """Return a setting without sharing."""
    return (*setting[:-1], 0)


def names(setting):
    return autotuned.named(setting)


def test_22s_model_chooses_among_settings_that_are_tried():
    """The recording counts them by number, so their order is its own."""
    assert set(any_shape.PACES) <= set(tune.TRIED) and len(set(tune.TRIED)) == len(tune.TRIED)
    tried = [list(any_shape.setting(*of).values()) for of in tune.TRIED]
    assert tune.load("tune_22").settings["settings"][: len(tried)] == tried


def test_settings_are_what_the_dispatch_has_and_more():
    found = settings()
    blocks = autotuned.PARAMETERS.index("BLOCKS")  # fewer where it would spill on some architecture
    assert {of[:blocks] for of in autotuned.SETTINGS} < {of[:blocks] for of in found} and len(found) == len(set(found))
    for setting in found:
        of = names(setting)
        assert AUTOTUNED.variant(**of).threads in range(32, 1025, 32) and of["BLOCKS"] >= 1
        if min(of["BM"], of["BN"]) > 1:
            assert (of["WM"] // of["TM"]) * (of["WN"] // of["TN"]) == 32


@pytest.mark.parametrize(
    ("size", "in_it", "not_in_it"),
    [
        ((1024, 1024, 1024), lambda of: min(of["BM"], of["BN"]) > 1, lambda of: 1 in (of["BM"], of["BN"])),
        ((1024, 1, 1024), lambda of: of["BN"] == 1, lambda of: of["BN"] > 1),
        ((1, 1024, 1024), lambda of: of["BM"] == 1, lambda of: of["BM"] > 1),
        ((16, 1024, 1024), lambda of: of["BM"] == 16, lambda of: of["BM"] >= 64),
        (
            (1023, 1023, 1023),
            lambda of: of["WORDS"] == 1,
            lambda of: of["WORDS"] == 4,
        ),
    ],
    ids=["square", "column", "row", "thin", "odd"],
)
def test_a_size_has_the_settings_that_suit_it(size, in_it, not_in_it):
    found = [kernel.parameters for setting in settings() if (kernel := fitted(setting, size, *PLACE))]
    assert any(map(in_it, found)) and not any(map(not_in_it, found))


def test_what_cannot_do_is_ruled_out_and_the_reason_said():
    four_k = (64, 64, 4, 32, 64, 8, 8, 1, 4, 4, 4, 1)
    often = (32, 32, 32, 32, 32, 8, 4, 4, 8, 4, 4, 1)
    crowd = (128, 256, 64, 64, 64, 8, 16, 8, 4, 4, 1, 1)
    among = [GOOD, SPILLS, TOO_LARGE, four_k, often, crowd]
    found = tune.taking_part([(1024,) * 3], *PLACE, progress=False, among=among)
    assert list(found.kernels) == [alone(GOOD), GOOD]
    assert "spills" in found.obstacles[SPILLS] and "per thread at 128 registers" in found.obstacles[SPILLS]
    assert "bytes of shared memory per block" in found.obstacles[TOO_LARGE]
    assert found.obstacles[four_k].startswith("does not compile: static assertion failed")
    assert found.obstacles[often] == "fits 3 times on an SM, not 4, for shared memory"
    assert found.obstacles[crowd].startswith("2,048 threads per block")
    assert "10 of 12" in str(found.table())


def test_a_brief_look_tries_the_hopeful_and_stops_where_hope_ends():
    ways = [(10.0, 0, [Way((0,), 1, n) for n in range(3)]), (12.0, 1, [Way((1,), 1, n) for n in range(3)])]
    ways += [(17.0, 2, [Way((2,), 1, n) for n in range(3)]), (18.0, 3, [Way((3,), 1, 0)])]
    ms = {(0, 0): 2.0, (0, 1): 1.5, (0, 2): 4.0, (1, 0): 1.0, (1, 1): 0.9, (1, 2): 1.1, (2, 0): 3.0}
    asked = []

    def sample(way):
        asked.append((way.setting[0], way.shares))
        return ms[asked[-1]]

    found = brief_look(ways, sample)
    assert asked == list(ms), "of the third one division alone, of the last none"
    assert [(of, number, way.shares) for of, number, way in found] == [(0.9, 1, 1), (1.5, 0, 1), (3.0, 2, 0)]


def test_a_brief_look_takes_no_longer_than_it_may():
    ways = [(10.0, n, [Way((n,), 1, 0)]) for n in range(100)]
    assert len(brief_look(ways, lambda way: 1.0, iter(range(100)).__next__)) == tune.LOOKING


class Gpu:
    """Computes with NumPy what a search launches, and gives each setting the time that it is told."""

    def __init__(self, monkeypatch, us, wrong=()):
        self.us, self.wrong, self.launched = us, wrong, []
        monkeypatch.setattr(cupy, "empty", np.empty)
        monkeypatch.setattr(cupy, "asarray", np.asarray)
        monkeypatch.setattr(gpu, "launcher", self.launcher)
        monkeypatch.setattr(cublas, "launch", lambda problem: lambda: None)
        monkeypatch.setattr(timing, "DeviceClock", lambda: None)
        monkeypatch.setattr(tune, "brief", lambda launch, clock: launch() / 1e3)
        monkeypatch.setattr(timing, "time_interleaved", self.timed)

    def launcher(self, resolved, problem):
        function, division = resolved.instance.expression, resolved.division

        def launch():
            self.launched.append((function, division.counts["whole"]))
            np.matmul(problem.A, problem.B, out=problem.C)
            if function in self.wrong:
                problem.C[-1, -1] += 1
            return self.us(function, division.counts["shares"])

        return launch

    def timed(self, launches, **_):
        took = {name: (launch() or 50.0) / 1e3 for name, launch in launches.items()}
        return {name: Timing((0.9 * ms, ms, 1.1 * ms), 8) for name, ms in took.items()}


SIZE = (192, 128, 96)


def searching(monkeypatch, us, **more):
    fake = Gpu(monkeypatch, us, **more)
    monkeypatch.setattr(tune, "POOL", 1009)
    found = tune.taking_part([SIZE], *PLACE, progress=False, among=[GOOD, OTHER, ROW])
    return fake, Search(found.kernels, [GOOD, OTHER, ROW], Place(*PLACE))


@pytest.mark.parametrize(("us", "stays"), [(23.0, True), (24.0, False)])
def test_the_models_choice_stays_unless_another_is_clearly_quicker(monkeypatch, us, stays):
    """The imitated samples' 10th and 90th percentiles are 8% off: they part where a time is 1.08 / 0.92 of another."""
    expected, _ = tune.ON_CUDA_CORES.expected(SIZE, Place(*PLACE))
    tile = "<{}, {}".format(*expected.setting[:2])
    _, search = searching(monkeypatch, lambda name, shares: us if tile in name else 20.0)
    point = search.tune(SIZE)
    assert (point.expected_ms, point.finalists[0].ms) == (us / 1e3, 0.02)
    assert (point.best == point.expected) == stays and point.ms == (us if stays else 20.0) / 1e3


def test_the_quickest_wins_and_the_models_choice_takes_part(monkeypatch):
    _, search = searching(monkeypatch, lambda name, shares: 20.0 if "<64, 128" in name else 30.0 + shares)
    point = search.tune(SIZE)
    assert point.best.shares == 0 and point.best.setting == alone(GOOD)
    assert point.ms == 0.02 and point.cublas_ms == 0.05
    assert [number for number, *_ in point.tried] == [0, 1], "not the one for vectors"
    assert point.expected in [timed.way for timed in point.finalists] and point.expected_ms >= point.ms
    assert point.size == SIZE and point.digest == AUTOTUNED.digest
    kernel = AUTOTUNED.resolve(operands.imagined(*SIZE), Place(*PLACE)).kernel
    assert point.expected.setting == tuple(kernel.parameters.values())


def test_what_computes_wrong_values_wins_nothing(monkeypatch):
    wrong = [AUTOTUNED.variant(**names(of)).expression for of in (GOOD, alone(GOOD))]
    _, search = searching(monkeypatch, lambda name, shares: 20.0, wrong=wrong)
    with pytest.raises(TutorialError, match=r"64, 128, 8.* is wrong at M×N×K = 192×128×96"):
        search.tune(SIZE)


def test_matrices_are_filled_to_the_last_element(monkeypatch):
    _, search = searching(monkeypatch, lambda name, shares: 20.0)
    matrix = np.full((70, 51), np.nan, np.float32)
    search._fill(matrix, 500)
    assert np.isfinite(matrix).all() and abs(matrix.mean()) < 0.1 and (matrix[0] != matrix[1]).any()


def point(size, ms=1.0, expected_ms=1.25):
    M, N, K = size
    ways = Way(GOOD, 3, 0), Way(OTHER, 0, 6)
    final = [Timed(way, ms=took, ms_p10=took, ms_p90=took) for way, took in zip(ways, (ms, expected_ms), strict=True)]
    tried = [(0, 3, 0, 1e3 * ms), (1, 0, 6, 1e3 * expected_ms)]
    of = files.fields(AUTOTUNED) | {"M": M, "N": N, "K": K, "cublas_ms": 1.1 * ms}
    return Tuned(**of, best=ways[0], expected=ways[1], finalists=final, tried=tried)


class Eye:
    """Finds something at each size; `fault` is raised at one."""

    def __init__(self, fault=None, at=None):
        self.fault, self.at, self.seen = fault, at, []

    def plan(self, sizes, settings=((1, 2),)):
        def measure(missing):
            for _, size in missing:
                if len(self.seen) == self.at:
                    raise self.fault
                self.seen.append(size)
                yield point(size)

        shared = {"settings": list(map(list, settings))}
        return dataclasses.replace(tune.plan(sizes), measure=measure, settings=shared)


SIZES = [(n, n, n) for n in (256, 512, 1024)]


def tuning(eye, path, sizes=SIZES, made=PROVENANCE, **more):
    wanted = eye.plan(sizes, **more)
    with (
        mock.patch.object(tune, "plan", lambda *_: wanted),
        mock.patch.object(tune, "provenance", lambda: dict(made)),
    ):
        return tune.tune(sizes, path=path, progress=False)


def test_nothing_is_lost_and_nothing_is_done_twice(tmp_path):
    path, eye = tmp_path / "t.json", Eye(KeyboardInterrupt(), at=2)
    first = tuning(eye, path)
    assert not first.complete and [p.size for p in first.points] == SIZES[:2] and files.load(path, Tuning) == first
    more = Eye()
    second = tuning(more, path, [SIZES[2], (5, 6, 7)])
    assert more.seen == [SIZES[2], (5, 6, 7)] and second.complete
    assert {p.size for p in second.points} == {*SIZES, (5, 6, 7)}, "a table grows"
    assert [file.name for file in tmp_path.iterdir()] == ["t.json"]


def test_a_lost_gpu_leaves_the_table(tmp_path):
    with pytest.raises(DeviceError, match=r"it fell off; what was found before is in .*t.json"):
        tuning(Eye(DeviceError("it fell off"), at=1), tmp_path / "t.json")
    assert [p.size for p in files.load(tmp_path / "t.json", Tuning).points] == SIZES[:1]


@pytest.mark.parametrize("more", [{"made": PROVENANCE | {"driver": "other"}}, {"settings": ((3, 4),)}], ids=str)
def test_what_cannot_be_continued_is_kept_beside(tmp_path, more):
    path = tmp_path / "t.json"
    tuning(Eye(), path)
    before, eye = path.read_bytes(), Eye()
    tuning(eye, path, SIZES[:1], **more)
    assert eye.seen == SIZES[:1] and len(files.load(path, Tuning).points) == 1
    assert (tmp_path / "t.old.json").read_bytes() == before


def test_what_was_found_for_other_code_is_found_again(tmp_path):
    path = tmp_path / "t.json"
    recording = tuning(Eye(), path)
    stale = dataclasses.replace(recording.points[0], digest="0" * 12)
    files.write(path, dataclasses.replace(recording, points=[stale, *recording.points[1:]]))
    eye = Eye()
    assert len(tuning(eye, path).points) == 3 and eye.seen == SIZES[:1]


def test_the_budget_ends_it_between_sizes(monkeypatch):
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(tune, "time", types.SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(gpu, "place", lambda: Place(*PLACE))
    monkeypatch.setattr(tune, "taking_part", lambda sizes, *_: sweep.Field({}, {GOOD: "spills"}, autotuned.PARAMETERS))
    monkeypatch.setattr(tune, "Search", lambda *_: types.SimpleNamespace(tune=point))
    said = []
    plan = tune.plan(SIZES, 25, said.append)
    assert [p.size for p in plan.measure(list(plan.items))] == SIZES[:2]
    assert "spills" in str(said[0])


THIN, TINY, LONG, ODD = (57, 2, 18), (256, 256, 256), (64, 512, 8192), (100, 200, 3001)


def test_settings_of_22_are_searched_where_its_model_leaves_nothing_to_thin():
    plan = tune.tensor_plan([THIN, TINY, LONG, ODD])
    assert [(kernel.name, size) for kernel, size in plan.items] == [(find("22").name, of) for of in (TINY, LONG, ODD)]
    assert {tuple(of.values()) for of in any_shape.SETTINGS} < set(map(tuple, plan.settings["settings"]))


@pytest.mark.parametrize("size", [THIN, TINY, LONG, ODD], ids=str)
def test_what_the_model_of_22_expects_to_be_quickest_is_among_the_ways(size):
    """It is the first of them if only the model's own settings take part, also where `thin` would take over."""
    every, place = [tuple(of.values()) for of in (*any_shape.SETTINGS, *any_shape.DEEP_SETTINGS)], Place(*PLACE)
    expected, kernel = tune._expected_on_tensor_cores(size, place)
    found = tune._ways_on_tensor_cores({}, every, size, place)
    _, number, ways = min(found, key=lambda of: of[0])
    names = any_shape.PARAMETERS if kernel.name == find("22").name else any_shape.DEEP_PARAMETERS
    assert (kernel.name == any_shape.DEEP.name) == (size in (LONG, ODD))
    assert ways[0] == expected and expected.setting == every[number]
    assert all(0 < len(ways) <= tune.DIVISIONS and {way.setting for way in ways} == {every[n]} for _, n, ways in found)
    launched = kernel.variant(**dict(zip(names, expected.setting, strict=True)))
    launched = launched.divided(expected.whole, expected.shares).resolve(operands.imagined(*size, kernel.types), place)
    of, tiles = launched.kernel.parameters, launched.kernel.grid(*size[:2])
    blocks = expected.shares * (of["CLUSTER"] if "CLUSTER" in of else of["SPLIT"] * tiles)
    assert launched.blocks == blocks, "as `Search` launches it"


def test_the_reader_s_table_is_what_the_dispatch_reads(tmp_path, monkeypatch):
    """The lean form that `tuned` reads and the whole form that is written are one file."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    recording = tuning(Eye(), None)
    assert recording.complete
    assert tuned.best(AUTOTUNED, PROVENANCE["gpu"], SIZES[1]) == Way(GOOD, 3, 0)
    assert tuned.best(AUTOTUNED, "another", SIZES[1]) is None


def test_tables_and_lines_are_made_of_it():
    points = [point(size, ms) for size, ms in zip([*SIZES, (5, 6, 7)], (0.01, 0.05, 0.3, 0.01), strict=True)]
    shown = tune.table(points, "Imaginary GPU")
    assert [row[0] for row in shown.rows][3] == "5×6×7" and {row[1] for row in shown.rows} == {"64×128"}
    assert shown.rows[2][7:] == ("110.0%", "24.0%")
    lines = tune.by_tile(points, [GOOD, OTHER])
    assert list(lines) == ["64×128", "cuBLAS"] and lines["64×128"][1] == (512, pytest.approx(2 * 512**3 / 0.05e9))
    slower = [dataclasses.replace(of, tried=[*of.tried, (*of.tried[0][:3], 1e6)]) for of in points]
    assert tune.by_tile(slower, [GOOD, OTHER]) == lines
    assert tune.by_tile(points[:1], [GOOD, OTHER]) == {}
    assert tune.tile_of(OTHER) == "64×64"

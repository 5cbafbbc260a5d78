"""A benchmark keeps what it measured, continues where it stopped, and never mixes what differs."""

import dataclasses
import shutil
from unittest import mock

import numpy as np
import pytest

from lab import bench_or_recording
from lab.measure import bench as bench_module
from lab.measure import driver
from lab.measure.bench import BenchError, bench
from lab.records import cards, files
from lab.records.sizes import parse_sizes
from lab.records.timings import load
from sgemm_tutorial import (
    LADDER,
    ArgumentError,
    DeviceError,
    TutorialError,
    find,
    gpu,
)
from sgemm_tutorial.operands import FP32, FP64
from sgemm_tutorial.timing import Timing

from ..records.test_timings import POINT, PROVENANCE, record

KERNELS = [find("01"), find("02")]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(driver, "EVERY", 0.0)


class Meter:
    """Imitates measuring: the k-th measurement takes k ms against cuBLAS's 1 ms; `fault` is raised at one."""

    def __init__(self, fault=None, at=None):
        self.fault, self.at, self.taken = fault, at, []

    def __call__(self, kernels, size, flush_l2):
        for kernel in kernels:
            if len(self.taken) == self.at:
                raise self.fault
            self.taken.append((kernel.name, size))
            own = Timing((len(self.taken) - 0.1, float(len(self.taken)), len(self.taken) + 0.1), 3)
            yield kernel, own, Timing((1.0,) * 3, 8), None


def run(meter, kernels=KERNELS, sizes=(256, (5, 6, 7)), provenance=None, **more):
    with mock.patch.object(bench_module, "provenance", lambda: provenance or dict(PROVENANCE)):
        return bench(kernels, sizes, **{"progress": False, "measure": meter} | more)


def test_every_kernel_is_measured_at_every_size():
    meter = Meter()
    result = run(meter)
    names = [kernel.name for kernel in KERNELS]
    assert meter.taken == [(name, size) for size in ((256,) * 3, (5, 6, 7)) for name in names]
    assert [(p.kernel, p.size) for p in result.points] == meter.taken
    second = result.points[1]
    assert (second.ms, second.cublas_ms, second.samples, second.batch) == (2.0, 1.0, 3, 3)
    assert second.ms_p10 < second.ms < second.ms_p90
    assert second.percent_of_cublas == 50
    assert result.complete and result.settings["flush_l2"] is False


@pytest.mark.parametrize("with_path", [True, False])
def test_a_lost_gpu_keeps_what_was_measured(tmp_path, with_path):
    path = tmp_path / "r.json" if with_path else None
    with pytest.raises(BenchError, match="the GPU fell off; points measured before: 3,") as caught:
        run(Meter(DeviceError("the GPU fell off"), at=3), path=path)
    assert isinstance(caught.value, DeviceError)
    assert len(caught.value.record.points) == 3 and not caught.value.record.complete
    if with_path:
        assert str(path) in str(caught.value)
        assert load(path).points == caught.value.record.points


def test_an_interrupt_returns_and_saves_what_was_measured(tmp_path):
    result = run(Meter(KeyboardInterrupt(), at=1), path=tmp_path / "r.json")
    assert len(result.points) == 1 and not result.complete
    assert load(tmp_path / "r.json") == result


def test_each_point_is_on_disk_before_the_next_is_measured(tmp_path):
    class Watching(Meter):
        def __call__(self, kernels, size, flush_l2):
            for i, measured in enumerate(super().__call__(kernels, size, flush_l2)):
                yield measured
                assert len(load(tmp_path / "r.json").points) == len(self.taken), i

    run(Watching(), path=tmp_path / "r.json")


def test_it_continues_where_it_stopped(tmp_path):
    path = tmp_path / "r.json"
    run(Meter(KeyboardInterrupt(), at=3), path=path)
    later = PROVENANCE | {"date": "2026-12-01T00:00:00+00:00"}
    meter = Meter()
    result = run(meter, path=path, provenance=later)
    assert meter.taken == [("02_coalesced", (5, 6, 7))]
    assert len(result.points) == 4 and result.complete
    assert result.provenance["date"] == PROVENANCE["date"]
    assert load(path) == result
    more = Meter()
    run(more, path=path, sizes=(256, 512))
    assert [size for _, size in more.taken] == [(512,) * 3] * 2
    assert len(load(path).points) == 6


@pytest.mark.parametrize("key", ["gpu", "driver", "cublas"])
def test_another_machine_or_software_is_refused_and_the_file_left_alone(tmp_path, key):
    path = tmp_path / "r.json"
    run(Meter(), path=path)
    before = path.read_bytes()
    with pytest.raises(ArgumentError, match=f"a recording with {key} '{PROVENANCE[key]}'.* another file"):
        run(Meter(), path=path, provenance=PROVENANCE | {key: "other"})
    with pytest.raises(ArgumentError, match="a recording with settings"):
        run(Meter(), path=path, flush_l2=True)
    assert path.read_bytes() == before


def test_a_changed_source_is_measured_again(tmp_path):
    path = tmp_path / "r.json"
    kernel = dataclasses.replace(find("02"), folder=tmp_path)
    shutil.copy(find("02").path, kernel.path)
    run(Meter(), kernel, path=path)
    kernel.path.write_text(kernel.source + "\n\n// no other code\n", encoding="utf-8")
    meter = Meter()
    run(meter, kernel, path=path)
    assert not meter.taken
    kernel.path.write_text(kernel.source.replace("k < K", "k != K"), encoding="utf-8")
    meter = Meter()
    result = run(meter, kernel, path=path)
    assert len(meter.taken) == 2 and len(result.points) == 2
    assert {p.digest for p in result.points} == {kernel.digest}


def test_other_parameters_are_other_points():
    kernels = [find("02"), find("02").variant(BM=16, BN=16)]
    result = run(Meter(), kernels, 64)
    assert [p.parameters for p in result.points] == [find("02").parameters, {"BM": 16, "BN": 16}]


def test_progress_is_on_stderr_only(capsys):
    run(Meter(), sizes=64, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "bench" in err


@pytest.mark.parametrize("sizes", [(), 0, -4, (0, 5), [(1, 2)], [(1, 2, 0)], ["64"], [(1.5, 2, 3)], [True], 2**31])
def test_bad_sizes_are_refused_before_anything_is_measured(sizes):
    meter = Meter()
    with pytest.raises(ArgumentError, match="sizes"):
        run(meter, sizes=sizes)
    assert not meter.taken


@pytest.mark.parametrize("kernels", ["nonsense", [], [3]])
def test_bad_kernels_are_refused(kernels):
    with pytest.raises(ArgumentError):
        run(Meter(), kernels)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("4096", [(4096,) * 3]),
        ("512,1024", [(512,) * 3, (1024,) * 3]),
        ("256:1024:256", [(n, n, n) for n in (256, 512, 768, 1024)]),
        ("256:1000:256", [(n, n, n) for n in (256, 512, 768)]),
        ("7:7:1", [(7, 7, 7)]),
        ("300x200x100", [(300, 200, 100)]),
        ("1x2x3, 5:6:1", [(1, 2, 3), (5, 5, 5), (6, 6, 6)]),
    ],
)
def test_parse_sizes(text, sizes):
    assert list(parse_sizes(text)) == sizes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "4096x",
        "1x2",
        "1x2x3x4",
        "-4",
        "4.5",
        "1:2",
        "5:1:1",
        "1:5:0",
        "1:5:-1",
        "0",
        "1x0x3",
        "64,",
        "2147483648",
        "1:2147483647:1",
        "٣",
    ],
)
def test_nonsense_sizes_are_refused(text):
    with pytest.raises(ArgumentError, match="sizes: got"):
        parse_sizes(text)


def test_zero_is_a_size_where_it_is_allowed():
    assert parse_sizes("0,0x5x0", least=0) == ((0, 0, 0), (0, 5, 0))


@pytest.fixture
def recording(tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "RESULTS", tmp_path)
    monkeypatch.setenv(cards.VARIABLE, "imaginary")
    monkeypatch.setattr(gpu, "available", lambda: False)
    slow = dataclasses.replace(POINT, **files.fields(find("01")), ms=50.0)
    files.write(tmp_path / "imaginary" / "ladder.json", record(POINT, slow))


def test_without_a_gpu_the_recording_is_shown(recording, capsys):
    found = bench_or_recording(sizes=[POINT.size])
    assert capsys.readouterr().out == ("No GPU here: showing the recording made on Imaginary GPU on 2026-11-20.\n")
    assert [row[0] for row in found.table().rows] == ["02_coalesced", "01_naive"]
    assert len(bench_or_recording("01", [POINT.size]).points) == 1


def test_a_recording_without_what_is_asked_says_what_it_has(recording):
    message = r"17×17×17: not in the recording ladder, needs some of 4096×4096×2048"
    with pytest.raises(ArgumentError, match=message):
        bench_or_recording("02", sizes=[17])


@pytest.mark.parametrize(("M", "N"), [(200, 300), (1, 1), (3, 70)])
def test_the_spot_check_sees_wrong_corners(M, N):
    random = np.random.default_rng(1)
    A, B = (random.standard_normal(shape).astype(np.float32) for shape in ((M, 9), (9, N)))

    class Rows(list):
        shape = (M, N)

    def on_device(C):
        return Rows(type("Row", (), {"get": lambda self, row=row: row})() for row in C)

    C = A @ B
    bench_module._spot_check("k", on_device(C), A, B, FP32)
    C[-1, -1] = np.nan
    with pytest.raises(TutorialError, match=rf"k is wrong .* \({M - 1}, {N - 1}\)"):
        bench_module._spot_check("k", on_device(C), A, B, FP32)


@pytest.mark.skipif(gpu.available(), reason="there is a GPU")
def test_without_a_gpu_bench_says_so():
    with pytest.raises(DeviceError, match="no GPU"):
        bench(LADDER, 64)


def test_kernels_of_one_type_are_timed_together(monkeypatch):
    of = {
        name: dataclasses.replace(find("01"), types=types, label=name)
        for name, types in (("single", FP32), ("double", FP64), ("another", FP32))
    }
    timed = []
    monkeypatch.setattr(gpu, "load", lambda kernel: None)
    monkeypatch.setattr(
        bench_module,
        "_of_types",
        lambda types, kernels, size, flush_l2: (
            timed.append((types, [kernel.label for kernel in kernels], size, flush_l2)) or iter(kernels)
        ),
    )
    assert [kernel.label for kernel in bench_module.on_gpu(list(of.values()), (1, 2, 3), True)] == [
        "single",
        "another",
        "double",
    ]
    assert timed == [(FP32, ["single", "another"], (1, 2, 3), True), (FP64, ["double"], (1, 2, 3), True)]


class Searching(Meter):
    """Finds an algorithm of cuBLASLt that takes half as long as cuBLAS, but for one row, where there is none."""

    def __call__(self, kernels, size, flush_l2, search):
        assert search
        for *measured, _ in super().__call__(kernels, size, flush_l2):
            yield *measured, None if size[0] == 1 else (Timing((0.5, 0.4, 0.6), 8), ("algorithm 1", 12))


def test_the_second_opponent_is_kept_beside_the_first():
    of = bench_module.plan("both", [(KERNELS[1], (1, 6, 7)), (KERNELS[1], (5, 6, 7))], search=True, measure=Searching())
    without, point = of.measure(of.items)
    assert of.settings["cublaslt"] == {"requested": 64, "workspace_bytes": 2**25}
    assert without.searched is None and without.percent_of_searched == without.percent_of_cublas == 100
    assert (point.searched.algorithm, point.searched.tried, point.searched.ms) == ("algorithm 1", 12, 0.5)
    assert (point.ms, point.percent_of_cublas, point.opponent_ms) == (2.0, 50, 0.5)
    assert point.percent_of_searched == pytest.approx(100 * 0.5 / 1.9), "the middle one of three pairs"
    twice = point.joined(point)
    assert twice.searched.tried == 12 and len(twice.processes) == 2 and twice.samples == 6


def test_what_is_recorded_of_it_survives_the_round_trip(tmp_path):
    of = bench_module.plan("both", [(KERNELS[1], (1, 6, 7)), (KERNELS[1], (5, 6, 7))], search=True, measure=Searching())
    driver.follow(of, dict(PROVENANCE), [], lambda now: files.write(tmp_path / "both.json", now))
    read = load(tmp_path / "both.json")
    assert [point.searched and point.searched.ms for point in read.points] == [None, 0.5]
    assert read.points[1].processes[0].searched.ms == [0.5, 0.4, 0.6]

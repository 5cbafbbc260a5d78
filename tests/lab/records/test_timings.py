"""Records keep what was measured, and say what is wrong with a file that is not one."""

import dataclasses
import json
import os

import pytest

import lab
from lab.records import cards, files, provenance
from lab.records.timings import (
    Point,
    Process,
    Record,
    Samples,
    load,
    recorded,
)
from sgemm_tutorial import ArgumentError, DeviceError, find, gpu

PROVENANCE = {
    "gpu": "Imaginary GPU",
    "compute_capability": "9.0",
    "multiprocessors": 100,
    "memory_bytes": 2**34,
    "l2_bytes": 2**25,
    "sm_clock_max_mhz": 1980,
    "memory_clock_max_mhz": 2619,
    "driver": "580.1",
    "driver_cuda": "13.0",
    "cuda_runtime": "13.2",
    "nvrtc": "13.0",
    "cublas": "13.1.0",
    "cupy": "14.2.0",
    "numpy": "2.4.6",
    "python": "3.12.3",
    "system": "Linux x86_64",
    "date": "2026-11-20T12:00:00+00:00",
}
POINT = Point(
    **files.fields(find("02")),
    M=4096,
    N=4096,
    K=2048,
    ms=10.0,
    ms_p10=9.9,
    ms_p90=10.4,
    cublas_ms=2.5,
    cublas_ms_p10=2.4,
    cublas_ms_p90=2.6,
    samples=50,
    batch=1,
)


def record(*points, complete=True):
    return Record(dict(PROVENANCE), {"flush_l2": False}, complete, list(points))


def in_processes(*medians, cublas=1.0, **more):
    """Return a point of several processes, each of which took the same time in three samples."""
    nothing = [None] * 3
    parts = [Process(Samples([ms] * 3, nothing, nothing), Samples([cublas] * 3, nothing, nothing)) for ms in medians]
    return Point.summing(1, parts, **files.fields(find("02")) | {"M": 64, "N": 64, "K": 64} | more)


def test_rates_follow_the_formulas():
    assert POINT.tflops == pytest.approx(2 * 4096 * 4096 * 2048 / 10e-3 / 1e12)
    assert POINT.percent_of_cublas == pytest.approx(25)


def test_a_clock_that_falls_between_samples_changes_no_percentage():
    """Both are as fast in every pair, but cuBLAS's median lies in the slow half and the kernel's in the fast one."""
    nothing = [None] * 4
    fast, slow = (
        Process(Samples(own, nothing, nothing), Samples(theirs, nothing, nothing))
        for own, theirs in (([1.0, 1.0, 1.0, 1.4], [1.0, 1.0, 1.0, 2.0]), ([2.0] * 4, [2.0] * 4))
    )
    point = dataclasses.replace(in_processes(1.0), ms=1.0, cublas_ms=2.0, processes=[fast, slow])
    assert (point.percent_of_cublas, point.percent_of_searched, point.opponent_ms) == (100, 100, 2.0)


def test_a_record_survives_the_round_trip(tmp_path):
    path = tmp_path / "new" / "folder" / "ladder.json"
    before = record(POINT, dataclasses.replace(POINT, M=1, ms=1e-3), in_processes(1.0, 1.25), complete=False)
    files.write(path, before)
    assert load(path) == before
    text = path.read_text(encoding="utf-8")
    assert '"ms": [1.25, 1.25, 1.25]' in text and "null, null, null" in text, "a list of numbers is one line"
    assert max(map(len, text.splitlines())) < 60
    assert [p.name for p in path.parent.iterdir()] == ["ladder.json"]


def test_rates_are_in_what_the_command_line_prints():
    (point,) = record(POINT).as_dict()["points"]
    assert point["tflops"] == pytest.approx(POINT.tflops, rel=1e-4) and point["percent_of_cublas"] == 25


def test_a_file_is_read_once_until_it_changes(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    files.write(path, record(POINT))
    assert load(path) is load(path)
    files.write(path, record(POINT, POINT))
    assert len(load(path).points) == 2


def test_a_failed_save_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    files.write(path, record(POINT))
    whole = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        files.write(path, record(POINT, POINT))
    with pytest.raises(ValueError, match="JSON"):
        files.write(path, record(dataclasses.replace(POINT, ms=float("nan"))))
    assert path.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """The folder of the card that is shown."""
    monkeypatch.setattr(cards, "RESULTS", tmp_path)
    monkeypatch.setenv(cards.VARIABLE, "imaginary")
    (tmp_path / "imaginary").mkdir()
    return tmp_path / "imaginary"


def test_load_by_name(shown):
    with pytest.raises(ArgumentError, match=r"nothing.json, needs a recording \(none so far\)"):
        load("nothing")
    files.write(shown / "ladder.json", record(POINT))
    assert load("ladder").points == [POINT]
    with pytest.raises(ArgumentError, match=r"name: got lader, no file .*lader.json, needs a recording \(ladder\)"):
        load("lader")


def test_what_was_recorded_of_other_code_is_not_shown_as_this_kernels(shown):
    files.write(shown / "ladder.json", record(POINT))
    edited = find("02").edited(("k < K", "k != K"))
    assert recorded("02").points == [POINT]
    with pytest.raises(
        ArgumentError, match=r"02_coalesced<8, 32>, in ladder recorded of other code, .* measures it anew"
    ):
        recorded(edited)
    with pytest.raises(ArgumentError, match="02_coalesced<8, 32>, in ladder recorded of other code"):
        recorded(edited, [POINT.size])
    with pytest.raises(
        ArgumentError, match="01_naive<32, 8>, not in the recording ladder, needs a kernel that was recorded, or a GPU"
    ):
        recorded("01")
    with pytest.raises(ArgumentError, match=r"sizes: got 64×64×64: not in .* ladder, needs some of 4096×4096×2048"):
        recorded("02", 64)


def malformed(data, path, value):
    *outer, last = path
    for key in outer:
        data = data[key]
    if value is None:
        del data[last]
    else:
        data[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("points",), None, "missing required field `points`"),
        (("points",), {}, r"Expected `array`, got `object` - at `\$.points`"),
        (("settings",), 3, r"\$.settings"),
        (("provenance", "gpu"), None, r"missing required field `gpu` - at `\$.provenance`"),
        (("points", 1), 5, r"\$.points\[1\]"),
        (("points", 1, "ms"), None, r"missing required field `ms` - at `\$.points\[1\]`"),
        (("points", 0, "ms"), "12", r"Expected `float`, got `str` - at `\$.points\[0\].ms`"),
        (("points", 0, "cublas_ms_p90"), True, r"\$.points\[0\].cublas_ms_p90"),
        (("points", 0, "M"), 4.5, r"\$.points\[0\].M"),
        (("points", 0, "cublas_ms"), -1, r"> 0.* - at `\$.points\[0\].cublas_ms`"),
        (("points", 0, "parameters"), [], r"\$.points\[0\].parameters"),
        (("points", 0, "digest"), None, r"missing required field `digest`"),
    ],
)
def test_a_malformed_file_is_named_with_its_field(tmp_path, path, value, message):
    file = tmp_path / "bad.json"
    data = record(POINT, POINT).as_dict()
    malformed(data, path, value)
    file.write_text(json.dumps(data))
    with pytest.raises(ArgumentError, match=message) as caught:
        load(file)
    assert "bad.json" in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", "", "\xff"])
def test_not_a_recording_at_all(tmp_path, text):
    (tmp_path / "bad.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ArgumentError, match=r"bad.json: got a malformed file \(.*\), needs a recording"):
        load(tmp_path / "bad.json")


def test_a_points_samples_are_summed_over_processes():
    point = in_processes(1.0, 3.0, 2.0, cublas=0.5)
    assert (point.ms, point.ms_p10, point.ms_p90) == (2.0, 1.0, 3.0)
    assert (point.medians, point.samples, point.times, point.cublas_ms) == ([1.0, 3.0, 2.0], 9, 3, 0.5)
    assert in_processes(1.0, 3.0, cublas=0.5).joined(in_processes(2.0, cublas=0.5)) == point
    assert POINT.medians == [10.0] and POINT.times == 0


def test_noise_is_what_processes_differ_by():
    assert record(POINT).noise is None
    assert record(in_processes(2.0, 2.0, 2.0)).noise == 0
    quiet, loud = (record(*[in_processes(1.0, 1.0 + d, 1.0 - d, K=k) for k in (1, 2)]).noise for d in (0.001, 0.01))
    assert quiet == pytest.approx(2 * 0.001 * (2 / 3) ** 0.5, rel=0.01)
    assert loud == pytest.approx(10 * quiet, rel=0.01)


def test_the_table_names_the_gpu_and_orders_by_size():
    small = dataclasses.replace(POINT, M=256, N=256, K=256)
    table = record(POINT, small, complete=False).table()
    assert [row[1] for row in table.rows] == ["256×256×256", "4096×4096×2048"]
    assert table.title == "Imaginary GPU, 2026-11-20 (broken off)"
    assert "25.0" in str(table) and "580.1" in table.note


def test_the_table_tells_variants_apart():
    variant = dataclasses.replace(POINT, parameters={"BM": 8, "BN": 16}, ms=1.0, ms_p10=0.98765, ms_p90=1.0)
    table = record(POINT, variant).table()
    assert table.columns[1] == "parameters"
    assert [row[1] for row in table.rows] == ["BM 8, BN 32", "BM 8, BN 16"]
    assert table.rows[1][4] == "0.988–1.00"
    assert "parameters" not in record(variant).table().columns


def test_select():
    other = dataclasses.replace(POINT, **files.fields(find("01")), M=1)
    both = record(POINT, other)
    assert both.select([find("01")]).points == [other]
    assert both.select([find("01").variant(BM=2)]).points == []
    assert both.select(sizes=[POINT.size]).points == [POINT]
    assert both.select([find("01")], [POINT.size]).points == []
    assert both.points == [POINT, other]


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Wed Jan 1 00:00:00 UTC 2026\nGCC version: 13.2.0",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
    ],
)
def test_the_drivers_version_is_read(tmp_path, monkeypatch, text):
    monkeypatch.setattr(provenance, "DRIVER", tmp_path / "version")
    (tmp_path / "version").write_text(text)
    assert provenance._driver.__wrapped__() == "580.159.04"


def test_a_version_in_an_error_is_not_the_drivers(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "DRIVER", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'NVML library version: 580.95'\nexit 18\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert provenance._driver.__wrapped__() == "unknown"


def test_versions_are_dotted():
    assert [provenance._dotted(v) for v in (13020, 12080, 13000)] == ["13.2", "12.8", "13.0"]


@pytest.mark.skipif(gpu.available(), reason="there is a GPU")
def test_without_a_gpu_there_is_no_provenance():
    with pytest.raises(DeviceError, match="no GPU"):
        provenance.provenance()


def test_a_card_without_recordings_is_stood_in_for(monkeypatch):
    monkeypatch.setenv(cards.VARIABLE, "h100")
    assert cards.stand_in("ladder") == "" and cards.shown() == "h100"
    assert (
        cards.stand_in("ladder", "shapes") == "There is no recording of this of the card h100: what follows is of h200."
    )
    assert cards.shown() == "h200"
    with pytest.raises(ArgumentError, match=r"^names: got nothing, needs recordings that one of h100, h200 has"):
        cards.stand_in("nothing")


def test_the_climb_ends_with_12_where_it_was_recorded(monkeypatch):
    *rungs, last = lab.climb(4096).points
    assert rungs == recorded(sizes=4096, recording="ladder").points
    assert [last] == recorded("13", 4096, "squares").points == recorded("13", 4096).points
    shown, other = lab.climb(4096), lab.climb(4096, "h100")
    assert lab.climb(4096, "h200") == shown
    monkeypatch.setenv(cards.VARIABLE, "h100")
    assert lab.climb(4096) == recorded(sizes=4096) == other

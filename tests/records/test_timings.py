"""Records keep what was measured, and say what is wrong with a file that is not one."""

import dataclasses
import json
import os

import pytest

from sgemm_tutorial import ArgumentError, DeviceError, find, gpu, records
from sgemm_tutorial.records import timings
from sgemm_tutorial.records.provenance import provenance
from sgemm_tutorial.records.timings import Point, Record, load, save

PROVENANCE = {
    "gpu": "Imaginary GPU",
    "date": "2026-11-20T12:00:00+00:00",
    "driver": "580.1",
    "nvrtc": "13.0",
    "cublas": "13.1.0",
    "cupy": "14.2.0",
}
POINT = Point("02_coalesced", find("02").parameters, 4096, 4096, 2048, 10.0, 9.9, 10.4, 50, 1, 2.5, 2.4, 2.6, "abc")


def record(*points, **more):
    return Record(dict(PROVENANCE), {"flush_l2": False}, list(points), **more)


def test_rates_follow_the_formulas():
    assert POINT.tflops == pytest.approx(2 * 4096 * 4096 * 2048 / 10e-3 / 1e12)
    assert POINT.percent_of_cublas == pytest.approx(25)


def test_a_record_survives_the_round_trip(tmp_path):
    path = tmp_path / "new" / "folder" / "ladder.json"
    before = record(POINT, dataclasses.replace(POINT, M=1, ms=1e-3), complete=False)
    save(path, before)
    assert load(path) == before
    first = json.loads(path.read_text())["points"][0]
    assert first["tflops"] == pytest.approx(POINT.tflops, rel=1e-4) and first["percent_of_cublas"] == 25
    assert [p.name for p in path.parent.iterdir()] == ["ladder.json"]


def test_a_failed_save_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    save(path, record(POINT))
    whole = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        save(path, record(POINT, POINT))
    with pytest.raises(ValueError, match="JSON"):
        save(path, record(dataclasses.replace(POINT, ms=float("nan"))))
    assert path.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [path]


def test_load_by_stem(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    with pytest.raises(ArgumentError, match=r"nothing.json, needs a recording \(none so far\)"):
        load("nothing")
    save(tmp_path / "ladder.json", record(POINT))
    assert load("ladder").points == [POINT]
    with pytest.raises(ArgumentError, match=r"name: got lader, no file .*lader.json, needs a recording \(ladder\)"):
        load("lader")


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
        (("points",), None, "points: got nothing"),
        (("points",), {}, "points: got {}, needs a JSON value of type list"),
        (("settings",), 3, "settings: got 3"),
        (("provenance", "gpu"), None, "provenance.gpu: got nothing"),
        (("points", 1), 5, r"points\[1\]: got int"),
        (("points", 1, "ms"), None, r"points\[1\].ms: got nothing"),
        (("points", 0, "ms"), "12", r"points\[0\].ms: got '12', needs a number"),
        (("points", 0, "cublas_ms_p90"), True, r"points\[0\].cublas_ms_p90: got True, needs a number"),
        (("points", 0, "M"), 4.5, r"points\[0\].M: got 4.5"),
        (("points", 0, "cublas_ms"), -1, r"points\[0\].cublas_ms: got -1, needs a positive time"),
        (("points", 0, "parameters"), [], r"points\[0\].parameters: got \[\]"),
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


@pytest.mark.parametrize(("text", "message"), [("{", "malformed JSON"), ("[]", "top: got list"), ("", "malformed")])
def test_not_json_at_all(tmp_path, text, message):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ArgumentError, match=message):
        load(tmp_path / "bad.json")


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
    other = dataclasses.replace(POINT, kernel="01_naive", parameters=find("01").parameters, M=1)
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
    monkeypatch.setattr(records, "DRIVER", tmp_path / "version")
    (tmp_path / "version").write_text(text)
    assert timings._driver() == "580.159.04"


def test_versions_are_dotted():
    assert [timings._dotted(v) for v in (13020, 12080, 13000)] == ["13.2", "12.8", "13.0"]


@pytest.mark.skipif(gpu.available(), reason="there is a GPU")
def test_without_a_gpu_there_is_no_provenance():
    with pytest.raises(DeviceError, match="no GPU"):
        provenance.provenance()
